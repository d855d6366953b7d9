"""Directories of one topic that have exchanged their names: verify, recover and salvage report the same, and only where
no other explanation is left."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding
from kcli.log.log_directory import LogDirectory
from kcli.log.recovery.exchanged_names import exchanged_names, log_bounds
from kcli.log.recovery.identity import Exchanged, unidentified_moves, what_was_exchanged
from kcli.protocol.topic_partition import TopicPartition
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.inspector.test_verify_causes import loud, swap
from tests.log.live.test_partition_log_lifecycle import SMALL, filled

MARKER = ".kafka_cleanshutdown"
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")
COUNTS = {"__consumer_offsets": 4, "__transaction_state": 3, "__share_group_state": 2}
ONE, OTHER = TopicPartition("a", 0), TopicPartition("b", 0)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log directory after a clean shutdown: the log of other-0 ends at 86, that of other-1 at 70."""
    return Path(shutil.copytree(GOLDEN / "groups" / "data", tmp_path / "data", copy_function=shutil.copyfile))


def set_offset(data: Path, checkpoint: str, partition: str, offset: int) -> None:
    path = data / checkpoint
    lines = path.read_text().splitlines()
    assert any(line.startswith(f"{partition} ") for line in lines)
    lines = [f"{partition} {offset}" if line.startswith(f"{partition} ") else line for line in lines]
    path.write_text("".join(f"{line}\n" for line in lines))


def of_kind(found: list[Finding], kind: str) -> list[Finding]:
    return [each for each in found if each.kind == kind]


def rows(*args: str | Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in kcli("recover", "--format", "jsonl", *args).stdout.splitlines()]


def without_recovery_points(data: Path) -> None:
    for name in CHECKPOINTS:
        (data / name).unlink()


def log_and_id(directory: Path) -> list[bytes]:
    return [(directory / name).read_bytes() for name in (f"{0:020}.log", "partition.metadata")]


def nothing(_: Path) -> None:
    pass


@pytest.mark.parametrize("lacking", [["__transaction_state-0"], ["__transaction_state-0", "__transaction_state-1"]])
def test_exchanged_directories_of_a_topic_that_lack_its_id(data: Path, tmp_path: Path, lacking: list[str]) -> None:
    """Salvage gives the names back, and writes the id."""
    sound = {each: log_and_id(data / each) for each in ("__transaction_state-0", "__transaction_state-1")}
    swap(*(data / each for each in sound))
    for each in lacking:
        (data / each / "partition.metadata").unlink()
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", data).status == 0
    assert {each: log_and_id(tmp_path / "new" / each) for each in sound} == sound


@pytest.mark.parametrize(
    ("name", "other", "change"),
    [
        ("__consumer_offsets-0", "__consumer_offsets-1", without_recovery_points),
        ("__transaction_state-0", "__transaction_state-1", nothing),
        ("__share_group_state-0", "__share_group_state-1", without_recovery_points),
    ],
)
def test_the_keys_of_coordinators_tell_their_partitions(
    data: Path, tmp_path: Path, name: str, other: str, change: Callable[[Path], None]
) -> None:
    """One of the two may have no record. Kafka's coordinators look for a group's records in the partition of its hash
    only."""
    change(data)
    sound = {each: log_and_id(data / each) for each in (name, other)}
    assert not [row for row in rows(data) if row["kind"] == "exchanged"]
    swap(data / name, data / other)
    (finding,) = of_kind(loud(data), "partition-swapped")
    assert finding.command is not None
    found = rows(data)
    assert {(row["partition"], row["owner"]) for row in found if row["kind"] == "exchanged"} == {
        (name, other),
        (other, name),
    }
    assert not [row for row in found if row["kind"] == "end-missing"]
    assert kcli("recover", data).status == 1
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", data).status == 0
    shutil.copytree(data, tmp_path / "in place")
    assert kcli("recover", "--salvage", "--in-place", tmp_path / "in place").status == 0
    subprocess.run(["sh", "-c", finding.command], check=True)
    for each in (data, tmp_path / "new", tmp_path / "in place"):
        assert {partition: log_and_id(each / partition) for partition in sound} == sound
        assert not of_kind(loud(each), "partition-swapped")
        assert not [row for row in rows(each) if row["kind"] == "exchanged"]


