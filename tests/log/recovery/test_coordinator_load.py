"""The offset at which a coordinator stops to load its partition: the one of real Kafka with the same damage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kcli.inspector.verify import Verification
from kcli.log.partition_view import PartitionView
from kcli.log.recovery import coordinator_load
from kcli.log.recovery.coordinator_load import LoadEnd, load_end
from kcli.log.recovery.identity import end_offset
from kcli.log.recovery.load_stops import COORDINATORS
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.damage import frames
from tests.log.batches import keyed

LOG = "00000000000000000000.log"
FIRST_RECORD = 61
LAST_OF_TIMESTAMP = 34
DIRECTORIES = {"__consumer_offsets": "groups/data", "__transaction_state": "txn/data"}


def ends(directory: Path, log_end_offset: int = 1 << 40) -> LoadEnd | None:
    return load_end(directory.name.rpartition("-")[0], PartitionView(directory), log_end_offset)


@pytest.mark.parametrize("data", ["groups/data", "txn/data", "unclean/recovered", "compact/after"])
def test_what_kafka_wrote_is_loaded(data: str) -> None:
    found = [each for topic in COORDINATORS for each in (GOLDEN / data).glob(f"{topic}-*")]
    assert [ends(each) for each in found] == [None] * len(found)


@pytest.fixture(params=DIRECTORIES)
def partition(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The largest partition of a coordinator's topic, in a copy of a log directory that was shut down cleanly."""
    directory = tmp_path / "logs"
    shutil.copytree(GOLDEN / DIRECTORIES[request.param], directory)
    return max(directory.glob(f"{request.param}-*"), key=lambda each: (each / LOG).stat().st_size)


