"""Which partitions paths name, and where their logs begin and end."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kcli.errors import UnreadableInput
from kcli.export import offsets
from kcli.export.discovery import PartitionFiles, discover
from kcli.export.options import SourceOptions
from kcli.export.splits import bounds
from tests.conftest import GOLDEN

CODECS = GOLDEN / "codecs/data"


def names(*paths: Path | str) -> list[str]:
    return [f"{each.topic}-{each.partition}" for each in discover(str(path) for path in paths)]


def test_what_paths_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = names(CODECS)
    assert {"java-none-0", "java-none-1", "mixed-0"} <= set(whole)
    assert names(CODECS / "mixed-0") == names(CODECS / "mixed-0/00000000000000000000.log") == ["mixed-0"]
    assert names(CODECS / "java-*[13]") == ["java-none-1", "java-snappy-1"]
    assert names(CODECS.parent / "d?ta" / "mixed-0") == ["mixed-0"]
    assert names(CODECS, CODECS / "mixed-0") == whole
    assert names(CODECS.parent) == whole
    monkeypatch.chdir(CODECS / "mixed-0")
    assert names(".") == ["mixed-0"]
    odd = tmp_path / "copy [1]"
    shutil.copytree(CODECS / "mixed-0", odd)
    assert names(odd) == ["copy [1]-0"]
    assert names(GOLDEN / "tiered/remote") == ["r-keep-0", "r-short-0", "r-short-1"]


def test_what_kafka_is_about_to_delete_is_left_out(tmp_path: Path) -> None:
    for name in ("a-0", "b-0.0123456789abcdef0123456789abcdef-delete", "c-0.0123456789abcdef-future"):
        shutil.copytree(CODECS / "mixed-0", tmp_path / name)
    (tmp_path / "a-0/00000000000000000999.log.deleted").write_bytes(b"x")
    (tmp_path / "a-0/00000000000000000998.log.cleaned").write_bytes(b"x")
    assert names(tmp_path) == ["a-0"]
    assert names(tmp_path / "b-0.0123456789abcdef0123456789abcdef-delete") == ["b-0"]
    assert max(each.base_offset for each in discover([str(tmp_path)])[0].segments) < 998


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("nothing", "no such file"),
        ("no*thing", "nothing matches"),
        ("empty", "no partition's directory and no segment"),
        ("file.txt", "not a segment"),
    ],
)
def test_paths_that_name_nothing(name: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").write_text("x")
    with pytest.raises(UnreadableInput, match=reason):
        discover([str(tmp_path / name)])


@pytest.mark.parametrize("data", ["data", "data-tv0"])
def test_offsets_are_those_of_the_broker(data: str) -> None:
    told = json.loads((GOLDEN / "txn/expected" / data / "offsets.json").read_text())
    for files in discover([str(GOLDEN / "txn" / data)]):
        if files.topic in told:
            end = offsets.log_end(files)
            found = offsets.log_start(files), end, offsets.last_stable_offset(files, end)
            assert found == tuple(
                told[files.topic][name][files.partition]
                for name in ("log_start", "high_watermark", "last_stable_offset")
            )


def test_times_are_those_of_the_broker() -> None:
    told = json.loads((GOLDEN / "codecs/expected/offsets.json").read_text())
    partitions = {(each.topic, each.partition): each for each in discover([str(CODECS)])}
    count = 0
    for topic, answers in told.items():
        for partition, rows in answers["for_time"].items():
            for asked, offset, _ in rows:
                found = offsets.offset_for_time(partitions[topic, int(partition)], asked)
                assert (-1 if found is None else found) == (-1 if offset is None else offset), (topic, partition, asked)
                count += 1
    assert count > 100


def high_watermark(files: PartitionFiles) -> int:
    """Return the offset at which a query without an ending offset ends."""
    _, end = bounds([files], SourceOptions((files.directory,)))
    return min(end, offsets.log_end(files))


def test_checkpoints_say_where_a_log_begins_and_how_far_consumers_see(tmp_path: Path) -> None:
    shutil.copytree(CODECS / "mixed-0", tmp_path / "mixed-0")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nmixed 0 17\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nmixed 0 250\n")
    [files] = discover([str(tmp_path)])
    assert (offsets.log_start(files), high_watermark(files), offsets.log_end(files)) == (17, 250, 298)
    (tmp_path / "replication-offset-checkpoint").write_text("7\ngarbage")
    (tmp_path / "log-start-offset-checkpoint").unlink()
    [files] = discover([str(tmp_path)])
    assert (offsets.log_start(files), high_watermark(files)) == (0, 298)