def test_logs_that_fit_each_others_indexes(tmp_path: Path) -> None:
    """Two logs were exchanged without their indexes, and their first batches have equal sizes: the keys tell."""
    data = Path(shutil.copytree(GOLDEN / "txn" / "data", tmp_path / "data", copy_function=shutil.copyfile))
    one, two = (data / f"__transaction_state-{number}" / f"{0:020}.log" for number in (1, 2))
    before = one.read_bytes(), two.read_bytes()
    swap(one, two)
    for suffix in (".index", ".timeindex"):
        shutil.copy(one.with_suffix(suffix), two.with_suffix(suffix))
    (finding,) = of_kind(loud(data), "log-foreign")
    assert "have each other's place, and nothing is lost" in str(finding.found)
    found = [row for row in rows(data) if row["kind"] == "exchanged"]
    assert {row["owner"] for row in found} == {f"{each.parent.name}/{each.name}" for each in (one, two)}
    out = tmp_path / "out"
    assert kcli("recover", "--salvage", "--out", out, data).status == 0
    assert tuple((out / each.parent.name / each.name).read_bytes() for each in (one, two)) == before
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert (one.read_bytes(), two.read_bytes()) == before


def test_keys_tell_nothing_where_no_permutation_explains_them(data: Path) -> None:
    """With another number of partitions every key has another partition; and only the logs may be exchanged."""
    home = LogDirectory(data)
    assert not exchanged_names(home, COUNTS)
    assert not exchanged_names(home, {"__consumer_offsets": 50})
    logs = [data / f"__consumer_offsets-{number}" / f"{0:020}.log" for number in (2, 3)]
    swap(*logs)
    assert not exchanged_names(home, COUNTS)


def test_log_ends_tell_after_a_clean_shutdown(data: Path, tmp_path: Path) -> None:
    sound = {each: log_and_id(data / each) for each in ("other-0", "other-1")}
    swap(data / "other-0", data / "other-1")
    found = rows(data)
    assert {row["partition"] for row in found if row["kind"] == "exchanged"} == set(sound)
    assert not [row for row in found if row["kind"] == "end-missing"]
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", data).status == 0
    assert {partition: log_and_id(tmp_path / "new" / partition) for partition in sound} == sound


def test_log_ends_do_not_tell_after_a_crash(data: Path) -> None:
    """After a crash a log extends beyond its recovery point; the other one may also come from a backup."""
    swap(data / "other-0", data / "other-1")
    (data / MARKER).unlink()
    found = loud(data)
    assert not of_kind(found, "partition-swapped")
    (short,) = of_kind(found, "log-end")
    assert short.path.startswith(str(data / "other-0"))
    assert "Or other-0 and other-1 have exchanged their names" in short.action
    assert short.command is not None
    assert short.command.startswith("find ")
    told = rows(data)
    assert not [row for row in told if row["kind"] == "exchanged"]
    assert [row["partition"] for row in told if row["kind"] == "end-missing"] == ["other-0"]


def high_watermark(data: Path) -> None:
    set_offset(data, CHECKPOINTS[1], "other 0", 71)
    set_offset(data, CHECKPOINTS[1], "other 1", 86)


def snapshot(data: Path) -> None:
    set_offset(data, CHECKPOINTS[1], "other 0", 60)
    set_offset(data, CHECKPOINTS[1], "other 1", 60)
    shutil.copyfile(next((data / "other-0").glob("*.snapshot")), data / "other-1" / f"{86:020}.snapshot")