def changed(partition: Path, behind: int, length: int, xor: int | None) -> int:
    """Change bytes of the middle batch: to zeros, or with `xor`. Returns the batch's first byte."""
    log = partition / LOG
    data = bytearray(log.read_bytes())
    batches = frames(data)
    at, size = batches[len(batches) // 2]
    start = at + (behind if behind >= 0 else size + behind)
    data[start : start + length] = bytes(0 if xor is None else each ^ xor for each in data[start : start + length])
    log.write_bytes(data)
    return at


def test_zeros_end_the_load(partition: Path) -> None:
    at = changed(partition, 0, 60, None)
    reason = "batch length 0 is below 14, the smallest there is"
    assert ends(partition) == LoadEnd(COORDINATORS[partition.name.rpartition("-")[0]], LOG, at, reason)


def test_records_that_cannot_be_parsed_end_the_load(partition: Path) -> None:
    at = changed(partition, FIRST_RECORD, 1, 0x70)
    ended = kcli("recover", "--clean", "--format", "jsonl", partition.parent)
    assert (ended.status, ended.stderr) == (1, "")
    rows = [row for row in map(json.loads, ended.stdout.splitlines()) if row["kind"] == "not-loaded"]
    assert [(row["partition"], row["file"], row["position"]) for row in rows] == [(partition.name, LOG, at)]
    text = kcli("recover", "--clean", partition.parent).stdout
    assert "coordinator" in text
    assert "recover --salvage" in text


def test_a_wrong_crc_does_not_end_the_load(partition: Path) -> None:
    at = changed(partition, LAST_OF_TIMESTAMP, 1, 0x04)
    assert ends(partition) is None
    ended = kcli("recover", "--clean", "--format", "jsonl", partition.parent)
    told = [row for row in map(json.loads, ended.stdout.splitlines()) if row["kind"] == "passed-over"]
    assert [(ended.status, row["partition"], row["file"]) for row in told] == [(1, partition.name, LOG)]
    assert f"at byte {at:,} has a wrong CRC: Kafka starts, and its" in told[0]["reason"]
    (finding,) = (each for each in Verification([partition.parent]).findings() if each.kind == "batch-crc")
    assert finding.action.startswith("its coordinator checks none, and loads the records as they are; ")
    ended = kcli("recover", "--clean", "--salvage", "--format", "jsonl", partition.parent)
    assert "a wrong CRC: Kafka starts" not in ended.stdout


def test_batches_that_are_there_twice_end_the_load(partition: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka: `New last written offset 13 of __consumer_offsets-0 must be greater than 13`. The transaction coordinator
    replays them."""
    topic = partition.name.rpartition("-")[0]
    end = end_offset(partition)
    assert end is not None
    data = (partition / LOG).read_bytes()
    batches = frames(data)
    repeated = batches[len(batches) // 2][0]
    (partition / LOG).write_bytes(data + data[repeated:])
    last = len(data) + batches[-1][0] - repeated
    found = ends(partition, end)
    if topic == "__transaction_state":
        assert found is None
    else:
        assert found is not None
        assert (found.file, found.position, "must be greater" in found.reason) == (LOG, last, True)
    monkeypatch.setattr(coordinator_load, "LOAD_BYTES", len(data))
    assert ends(partition, end) is None, "it reads no further once it has the last offset"


@pytest.mark.parametrize("is_gap", [False, True])
def test_a_flipped_base_offset_is_put_right(partition: Path, *, is_gap: bool) -> None:
    """A group coordinator's batches have no producer, and sequence 0. Behind damage the right offset is the only one
    before the next batch that differs in one bit."""
    log = partition / LOG
    data = bytearray(log.read_bytes())
    batches = frames(bytes(data))
    at, _ = batches[len(batches) // 2]
    before = bytes(data[at : at + 8])
    data[at + 5] ^= 1
    if is_gap:
        start, size = batches[len(batches) // 2 - 1]
        data[start : start + size] = bytes(size)
    log.write_bytes(data)
    ended = kcli("recover", "--unclean", "--salvage", "--format", "jsonl", partition)
    rows = [row for row in map(json.loads, ended.stdout.splitlines()) if row["kind"] == "put-back"]
    assert [(row["position"], row["base_offset"]) for row in rows] == [(at, int.from_bytes(before))]


COMMIT_KEY = b"\0\1\0\1g\0\1t\0\0\0\0"
SHARE_KEY = b"\0\0\0\1g" + bytes(16) + bytes(4)
TXN_KEY = b"\0\0\0\3tx1"
TXN_EMPTY = b"\0\1" + bytes(8) + b"\0\0" + bytes(4) + b"\0\0" + bytes(16) + b"\0"
UNKNOWN_TYPE, UNKNOWN_VERSION = b"\x7f\0", b"\x7f\4"
RECORDS: list[tuple[str, bytes | None, bytes | None, str | None]] = [
    ("__consumer_offsets", COMMIT_KEY, None, None),
    ("__consumer_offsets", COMMIT_KEY, UNKNOWN_VERSION, "OffsetCommitValue has version 32,516"),
    ("__consumer_offsets", COMMIT_KEY, b"\0\4", "OffsetCommitValue: "),
    ("__consumer_offsets", COMMIT_KEY, b"\0", "OffsetCommitValue: the version is cut off"),
    ("__consumer_offsets", COMMIT_KEY[:-1], None, "OffsetCommitKey is broken"),
    ("__consumer_offsets", UNKNOWN_TYPE, UNKNOWN_VERSION, None),
    ("__consumer_offsets", b"\0", None, "a key without a type"),
    ("__consumer_offsets", None, b"", "a record without a key"),
    ("__share_group_state", SHARE_KEY, UNKNOWN_VERSION, "ShareSnapshotValue has version 32,516"),
    ("__share_group_state", UNKNOWN_TYPE, None, None),
    ("__transaction_state", TXN_KEY, TXN_EMPTY, None),
    ("__transaction_state", TXN_KEY, UNKNOWN_VERSION, None),
    ("__transaction_state", UNKNOWN_TYPE, b"", None),
    ("__transaction_state", TXN_KEY, TXN_EMPTY[:16] + b"\x63" + TXN_EMPTY[17:], "a transaction in state 99"),
    ("__transaction_state", TXN_KEY, TXN_EMPTY[:16] + b"\1" + TXN_EMPTY[17:], "without partitions"),
    ("__transaction_state", TXN_KEY, TXN_EMPTY[:-1] + b"\1\2\2\0\6", "transaction.version 6"),
    ("__transaction_state", TXN_KEY[:-1], TXN_EMPTY, "TransactionLogKey is broken"),
    ("orders", COMMIT_KEY, UNKNOWN_VERSION, None),
]


@pytest.mark.parametrize(("topic", "key", "value", "reason"), RECORDS)
def test_a_record_in_a_sound_batch_ends_the_load(
    tmp_path: Path, topic: str, key: bytes | None, value: bytes | None, reason: str | None
) -> None:
    directory = tmp_path / f"{topic}-0"
    directory.mkdir()
    (directory / LOG).write_bytes(keyed(key, value))
    end = ends(directory)
    if reason is None:
        assert end is None
    else:
        assert end is not None
        assert reason in end.reason
        assert (end.position, end.offset) == (0, 0)


def test_verify_and_recover_name_a_record_of_a_newer_version_and_salvage_leaves_it_out(tmp_path: Path) -> None:
    directory = tmp_path / "logs"
    shutil.copytree(GOLDEN / "groups/data", directory)
    partition = max(directory.glob("__consumer_offsets-*"), key=lambda each: (each / LOG).stat().st_size)
    log = (partition / LOG).read_bytes()
    at, size = frames(log)[-1]
    offset = int.from_bytes(log[at : at + 8]) + int.from_bytes(log[at + 23 : at + 27]) + 1
    key = COMMIT_KEY.replace(b"g", b"h")  # the hash of "h" gives this partition
    newer, sound = (keyed(key, each, base_offset=offset + i) for i, each in enumerate((UNKNOWN_VERSION, None)))
    (partition / LOG).write_bytes(log + newer + sound)
    log_file = str(partition / LOG)
    verified = kcli("verify", "--format", "jsonl", directory)
    errors = [each for each in map(json.loads, verified.stdout.splitlines()) if each.get("severity") == "error"]
    assert [(each["kind"], each["path"], each["offset"]) for each in errors] == [("not-loaded", log_file, offset)]
    assert "group coordinator fails to load" in errors[0]["action"]
    rows = map(json.loads, kcli("recover", "--format", "jsonl", directory).stdout.splitlines())
    assert [(each["position"], each["offset"]) for each in rows if each["kind"] == "not-loaded"] == [
        (at + size, offset)
    ]
    copy = tmp_path / "copy"
    assert kcli("recover", "--salvage", "--out", copy, directory).status == 0
    assert (copy / partition.name / LOG).read_bytes() == log + sound
    assert ends(copy / partition.name) is None


def test_an_error_at_the_same_byte_says_that_the_partition_is_not_loaded(partition: Path) -> None:
    at = changed(partition, FIRST_RECORD, 1, 0x70)
    verified = kcli("verify", "--format", "jsonl", partition.parent)
    found = [each for each in map(json.loads, verified.stdout.splitlines()) if each.get("position") == at]
    assert "not-loaded" not in {each["kind"] for each in found}
    assert [each["kind"] for each in found if "coordinator" in each["action"]] == [found[0]["kind"]]


def test_a_batch_that_is_not_complete_lies_behind_the_log_end(partition: Path) -> None:
    log = partition / LOG
    data = log.read_bytes()
    at, size = frames(data)[-1]
    log.write_bytes(data[: at + size - 9])
    end = int.from_bytes(data[at : at + 8], "big")
    assert ends(partition, end) is None
    assert ends(partition, end + 1) is not None


def exchange(partition: Path, number: int) -> int:
    """Exchange two neighbouring batches. Returns the byte at which the second one is then."""
    log = partition / LOG
    data = log.read_bytes()
    (first, size), (second, behind) = frames(data)[number : number + 2]
    log.write_bytes(data[:first] + data[second : second + behind] + data[first:second] + data[second + behind :])
    assert second == first + size
    return first + behind


def test_a_dry_run_tells_of_batches_out_of_order(partition: Path) -> None:
    """Kafka's coordinator loads them in the order of the file: of a group's commits an older one is then the last."""
    at = exchange(partition, 1)
    ended = kcli("recover", "--format", "jsonl", partition.parent)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    (row,) = (each for each in rows if each["kind"] == "passed-over")
    assert (row["partition"], row["file"]) == (partition.name, LOG)
    assert f"at byte {at:,} lies behind" in row["reason"]
    assert f"{COORDINATORS[partition.name.rpartition('-')[0]]} coordinator takes it for the later one" in row["reason"]
    assert ended.status == 1
    assert "\nnext " in kcli("recover", partition.parent).stdout
    assert not kcli("recover", "--salvage", "--out", partition.parent.parent / "new", partition.parent).status
    assert "takes it for the later one" not in kcli("recover", partition.parent.parent / "new").stdout
