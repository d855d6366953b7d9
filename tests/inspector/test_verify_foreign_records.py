"""Batches of another partition in a coordinator's log: verify tells them by their keys, recover foretells that Kafka
loads them, and salvage leaves them out."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.log_findings import LOADS_BOTH
from kcli.log.coordinator_records import CoordinatorRecord, read_records
from kcli.log.recovery.coordinator_keys import owners
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.damage import frames
from tests.inspector.test_verify_causes import loud

LOG = f"{0:020}.log"
MARKER = ".kafka_cleanshutdown"
COUNTS = {"__consumer_offsets": 4, "__transaction_state": 3, "__share_group_state": 2}
COPIES = [  # the partition that gets batches of the other
    ("txn", "__transaction_state-2", "__transaction_state-1"),
    ("groups", "__consumer_offsets-1", "__consumer_offsets-0"),
    ("groups", "__share_group_state-0", "__share_group_state-1"),
]
OWN, OTHER = "__transaction_state-2", "__transaction_state-1"
PAGE = slice(4096, 8192)


def data_of(tmp_path: Path, name: str) -> Path:
    return Path(shutil.copytree(GOLDEN / name / "data", tmp_path / "data", copy_function=shutil.copyfile))


@pytest.fixture
def with_page(tmp_path: Path) -> Path:
    """A log directory in which a page of OTHER was written into OWN, after a crash."""
    data = data_of(tmp_path, "txn")
    (data / MARKER).unlink()
    path = data / OWN / LOG
    log = bytearray(path.read_bytes())
    log[PAGE] = (data / OTHER / LOG).read_bytes()[PAGE]
    path.write_bytes(log)
    for each in (data / OWN).glob("*.*index"):
        each.unlink()
    return data


def batches(path: Path) -> list[bytes]:
    data = path.read_bytes()
    return [data[start : start + size] for start, size in frames(data)]


def moved_to(batch: bytes, offset: int) -> bytes:
    return offset.to_bytes(8) + batch[8:]


def end_of(path: Path) -> int:
    last = batches(path)[-1]
    return int.from_bytes(last[:8]) + int.from_bytes(last[23:27]) + 1


def appended(data: Path, name: str, added: list[bytes]) -> int:
    """Append batches to a log, with the offsets behind it, and return the first of these offsets."""
    path = data / name / LOG
    first = end_of(path)
    for each in added:
        path.write_bytes(path.read_bytes() + moved_to(each, end_of(path)))
    return first


def foreign(found: list[Finding]) -> list[Finding]:
    return [each for each in found if each.kind == "records-foreign"]


def rows(*args: str | Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in kcli("recover", "--format", "jsonl", *args).stdout.splitlines()]


def records(directory: Path) -> list[CoordinatorRecord]:
    return [record for _, record in read_records(directory, lambda _: None)]


def test_a_page_of_another_partition_is_one_finding(with_page: Path) -> None:
    path = with_page / OWN / LOG
    (finding,) = [each for each in loud(with_page) if each.path == str(path) and each.severity == "error"]
    assert (finding.kind, finding.next_valid_position) == ("records-foreign", finding.position)
    assert PAGE.start <= (finding.position or 0) < PAGE.stop
    assert f"of {OTHER}, by key: bytes 4,096..8,191 are those of {OTHER}/{LOG} at the same place" in str(finding.found)
    assert finding.lost_first_offset is not None
    assert sum(finding.consequences.values()) >= 2  # the torn batches at the edges of the page
    assert finding.action.startswith("Kafka cuts the file at byte ")
    assert finding.action.endswith("salvage leaves them out, and keeps this partition's own behind them, in a copy")
    assert finding.command == f"kcli recover --unclean --salvage --dry-run {with_page / OWN}"


def test_salvage_leaves_a_page_of_another_partition_out(with_page: Path, tmp_path: Path) -> None:
    before = {record.key for record in records(with_page / OWN)}
    assert set(owners(with_page / OWN, "__transaction_state", COUNTS["__transaction_state"])) == {1, 2}
    told = rows("--salvage", "--out", tmp_path / "out", with_page)
    left = next(row for row in told if row["kind"] == "records-foreign")
    assert (left["partition"], left["owner"], left["left_out"]) == (OWN, OTHER, True)
    assert set(owners(tmp_path / "out" / OWN, "__transaction_state", COUNTS["__transaction_state"])) == {2}
    kept = {record.key for record in records(tmp_path / "out" / OWN)}
    lost = next(row for row in told if row["kind"] == "state-lost")
    assert lost["names"] == sorted(key[4:].decode() for key in kept & before if key is not None)
    assert isinstance(lost["lost_first_offset"], int)
    gap = next(row for row in told if row["kind"] == "gap" and row["partition"] == OWN)
    assert gap["first_offset"] == lost["lost_first_offset"]
    assert not foreign(loud(tmp_path / "out"))
    assert not any(row["kind"] == "records-foreign" for row in rows("--salvage", tmp_path / "out"))


def test_only_own_names_are_lost(with_page: Path) -> None:
    lost = next(row for row in rows(with_page) if row["kind"] == "state-lost")
    others = {record.key for record in records(with_page / OTHER)}
    names = lost["names"]
    assert isinstance(names, list)
    assert names
    assert not {f"{name}" for name in names} & {key[4:].decode() for key in others if key is not None}


@pytest.mark.parametrize(("source", "name", "other"), COPIES)
def test_each_coordinator_has_its_keys(tmp_path: Path, source: str, name: str, other: str) -> None:
    data = data_of(tmp_path, source)
    assert not foreign(loud(data))
    moved = [each for each in batches(data / other / LOG) if not each[22] & 0x20][:2]
    offset = appended(data, name, moved)
    appended(data, name, batches(data / name / LOG)[:1])
    (finding,) = foreign(loud(data))
    action, _, epochs = finding.action.partition("; txn-")  # an old record that is the last one has an old epoch
    assert (finding.offset, finding.severity, action) == (offset, "error", LOADS_BOTH)
    assert not epochs or " then has epoch " in epochs
    assert str(finding.found).startswith(f"2 batches from here on, offsets {offset}..")
    assert f"of {other}, by key" in str(finding.found)
    told = next(row for row in rows("--clean", data) if row["kind"] == "records-foreign")
    assert (told["batches"], told["first_offset"], told["left_out"]) == (2, offset, False)
    told = next(row for row in rows("--salvage", data) if row["kind"] == "records-foreign")
    assert (told["batches"], told["first_offset"], told["left_out"]) == (2, offset, True)


def test_records_of_another_coordinators_topic(tmp_path: Path) -> None:
    other = "__consumer_offsets"
    data = data_of(tmp_path, "txn")
    source = GOLDEN / "groups/data" / f"{other}-0" / LOG
    moved = [each for each in batches(source) if not each[22] & 0x20][:2]
    offset = appended(data, OWN, moved)
    appended(data, OWN, batches(data / OWN / LOG)[:1])
    (finding,) = foreign(loud(data))
    assert (finding.offset, finding.severity) == (offset, "error")
    assert f"of {other}, by key" in str(finding.found)
    told = next(row for row in rows("--clean", data) if row["kind"] == "records-foreign")
    assert (told["batches"], told["owner"], told["left_out"]) == (2, other, False)
    assert "Kafka starts, and ignores them" in kcli("recover", "--clean", data).stdout
    told = next(row for row in rows("--salvage", "--out", tmp_path / "out", data) if row["kind"] == "records-foreign")
    assert (told["batches"], told["owner"], told["left_out"]) == (2, other, True)
    assert not foreign(loud(tmp_path / "out"))


def test_without_the_number_of_partitions_the_log_of_the_other_tells(with_page: Path) -> None:
    shutil.rmtree(with_page / "__cluster_metadata-0")
    (finding,) = foreign(loud(with_page))
    assert f"of {OTHER}: bytes 4,096..8,191 are those of {OTHER}/{LOG} at the same place" in str(finding.found)
    (left,) = [row for row in rows("--salvage", with_page) if row["kind"] == "records-foreign"]
    assert (left["owner"], left["owner_log"], left["left_out"]) == (OTHER, LOG, True)


def test_a_marker_is_no_record_of_a_coordinator(tmp_path: Path) -> None:
    data = data_of(tmp_path, "txn")
    markers = [each for path in data.glob("t-*/*.log") for each in batches(path) if each[22] & 0x20]
    assert markers
    for number in range(COUNTS["__transaction_state"]):
        appended(data, f"__transaction_state-{number}", markers[:2])
    assert not foreign(loud(data))


def test_a_whole_log_of_another_partition_has_another_finding(tmp_path: Path) -> None:
    data = data_of(tmp_path, "groups")
    one, other = (data / f"__consumer_offsets-{number}" / LOG for number in (2, 3))
    one.write_bytes(other.read_bytes())
    found = loud(data)
    assert not foreign(found)
    assert any(each.kind == "log-foreign" for each in found)
    assert not any(row["kind"] == "records-foreign" for row in rows("--salvage", data))