@pytest.mark.parametrize("contradict", [high_watermark, snapshot])
@pytest.mark.parametrize("is_clean", [True, False])
def test_one_file_that_contradicts_is_enough(data: Path, contradict: Callable[[Path], None], is_clean: bool) -> None:
    """other-1 lost its end, and other-0 extends beyond a recovery point that happens to be the end of other-1."""
    set_offset(data, CHECKPOINTS[0], "other 0", 70)
    set_offset(data, CHECKPOINTS[0], "other 1", 86)
    contradict(data)
    if not is_clean:
        (data / MARKER).unlink()
    found = loud(data)
    assert not of_kind(found, "partition-swapped")
    assert [each.path for each in of_kind(found, "log-end")] == [str(data / "other-1" / f"{0:020}.log")]
    assert not any("exchanged" in each.action for each in found)
    assert not [row for row in rows(data) if row["kind"] == "exchanged"]


@pytest.mark.parametrize("has_index", [True, False])
def test_the_bounds_of_a_log(data: Path, has_index: bool) -> None:
    for number, end in ((0, 86), (1, 70)):
        directory = data / f"other-{number}"
        if not has_index:
            for index in directory.glob("*.index"):
                index.unlink()
        assert log_bounds(directory) == (0, end)
        log = directory / f"{0:020}.log"
        log.write_bytes(log.read_bytes() + bytes(500))
        assert log_bounds(directory) == (0, end)
    (data / "empty").mkdir()
    assert log_bounds(data / "empty") is None


@pytest.mark.parametrize(
    ("ends", "clean", "crash"),
    [
        ((100, 600), Exchanged.FILES, Exchanged.FILES),
        ((600, 100), Exchanged.NAMES, Exchanged.NAMES),
        ((600, 700), Exchanged.NAMES, Exchanged.UNKNOWN),
        ((100, 300), Exchanged.FILES, Exchanged.UNKNOWN),
    ],
)
def test_what_was_exchanged_after_a_crash(ends: tuple[int, int], clean: Exchanged, crash: Exchanged) -> None:
    """After a crash logs may extend beyond the checkpoints: only a log that is too short proves the exchange."""
    cycle, checkpoint = {ONE: OTHER, OTHER: ONE}, {ONE: 100, OTHER: 600}
    stated = dict(zip((ONE, OTHER), ends, strict=True))
    assert what_was_exchanged(cycle, stated, checkpoint, is_clean=True) is clean
    assert what_was_exchanged(cycle, stated, checkpoint, is_clean=False) is crash


def test_a_transaction_is_open_in_the_directory_that_another_name_has(tmp_path: Path) -> None:
    """The coordinator has it under the partition whose records these are: nothing hangs once the names are right."""
    data = Path(shutil.copytree(GOLDEN / "txn" / "data", tmp_path / "data", copy_function=shutil.copyfile))
    before = [row for row in rows(data) if row["kind"] == "transaction-open"]
    swap(data / "t-hang-0", data / "t-mix-0")
    for arguments in ((), ("--salvage",)):
        found = rows(*arguments, data)
        assert {row["partition"] for row in found if row["kind"] == "exchanged"} == {"t-hang-0", "t-mix-0"}
        assert [row for row in found if row["kind"] == "transaction-open"] == before


def test_the_last_of_a_chain_of_topic_ids_may_have_the_records_of_the_first() -> None:
    third = TopicPartition("c", 0)
    assert unidentified_moves({ONE: OTHER}, [OTHER]) == {OTHER: ONE}
    assert unidentified_moves({ONE: OTHER, OTHER: third}, [third]) == {third: ONE}
    assert unidentified_moves({ONE: OTHER}, [third]) == {}
    assert unidentified_moves({ONE: OTHER, OTHER: ONE}, [third]) == {}
    assert unidentified_moves({ONE: third, OTHER: third}, [third]) == {}


