"""A partition's directory that somebody packed into an archive in the log directory, and removed."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from kcli.log import packed_directories as packed
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import PARTITION, SOURCE, directory, loud
from tests.inspector.test_verify_misplaced import contents

__all__ = ["directory"]

PACKED = {
    "tar.gz": f"tar -czf {PARTITION}.tar.gz {PARTITION}",
    "old.tar, from the root on": f"tar -cf old.tar --transform 's,^,var/lib/kafka/,' {PARTITION}",
    "tar.zst, of the files alone": f"tar -C {PARTITION} -I zstd -cf {PARTITION}.tar.zst .",
    "tar.xz among other partitions": f"tar -cJf all.tar.xz ./crafted-0 ./{PARTITION}",
    "tar.lz4": f"tar -I lz4 -cf p.tar.lz4 {PARTITION}",
    "tar.bz2": f"tar -cjf p.tbz {PARTITION}",
    "zip": f"python3 -m zipfile -c p.zip {PARTITION}",
}


@pytest.mark.parametrize("command", PACKED.values(), ids=list(PACKED))
def test_an_archive_of_the_directory(directory: Path, command: str) -> None:
    subprocess.run(["bash", "-c", command], cwd=directory, check=True, capture_output=True)
    shutil.rmtree(directory / PARTITION)
    (archive,) = {each.name for each in directory.iterdir()} - {each.name for each in SOURCE.iterdir()}
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == ("partition-missing", str(directory / PARTITION))
    assert finding.found == f"no such directory: its files are in {archive}, which Kafka does not read"
    assert finding.lost_last_offset is None
    rows = map(json.loads, kcli("recover", "--format", "jsonl", directory).stdout.splitlines())
    (row,) = [each for each in rows if each["kind"] == "partition-missing"]
    assert (row["archive"], row["command"]) == (archive, finding.command)
    subprocess.run(["bash", "-c", row["command"]], check=True, capture_output=True)
    (directory / archive).unlink()
    assert contents(directory) == contents(SOURCE)


@pytest.mark.parametrize("damage", ["cut", "header", "other", "names"])
def test_an_archive_without_the_directory(directory: Path, damage: str) -> None:
    archive = directory / f"{PARTITION}.tar.gz"
    what = "crafted-0" if damage == "other" else PARTITION
    subprocess.run(["tar", "-czf", archive, what], cwd=directory, check=True)
    data = bytearray(archive.read_bytes())
    if damage == "cut":
        del data[60:]
    elif damage == "header":
        data[0] ^= 1
    elif damage == "names":
        data = bytearray(b"PK\x03\x04" + bytes(1000))
    archive.write_bytes(data)
    shutil.rmtree(directory / PARTITION)
    (finding,) = loud(directory)
    assert "are lost" in str(finding.found)
    assert "its files are in" not in kcli("recover", directory).stdout


def test_no_more_than_its_begin_is_looked_through(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    subprocess.run(["tar", "-cf", "all.tar", "crafted-0", PARTITION], cwd=directory, check=True)
    assert packed.packed_directories(directory, {PARTITION})
    monkeypatch.setattr(packed, "READ_BYTES", 512)
    assert packed.packed_directories(directory, {PARTITION}) == {}
