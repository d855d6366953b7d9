"""Files beside a whole log that claim a later end: an index with its numbers in another byte order, a checkpoint with
other numbers. verify reports the file, not the log."""

import re
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from formats import producer_snapshot
from formats.producer_snapshot import ProducerEntry, ProducerSnapshot
from kcli.inspector.verify import Finding, Verification
from kcli.inspector.verify.findings import rank
from tests.conftest import GOLDEN
from tests.damage import frames, mended

SOURCE = GOLDEN / "codecs" / "data"
LOG_KINDS = ("log-cut", "log-empty", "log-end", "log-foreign", "log-missing")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log directory of real Kafka after a clean shutdown."""
    return Path(shutil.copytree(SOURCE, tmp_path / "data", copy_function=shutil.copyfile))


def loud(path: Path) -> list[Finding]:
    return sorted((each for each in Verification([path]).findings() if each.severity != "info"), key=rank)


def little_endian(data: bytes) -> bytes:
    return b"".join(struct.pack("<I", word) for (word,) in struct.iter_unpack(">I", data))


def swapped_pairs(data: bytes) -> bytes:
    return b"".join(bytes((data[at + 1], data[at])) for at in range(0, len(data), 2))


def reversed_bytes(data: bytes) -> bytes:
    return data[::-1]


def text(data: bytes) -> bytes:
    return (b"ABCDEFGHIJKL" * len(data))[: len(data)]


@pytest.mark.parametrize("suffixes", [(".index",), (".timeindex",), (".index", ".timeindex")], ids=" ".join)
@pytest.mark.parametrize("change", [little_endian, swapped_pairs, reversed_bytes, text], ids=lambda each: each.__name__)
@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
def test_a_nonsense_index_is_blamed(
    directory: Path, change: Callable[[bytes], bytes], suffixes: tuple[str, ...], is_clean: bool
) -> None:
    if not is_clean:
        (directory / ".kafka_cleanshutdown").unlink()
    changed = set()
    for path in [each for suffix in suffixes for each in directory.glob(f"java-*/*{suffix}")]:
        if any(path.read_bytes()):
            path.write_bytes(change(path.read_bytes()))
            changed.add(str(path))
    found = loud(directory)
    assert found
    assert {each.path for each in found} == changed
    assert all(each.kind.startswith(("index-", "timeindex-")) for each in found)


def test_a_cut_log_is_still_found_beside_a_nonsense_time_index(directory: Path) -> None:
    log = sorted(directory.glob("java-none-0/*.log"))[1]
    times = log.with_suffix(".timeindex")
    times.write_bytes(little_endian(times.read_bytes()))
    data = log.read_bytes()
    log.write_bytes(data[: 12 + int.from_bytes(data[8:12])])
    assert (loud(directory)[0].kind, loud(directory)[0].path) == ("log-cut", str(log))


def with_offsets(directory: Path, name: str, change: Callable[[int], int]) -> Path:
    path = directory / name
    lines = path.read_text().splitlines()
    changed = [re.sub(r"\d+$", lambda found: str(change(int(found[0]))), line) for line in lines[2:]]
    path.write_text("\n".join([*lines[:2], *changed]) + "\n")
    return path


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
def test_a_checkpoint_that_all_logs_contradict_is_one_finding(directory: Path, is_clean: bool) -> None:
    (directory / "recovery-point-offset-checkpoint").write_text("0\nnothing\n")
    if not is_clean:
        (directory / ".kafka_cleanshutdown").unlink()
    path = with_offsets(directory, "replication-offset-checkpoint", lambda offset: 10 * offset)
    found = [each for each in loud(directory) if not each.path.endswith("recovery-point-offset-checkpoint")]
    assert [(each.kind, each.path) for each in found] == [("checkpoint-offset", str(path))]


def test_two_checkpoints_that_agree_tell_of_lost_ends(directory: Path) -> None:
    for name in ("replication-offset-checkpoint", "recovery-point-offset-checkpoint"):
        with_offsets(directory, name, lambda offset: 10 * offset)
    assert "log-end" in {each.kind for each in loud(directory)}


def test_ends_that_a_crash_may_have_lost_are_told_one_by_one(directory: Path) -> None:
    """The high watermarks are a little above the ends of all logs."""
    (directory / ".kafka_cleanshutdown").unlink()
    (directory / "recovery-point-offset-checkpoint").unlink()
    with_offsets(directory, "replication-offset-checkpoint", lambda offset: offset and offset + 3)
    kinds = [each.kind for each in loud(directory)]
    assert "log-end" in kinds
    assert "checkpoint-offset" not in kinds


@pytest.mark.parametrize("is_foreign", [True, False])
def test_a_leader_epoch_checkpoint_of_another_partition_does_not_say_where_the_log_ended(
    directory: Path, is_foreign: bool
) -> None:
    log = max(directory.glob("java-none-0/*.log"))
    whole = log.read_bytes()
    log.write_bytes(whole[:-9])
    own = (log.parent / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    entries = [f"{7 if is_foreign else own[0].split()[0]} 0", "9 1500"]
    (log.parent / "leader-epoch-checkpoint").write_text("\n".join(["0", "2", *entries, ""]))
    (log.parent / f"{1400:020}.snapshot").write_bytes(b"")
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (directory / checkpoint).unlink()
    (truncated,) = (each for each in loud(directory) if each.kind == "truncated")
    assert ("1,499 are in no sound batch" in str(truncated.found)) == (not is_foreign)


def with_other_log(directory: Path, shift_ms: int) -> Path:
    """Give a closed segment the log that another broker has of it: equal offsets and sizes, other timestamps. Return
    the log."""
    log = sorted((directory / "java-none-0").glob("*.log"))[1]
    data = bytearray(log.read_bytes())
    for start, _ in frames(data):
        for at in (start + 27, start + 35):
            struct.pack_into(">q", data, at, struct.unpack_from(">q", data, at)[0] + shift_ms)
    log.write_bytes(mended(data))
    return log


def last_timestamp(times: Path) -> int:
    return int.from_bytes(times.read_bytes()[-12:-4])


@pytest.mark.parametrize("is_clean", [True, False], ids=["clean", "killed"])
@pytest.mark.parametrize(
    ("shift_ms", "agreeing"),
    [
        (36_000_000, "all its timestamps are later than the first of 00000000000000000202.log"),
        (-36_000_000, "all its timestamps are earlier than the first of 00000000000000000000.log"),
        (1, "00000000000000000202.snapshot has the time index's last timestamp"),
    ],
    ids=["later", "earlier", "snapshot"],
)
def test_a_log_that_its_time_index_and_a_third_file_contradict_is_foreign(
    directory: Path, shift_ms: int, agreeing: str, is_clean: bool
) -> None:
    if not is_clean:
        (directory / ".kafka_cleanshutdown").unlink()
    log = with_other_log(directory, shift_ms)
    if "snapshot" in agreeing:
        timestamp = last_timestamp(log.with_suffix(".timeindex"))
        entry = ProducerEntry(1, 0, 201, 201, 0, timestamp, -1, -1)
        log.with_name(f"{202:020}.snapshot").write_bytes(producer_snapshot.build(ProducerSnapshot((entry,))))
    finding = loud(directory)[0]
    assert (finding.kind, finding.path) == ("log-foreign", str(log))
    assert f"14 of 14 entries of {log.stem}.timeindex fit none of its batches, and {agreeing}: " in str(finding.found)
    assert finding.action.startswith("leave the indexes and snapshots, ")
    assert str(finding.command).startswith("kcli dump-segment ")
    assert finding.consequences["timeindex-timestamp"] == 14
    assert not [each for each in loud(directory) if each.kind.startswith(("index-", "timeindex-"))]


@pytest.mark.parametrize("number", [0, 2, 3])
def test_indexes_of_another_segment_are_blamed_beside_the_right_log(directory: Path, number: int) -> None:
    stems = [each.with_suffix("") for each in sorted((directory / "java-none-0").glob("*.log"))]
    for suffix in (".index", ".timeindex"):
        shutil.copyfile(stems[number].with_suffix(suffix), stems[1].with_suffix(suffix))
    found = loud(directory)
    assert found
    assert {each.path for each in found} <= {str(stems[1].with_suffix(each)) for each in (".index", ".timeindex")}


@pytest.mark.parametrize("fits", [True, False])
def test_a_log_from_before_a_cleaning_fits_the_index_that_was_to_be_deleted(directory: Path, *, fits: bool) -> None:
    one, two = (each.with_suffix(".index") for each in sorted((directory / "java-none-0").glob("*.log"))[1:3])
    former = one.with_name(f"{one.name}.deleted")
    shutil.copyfile(one if fits else two, former)
    shutil.copyfile(two, one)
    finding = next(each for each in loud(directory) if each.path == str(one))
    assert finding.kind == "index-foreign"
    text = f", and all {former.name} has do: the log is the one from before Kafka replaced it, put back"
    assert str(finding.found).endswith(text if fits else "fit none of the log's batches")


@pytest.mark.parametrize("damage", ["emptied", "removed"])
def test_a_lost_active_segment_is_an_error_also_where_the_recovery_point_is_where_it_began(
    directory: Path, damage: str
) -> None:
    """Kafka has set the recovery point there when it began the segment, and the high watermark was further."""
    (directory / ".kafka_cleanshutdown").unlink(missing_ok=True)
    log = max((directory / "java-none-0").glob("*.log"))
    end, base = 298, int(log.stem)
    points = directory / "recovery-point-offset-checkpoint"
    points.write_text(points.read_text().replace(f"java-none 0 {end}\n", f"java-none 0 {base}\n"))
    for path in log.parent.glob(f"{log.stem}.*"):
        if path.suffix != ".snapshot":
            path.unlink() if damage == "removed" else path.write_bytes(b"")
    (finding,) = (each for each in loud(directory) if each.kind != "unclean-shutdown")
    assert (finding.kind, finding.severity) == ("log-end", "error")
    assert (finding.lost_first_offset, finding.lost_last_offset) == (base, end - 1)
    assert (finding.path == str(log)) == (damage == "emptied")