@pytest.mark.parametrize(
    ("ends", "clean", "crash"),
    [
        ((600, 100), Exchanged.NAMES, Exchanged.NAMES),
        ((600, 110), Exchanged.UNKNOWN, Exchanged.NAMES),
        ((600, 50), Exchanged.UNKNOWN, Exchanged.UNKNOWN),
        ((600, None), Exchanged.UNKNOWN, Exchanged.UNKNOWN),
        ((100, 600), Exchanged.FILES, Exchanged.FILES),
    ],
)
def test_the_log_of_a_directory_without_topic_id_must_fit(
    ends: tuple[int, int | None], clean: Exchanged, crash: Exchanged
) -> None:
    cycle, checkpoint = {ONE: OTHER, OTHER: ONE}, {ONE: 100, OTHER: 600}
    stated = dict(zip((ONE, OTHER), ends, strict=True))
    assert what_was_exchanged(cycle, stated, checkpoint, is_clean=True, unidentified=[OTHER]) is clean
    assert what_was_exchanged(cycle, stated, checkpoint, is_clean=False, unidentified=[OTHER]) is crash


def test_recovery_points_at_segments_tell_after_a_crash(tmp_path: Path) -> None:
    """Kafka flushes a segment when the next one begins: the recovery point is the base offset of that one."""
    for number, size in enumerate((1000, 1700)):
        filled(tmp_path / f"t-{number}", {**SMALL, "internal.segment.bytes": str(size)}, count=26).close(0)
    bases = [max(int(log.stem) for log in (tmp_path / f"t-{number}").glob("*.log")) for number in (0, 1)]
    lines = "".join(f"t {number} {base}\n" for number, base in enumerate(bases))
    (tmp_path / CHECKPOINTS[0]).write_text(f"0\n2\n{lines}")
    assert exchanged_names(LogDirectory(tmp_path), {}) == []
    swap(tmp_path / "t-0", tmp_path / "t-1")
    (found,) = exchanged_names(LogDirectory(tmp_path), {})
    assert {path.name for path in found.paths} == {"t-0", "t-1"}
    assert not found.is_certain
    assert found.expected == f"a segment {bases[0]}, the recovery point of t-0"


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("starts", [{"other-0": 30, "other-1": 20}, {"other-0": 30}])
def test_log_start_offsets_tell_after_a_crash_too(
    data: Path, tmp_path: Path, is_clean: bool, starts: dict[str, int]
) -> None:
    """DeleteRecords has raised both log start offsets, or one. Then no entry of the checkpoint is wrong, but the
    names."""
    for name, start in starts.items():
        (data / name / "leader-epoch-checkpoint").write_text(f"0\n1\n0 {start}\n")
    lines = [f"{name.replace('-', ' ')} {start}\n" for name, start in starts.items()]
    (data / "log-start-offset-checkpoint").write_text("".join(["0\n", f"{len(lines)}\n", *lines]))
    if not is_clean:
        (data / MARKER).unlink()
    names = "other-0", "other-1"
    before = [log_and_id(data / each) for each in names]
    assert not of_kind(loud(data), "log-start-offset")
    swap(data / "other-0", data / "other-1")
    found = loud(data)
    (finding,) = of_kind(found, "partition-swapped")
    assert not of_kind(found, "log-start-offset")
    assert kcli("recover", data).status == 1
    assert kcli("recover", "--salvage", "--out", tmp_path / "new", data).status == 0
    assert finding.command is not None
    subprocess.run(["sh", "-c", finding.command], check=True)
    for each in (data, tmp_path / "new"):
        assert [log_and_id(each / name) for name in names] == before
        assert not of_kind(loud(each), "partition-swapped")
        assert (each / "log-start-offset-checkpoint").read_text().splitlines(keepends=True)[2:] == lines


def test_a_log_start_offset_that_fits_neither_proves_no_exchange(data: Path) -> None:
    """After a crash the other explanation is left: a log lost its end. But no command writes a log start offset that
    would hide records once the names are put right."""
    (data / "other-0/leader-epoch-checkpoint").write_text("0\n1\n0 29\n")
    (data / "log-start-offset-checkpoint").write_text("0\n1\nother 0 30\n")
    (data / MARKER).unlink()
    swap(data / "other-0", data / "other-1")
    assert not of_kind(loud(data), "partition-swapped")
    assert not of_kind(loud(data), "log-start-offset")
