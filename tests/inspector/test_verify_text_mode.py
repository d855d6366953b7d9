"""Files changed by a transfer in text mode (FTP ASCII): verify names the cause, and salvage undoes it."""

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from kcli.log.partition_view import Content, FileRange
from kcli.log.recovery.text_mode import before_transfer
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import PARTITION, directory, logs, loud
from tests.metadata_damage import copied

__all__ = ["directory"]  # a fixture


def as_text(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


def changed(directory: Path) -> list[Path]:
    """Transfer all files of a partition except the indexes in text mode. Returns the logs that have changed.

    The time indexes of this partition are full: none can be rebuilt.
    """
    before = {path: path.read_bytes() for path in logs(directory)}
    for path in (directory / PARTITION).iterdir():
        if not path.name.endswith("index"):
            as_text(path)
    return [path for path, data in before.items() if path.read_bytes() != data]


def test_the_cause_is_one_finding_of_each_log(directory: Path) -> None:
    paths = changed(directory)
    assert paths
    found = [each for each in loud(directory) if each.path.endswith(".log")]
    assert sorted((each.kind, each.path) for each in found) == [("log-text-mode", str(path)) for path in paths]
    assert all(each.lost_first_offset is None for each in found)


@pytest.mark.parametrize("option", ["--out", "--in-place"])
def test_salvage_undoes_it(directory: Path, tmp_path: Path, option: str) -> None:
    whole = [path.read_bytes() for path in logs(directory)]
    sent = [path.read_bytes() for path in changed(directory)]
    out = tmp_path / "out"
    done = kcli("recover", "--salvage", *([option, out] if option == "--out" else [option]), directory)
    assert "text-mode" in done.stdout
    mended = out if option == "--out" else directory
    assert [path.read_bytes() for path in logs(mended)] == whole
    assert loud(mended) == []
    if option == "--in-place":
        (backup,) = directory.glob("kcli-recover-*.tar")
        assert all(each in backup.read_bytes() for each in sent)


@pytest.mark.parametrize("option", ["--out", "--in-place"])
def test_a_conversion_to_utf_8_is_undone(directory: Path, tmp_path: Path, option: str) -> None:
    """Also where an LF has a CR before it by chance."""
    whole = [path.read_bytes() for path in logs(directory)]
    for path, data in zip(logs(directory), whole, strict=True):
        path.write_bytes(data.decode("latin-1").encode())
    found = [each for each in loud(directory) if each.path.endswith(".log")]
    assert sorted((each.kind, each.path) for each in found) == [
        ("log-text-mode", str(each)) for each in logs(directory)
    ]
    assert all("ISO-8859-1 to UTF-8" in str(each.found) and each.lost_first_offset is None for each in found)
    out = tmp_path / "out"
    done = kcli("recover", "--salvage", *([option, out] if option == "--out" else [option]), directory)
    assert "as after a conversion of ISO-8859-1 to UTF-8: kept with one byte for each two" in done.stdout
    mended = out if option == "--out" else directory
    assert [path.read_bytes() for path in logs(mended)] == whole
    assert loud(mended) == []


@pytest.mark.parametrize("option", ["--out", "--in-place"])
@pytest.mark.parametrize("damage", ["text", "byte", "size"])
def test_damaged_producer_snapshots_do_not_stay(tmp_path: Path, damage: str, option: str) -> None:
    """Kafka removes a damaged snapshot only where it loads it, and this one is below the recovery point."""
    home = copied(tmp_path, "txn/data")
    path = home / "t-mix-0/00000000000000000003.snapshot"
    whole, known = path.read_bytes(), loud(home)
    if damage == "text":
        as_text(path)
    else:
        path.write_bytes(whole[:-1] if damage == "size" else whole[:-1] + bytes([whole[-1] ^ 1]))
    assert loud(home) != known
    out = tmp_path / "out"
    done = kcli("recover", "--salvage", *([option, out] if option == "--out" else [option]), home)
    mended = out if option == "--out" else home
    assert loud(mended) == [replace(each, path=each.path.replace(str(home), str(mended))) for each in known]
    if damage == "text":
        assert "as after a transfer as text (FTP in ASCII mode): kept without these CRs" in done.stdout
        assert (mended / path.relative_to(home)).read_bytes() == whole
    else:
        assert "a producer snapshot that Kafka cannot read" in done.stdout
        assert not (mended / path.relative_to(home)).exists()


def test_checkpoints_with_cr_are_read_as_kafka_reads_them(directory: Path) -> None:
    for path in [*directory.glob("*checkpoint"), directory / "meta.properties"]:
        if path.name != "bootstrap.checkpoint":
            as_text(path)
    assert loud(directory) == []


def test_damage_beside_it_stays_damage(directory: Path) -> None:
    log = changed(directory)[-1]
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1 << 7
    log.write_bytes(data)
    (finding,) = [each for each in loud(directory) if each.path == str(log)]
    assert finding.kind == "log-text-mode"


def test_a_sound_log_is_never_changed(directory: Path) -> None:
    for path in logs(directory):
        assert before_transfer(path.name, Content((FileRange(path, 0, path.stat().st_size),))) is None


def test_bytes_that_only_look_like_text_are_not_changed(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(Random(1).randbytes(5000).replace(b"\n", b"\r\n"))
    assert before_transfer(path.name, Content((FileRange(path, 0, path.stat().st_size),))) is None


def test_a_name_in_the_other_case_tells_of_the_file_system(directory: Path) -> None:
    (directory / "mixed-0").rename(directory / "MIXED-0")
    (missing,) = [each for each in loud(directory) if each.kind == "partition-missing"]
    assert "ignores case" in str(missing.found)


def test_a_base_offset_of_10_is_covered_by_no_crc(directory: Path, tmp_path: Path) -> None:
    """The LF is in the base offset alone: the batch stays sound, with another offset, and with one byte more in front
    of it."""
    log = next(path for path in logs(directory, "rdk-none-0") if path.name == "00000000000000000000.log")
    data = log.read_bytes()
    begins = 0
    while int.from_bytes(data[begins : begins + 8]) < 10:
        begins += 12 + int.from_bytes(data[begins + 8 : begins + 12])
    end = begins + 12 + int.from_bytes(data[begins + 8 : begins + 12])
    batch = bytearray(data[begins:end])
    batch[7] = 10
    alone = tmp_path / log.name
    alone.write_bytes(bytes(batch).replace(b"\n", b"\r\n"))
    found = before_transfer(alone.name, Content((FileRange(alone, 0, alone.stat().st_size),)))
    assert found is not None
    assert found.sound.first_offset == 10
