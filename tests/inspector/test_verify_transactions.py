"""What verify and recover say of transactions whose end is lost, and of coordinators that know too little of them: real
Kafka's read_committed consumers stop there, and it refuses what producers send (tests/interop/test_lost_epochs_kafka).
"""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from formats import txn_index
from formats.txn_index import AbortedTxn
from kcli.cli.recover_transactions import StateRecords
from kcli.errors import KcliError
from kcli.inspector.transaction_state import unfit
from kcli.inspector.transactions import TransactionFiles
from kcli.log.disk import Disk
from kcli.log.recovery.state_records import append_record
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.records import TOPIC, transaction_record
from kcli.txn.transaction import State
from kcli.views.transactions import Producer
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.damage import frames
from tests.log.batches import NOW_MS, batch, marker

TXN = GOLDEN / "txn/data"
PRODUCER = 4711


def log_of(partition: Path) -> Path:
    return max(partition.glob("*.log"))


def end_of(partition: Path) -> int:
    """Return the log end offset."""
    data = log_of(partition).read_bytes()
    at, _ = frames(data)[-1]
    return int.from_bytes(data[at : at + 8]) + int.from_bytes(data[at + 23 : at + 27]) + 1


def errors(directory: Path) -> list[dict[str, Any]]:
    lines = kcli("verify", "--format", "jsonl", directory).stdout.splitlines()
    return [each for each in map(json.loads, lines) if each.get("severity") == "error"]


def rows(directory: Path, kind: str, *options: str) -> list[dict[str, Any]]:
    ended = kcli("recover", "--format", "jsonl", *options, directory)
    assert ended.stderr == ""
    found = [each for each in map(json.loads, ended.stdout.splitlines()) if each["kind"] == kind]
    assert ended.status == bool(found)
    return found


def aborted(tmp_path: Path) -> Path:
    """Return a partition with a transaction of offsets 0 and 1, and its abort marker at offset 2."""
    partition = tmp_path / "pay-0"
    partition.mkdir()
    producer = (PRODUCER, 0)
    records = batch(b"a", b"b", producer=producer, sequence=0, transactional=True, leader_epoch=0)
    end = marker(producer, commit=False, base_offset=2, leader_epoch=0)
    log = partition / f"{0:020}.log"
    log.write_bytes(records + end)
    log.with_suffix(".txnindex").write_bytes(txn_index.build((AbortedTxn(0, PRODUCER, 0, 2, 3),)))
    return partition


def test_a_lost_abort_marker_is_a_cut_log(tmp_path: Path) -> None:
    partition = aborted(tmp_path)
    log = log_of(partition)
    assert errors(partition) == []
    data = log.read_bytes()
    size = frames(data)[-1][0]
    log.write_bytes(data[:size])
    (error,) = errors(partition)
    assert (error["kind"], error["path"], error["position"], error["offset"]) == ("log-cut", str(log), size, 2)
    assert (error["lost_first_offset"], error["lost_last_offset"]) == (2, 2)
    assert error["consequences"] == {"txnindex-extra-entry": 1}
    (row,) = rows(partition, "transaction-open")
    assert (row["producer_id"], row["first_offset"], row["marker_offset"]) == (PRODUCER, 0, 2)


@pytest.mark.parametrize("index", ["whole", "zeros", "missing"])
def test_a_lost_abort_marker_without_its_index(tmp_path: Path, index: str) -> None:
    """The checkpoints tell that the log has lost its end, and with it the marker. Kafka's consumers then stop at the
    transaction, or its coordinator, of which an older copy is left, commits it."""
    partition = aborted(tmp_path)
    log = log_of(partition)
    log.write_bytes(log.read_bytes()[: frames(log.read_bytes())[-1][0]])
    shutil.copy(TXN / "meta.properties", tmp_path)
    (tmp_path / "recovery-point-offset-checkpoint").write_text("0\n1\npay 0 3\n")
    if index == "zeros":
        log.with_suffix(".txnindex").write_bytes(bytes(34))
    elif index == "missing":
        log.with_suffix(".txnindex").unlink()
    for options in ((), ("--salvage",)):
        is_written_anew = bool(options) and index == "whole"
        found = rows(tmp_path, "marker" if is_written_anew else "transaction-open", *options)
        assert [(row["producer_id"], row["first_offset"]) for row in found] == [(PRODUCER, 0)]
        assert is_written_anew or found[0]["marker_offset"] == (2 if index == "whole" else None)


def test_an_entry_of_no_open_transaction_is_no_cut(tmp_path: Path) -> None:
    partition = aborted(tmp_path)
    wrong = AbortedTxn(0, PRODUCER, 0, 2 | 1 << 20, 0)  # a flipped bit
    log_of(partition).with_suffix(".txnindex").write_bytes(txn_index.build((wrong,)))
    assert {each["kind"] for each in errors(partition)} == {"txnindex-missing-entry", "txnindex-extra-entry"}
    assert rows(partition, "transaction-open") == []


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "logs"
    shutil.copytree(TXN, directory)
    return directory


def test_what_kafka_wrote_fits(home: Path) -> None:
    assert [each for each in errors(home) if each["kind"].startswith("transaction-")] == []


def completed(home: Path, place: TopicPartition) -> tuple[Producer, int, int]:
    """Return a producer of a partition whose transactions are all complete, the epoch that its coordinator has, and the
    log end offset."""
    files = TransactionFiles([home], 0)
    known = {
        each.producer_id: each for each in files.transactions().values() if each.state.label.startswith("Complete")
    }
    ((_, producers),) = (each for each in files.producers([place], None) if not isinstance(each, KcliError))
    end = end_of(home / str(place))
    found = next(each for each in producers if each.start_offset is None and each.producer_id in known)
    return found, known[found.producer_id].producer_epoch, end


def committed(producer: tuple[int, int], end: int, at_ms: int | None = None) -> bytearray:
    """A transaction of one record, and its marker, of a producer's id and epoch. at_ms: None: now."""
    at_ms = time.time_ns() // 1_000_000 if at_ms is None else at_ms
    data = batch(b"x", producer=producer, sequence=0, transactional=True, base_offset=end, timestamp_ms=at_ms)
    return data + marker(producer, commit=True, base_offset=end + 1, timestamp_ms=at_ms)


def append(home: Path, place: TopicPartition, data: bytearray) -> None:
    log = log_of(home / str(place))
    log.write_bytes(log.read_bytes() + data)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".kafka_cleanshutdown"):
        (home / name).unlink(missing_ok=True)


PLACE = TopicPartition("t-mix", 0)


def test_an_open_transaction_that_its_coordinator_has_completed(home: Path) -> None:
    producer, epoch, end = completed(home, PLACE)
    assert rows(home, "transaction-open", "--clean") == []
    who, sequence = (producer.producer_id, epoch), 0
    if epoch == producer.producer_epoch and producer.last_sequence is not None:
        sequence = producer.last_sequence + 1
    append(home, PLACE, batch(b"x", producer=who, sequence=sequence, transactional=True, base_offset=end))
    found = [each for each in errors(home) if each["kind"] == "transaction-open"]
    assert [(each["path"], each["offset"]) for each in found] == [(str(home / str(PLACE)), end)]
    (row,) = rows(home, "transaction-open")
    assert (row["partition"], row["producer_id"], row["first_offset"]) == (str(PLACE), producer.producer_id, end)


def test_a_transaction_log_older_than_the_partitions(home: Path) -> None:
    producer, epoch, end = completed(home, PLACE)
    who = producer.producer_id, epoch + 1
    append(home, PLACE, committed(who, end))
    (error,) = (each for each in errors(home) if each["kind"] == "transaction-state-end")
    assert f"producer {who[0]}, epoch {who[1]}, which {PLACE} has" in error["expected"]
    assert "OutOfOrderSequenceException" in error["action"]
    (row,) = rows(home, "transaction-state-end")
    assert (row["partition"], row["error"]) == (Path(error["path"]).name, "OUT_OF_ORDER_SEQUENCE_NUMBER")
    assert [each["kind"] for each in errors(home)] == ["transaction-state-end"]


def test_verify_warns_of_a_lost_end_whose_producer_partitions_have_forgotten(home: Path) -> None:
    producer, epoch, end = completed(home, PLACE)
    append(home, PLACE, committed((producer.producer_id, epoch + 1), end, NOW_MS))
    lines = kcli("verify", "--format", "jsonl", home).stdout.splitlines()
    (found,) = (each for each in map(json.loads, lines) if each["kind"] == "transaction-state-end")
    assert found["severity"] == "warning"
    assert "the producer goes on" in found["action"]
    assert rows(home, "transaction-state-end") == []


def test_a_transaction_log_in_another_directory_older_than_the_partitions(home: Path, tmp_path: Path) -> None:
    """One of two disks was restored from an older backup."""
    producer, epoch, end = completed(home, PLACE)
    who = producer.producer_id, epoch + 1
    append(home, PLACE, committed(who, end))
    second = tmp_path / "second"
    second.mkdir()
    text = (home / "meta.properties").read_text()
    (second / "meta.properties").write_text(re.sub("directory.id=.*", "directory.id=AAECAwQFBgcICQoLDA0ODw", text))
    (home / str(PLACE)).rename(second / str(PLACE))
    lines = kcli("verify", "--format", "jsonl", home, second).stdout.splitlines()
    (found,) = (each for each in map(json.loads, lines) if each.get("kind") == "transaction-state-end")
    assert found["path"].startswith(f"{home}/__transaction_state-")
    assert f"producer {who[0]}, epoch {who[1]}, which {PLACE} has" in found["expected"]


def test_a_producer_that_no_record_of_the_transaction_log_has(home: Path) -> None:
    """Its partition of __transaction_state is not known, so none of these is reported."""
    _, _, end = completed(home, PLACE)
    append(home, PLACE, committed((10**6, 0), end, at_ms=2**42))
    (error,) = (each for each in errors(home) if each["kind"] == "transaction-state-end")
    assert error["path"] == str(home / str(PLACE))
    assert error["found"].startswith("no record has that producer, nor is any as new: __transaction_state is older")
    assert [each["file"] for each in rows(home, "passed-over")] == [str(PLACE)]


def torn_state(home: Path, *, ahead: int, ended: bool = True) -> tuple[str, int, int, Path]:
    """Give a producer a transaction in PLACE whose epoch is `ahead` of the coordinator's, and tear the end of the
    coordinator's log. Returns the transactional id, both epochs, and the directory of the coordinator's partition."""
    producer, epoch, end = completed(home, PLACE)
    who, at_ms = (producer.producer_id, epoch + ahead), time.time_ns() // 1_000_000
    data = batch(b"x", producer=who, sequence=0, transactional=True, base_offset=end, timestamp_ms=at_ms)
    append(home, PLACE, data + (marker(who, commit=True, base_offset=end + 1, timestamp_ms=at_ms) if ended else b""))
    files = TransactionFiles([home], 0)
    name = next(name for name, each in files.transactions().items() if each.producer_id == producer.producer_id)
    state = home / f"{TOPIC}-{files.state_partitions[name]}"
    log = log_of(state)
    log.write_bytes(log.read_bytes() + bytes(log.read_bytes()[:40]))
    return name, epoch, epoch + ahead, state


def test_a_start_that_cuts_the_coordinators_log(home: Path) -> None:
    name, epoch, newest, state = torn_state(home, ahead=3)
    (row,) = rows(home, "transaction-state-end")
    assert (row["partition"], row["transactional_id"], row["producer_partition"]) == (state.name, name, str(PLACE))
    assert (row["coordinator_epoch"], row["producer_epoch"]) == (epoch, newest)
    assert (row["error"], row["mended"]) == ("INVALID_PRODUCER_EPOCH", False)
    assert "InvalidProducerEpochException" in row["outcome"]
    text = kcli("recover", home).stdout
    assert f"next             kcli recover --salvage --out NEW {home}" in text
    (error,) = errors(home)
    assert (error["path"], error["consequences"]["transaction-state-end"]) == (str(log_of(state)), 1)
    assert "Kafka cuts the file here" in error["action"]
    assert (
        f"{name} (producer {row['producer_id']}) then has epoch {epoch} there, and {newest} in {PLACE}"
        in error["action"]
    )
    assert error["command"] == f"kcli recover --salvage --dry-run {home}"


def cut_behind(home: Path, state: State) -> tuple[Path, str]:
    """Cut a log of __transaction_state in a batch behind a record with this state, of a transaction that has ended.
    Returns the log, and the transactional id."""
    ended = {name for name, each in TransactionFiles([home], 0).transactions().items() if not each.state.is_open}
    for log in sorted(home.glob(f"{TOPIC}-*/*.log")):
        whole = log.read_bytes()
        for start, _ in reversed(frames(whole)):
            log.write_bytes(whole[: start + 20])
            found = TransactionFiles([home], 0).transactions()
            names = [name for name, each in found.items() if each.state is state and name in ended]
            if names:
                return log, names[0]
        log.write_bytes(whole)
    raise AssertionError(f"there is no {state.label}")


@pytest.mark.parametrize(
    ("state", "what"),
    [
        (State.ONGOING, "then aborts, after its timeout, a transaction that has ended"),
        (State.PREPARE_COMMIT, "then commits a transaction that has ended"),
    ],
)
def test_a_transaction_that_the_coordinator_ends_again(home: Path, state: State, what: str) -> None:
    assert rows(home, "transaction-ends-again", "--unclean") == []
    log, name = cut_behind(home, state)
    places = sorted(map(str, TransactionFiles([home], 0).transactions()[name].partitions))
    found = [json.loads(line) for line in kcli("recover", "--unclean", "--format", "jsonl", home).stdout.splitlines()]
    (row,) = [each for each in found if each["kind"] == "transaction-ends-again" and each["transactional_id"] == name]
    assert (row["partition"], row["state"], row["partitions"]) == (log.parent.name, state.label, places)
    assert f"{what}, with another marker in {places[0]}" in kcli("recover", "--unclean", home).stdout
    new = kcli("recover", "--salvage", "--out", home.parent / "new", home).stdout
    assert "transaction-ends-again" in new


def test_all_partitions_that_refuse_the_producer_are_named(home: Path) -> None:
    """Kafka 4.3 refused it in another partition before it sent anything to the one with the highest epoch."""
    _, epoch, _, _ = torn_state(home, ahead=3)
    (found,) = unfit([home])
    other = TopicPartition("t-txn", 0)
    append(home, other, committed((found.producer_id, epoch + 2), end_of(home / str(other))))
    (found,) = unfit([home])
    assert f"refuses what it sends to {PLACE}, {other}: InvalidProducerEpochException" in found.outcome


DAY_MS = 86_400_000


def test_a_producer_that_partitions_have_forgotten_goes_on(home: Path) -> None:
    """A day after its last batch; unless it has a transaction open."""
    name, epoch, newest, _ = torn_state(home, ahead=3)
    now_ms = time.time_ns() // 1_000_000
    later = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime((now_ms + DAY_MS) // 1000 + 1))
    kinds = {
        each["kind"]
        for each in map(json.loads, kcli("recover", "--now", later, "--format", "jsonl", home).stdout.splitlines())
    }
    assert "cut" in kinds
    assert "transaction-state-end" not in kinds
    assert [each.error for each in unfit([home], now_ms=now_ms + DAY_MS // 2)] == ["INVALID_PRODUCER_EPOCH"]
    (found,) = unfit([home], now_ms=now_ms + DAY_MS)
    assert (found.error, found.mended, found.transactional_id) == ("", None, name)
    assert (found.coordinator_epoch, found.producer_epoch) == (epoch, newest)
    (before,) = unfit([home], now_ms=now_ms + DAY_MS, expiration_ms=2 * DAY_MS)
    assert before.error == "INVALID_PRODUCER_EPOCH"


def test_a_producer_with_an_open_transaction_is_not_forgotten(home: Path) -> None:
    torn_state(home, ahead=3, ended=False)
    found = unfit([home], now_ms=time.time_ns() // 1_000_000 + 2 * DAY_MS)
    assert [each.error for each in found if each.transactional_id] == ["INVALID_PRODUCER_EPOCH"]


@pytest.mark.parametrize("ended", [True, False])
def test_salvage_writes_the_epoch_that_is_lost(home: Path, tmp_path: Path, *, ended: bool) -> None:
    name, _, newest, _ = torn_state(home, ahead=3, ended=ended)
    (row,) = rows(home, "transaction-state-end", "--salvage")
    assert (row["mended"], row["ongoing"]) == (True, [] if ended else [str(PLACE)])
    copy = tmp_path / "copy"
    done = kcli("recover", "--salvage", "--out", copy, "--format", "jsonl", home)
    assert done.status == 0, done.stdout
    assert row in map(json.loads, done.stdout.splitlines())
    found = TransactionFiles([copy], 0).transactions()[name]
    assert (found.producer_epoch, found.state.label) == (newest, "Empty" if ended else "Ongoing")
    assert found.partitions == (frozenset() if ended else {PLACE})
    assert errors(copy) == []
    assert rows(copy, "transaction-state-end") == []
    before = TransactionFiles([home], 0).transactions()
    kcli("recover", "--salvage", "--in-place", home)
    assert TransactionFiles([home], 0).transactions() == {**before, name: found}


def test_a_record_is_not_written_where_other_nodes_have_it(home: Path, tmp_path: Path) -> None:
    torn_state(home, ahead=3)
    (found,) = unfit([home])
    now_ms = time.time_ns() // 1_000_000
    assert StateRecords([], lambda _: [], now_ms, DAY_MS).mends(found)
    records = StateRecords([], lambda _: [2, 3], now_ms, DAY_MS)
    assert not records.mends(found)
    records.write(home)
    assert records.written == []


@pytest.mark.parametrize(
    ("state", "ahead", "version", "error"),
    [
        (State.EMPTY, 3, 2, "INVALID_PRODUCER_EPOCH"),
        (State.COMPLETE_COMMIT, 2, 0, "INVALID_PRODUCER_EPOCH"),
        (State.COMPLETE_COMMIT, 1, 0, "OUT_OF_ORDER_SEQUENCE_NUMBER"),
        (State.ONGOING, 3, 2, "CONCURRENT_TRANSACTIONS"),
        (State.ONGOING, 1, 2, None),
        (State.PREPARE_COMMIT, 1, 2, "CONCURRENT_TRANSACTIONS"),
        (State.PREPARE_ABORT, 2, 0, "CONCURRENT_TRANSACTIONS"),
    ],
)
def test_the_error_that_the_producer_gets(
    home: Path, state: State, ahead: int, version: int, error: str | None
) -> None:
    name, epoch, newest, directory = torn_state(home, ahead=ahead)
    known = TransactionFiles([home], 0).transactions()[name]
    partitions = frozenset({PLACE} if state.is_open else ())
    older = known._replace(state=state, partitions=partitions, client_version=version)
    log = log_of(directory)
    log.write_bytes(log.read_bytes()[:-40])
    append_record(directory, Disk(), *transaction_record(name, older, version), older.last_update_ms)
    found = [(each.error, each.coordinator_epoch, each.producer_epoch) for each in unfit([home]) if each.error]
    assert found == ([] if error is None else [(error, epoch, newest)])


def test_a_clean_start_that_loads_none_of_the_records_gives_a_new_producer_id(home: Path) -> None:
    """It hides the whole log, since the offset index is beyond the end of the log."""
    _, _, _, state = torn_state(home, ahead=3)
    log = log_of(state)
    index = log.with_suffix(".index")
    index.write_bytes((2**20).to_bytes(4) + (2**20).to_bytes(4))
    kinds = {
        each["kind"]
        for each in map(json.loads, kcli("recover", "--clean", "--format", "jsonl", home).stdout.splitlines())
    }
    assert "end-hidden" in kinds
    assert "transaction-state-end" not in kinds


def ongoing(home: Path) -> tuple[str, int, int, Path]:
    """Return an open transaction that its coordinator knows: the partition's name, the producer id, the first offset,
    and the directory of the coordinator's partition."""
    files = TransactionFiles([home], 0)
    known = files.transactions()
    for found in files.producers(files.places(None, None), None):
        assert not isinstance(found, KcliError)
        for each in found[1]:
            owner = next((name for name, txn in known.items() if txn.producer_id == each.producer_id), None)
            if each.start_offset is not None and owner is not None:
                state = home / f"{TOPIC}-{files.state_partitions[owner]}"
                return str(found[0]), each.producer_id, each.start_offset, state
    raise AssertionError("no open transaction")


@pytest.mark.parametrize("salvage", [[], ["--salvage"]])
def test_an_open_transaction_whose_coordinator_loses_its_records(home: Path, salvage: list[str]) -> None:
    name, producer_id, offset, state = ongoing(home)
    assert rows(home, "transaction-open", "--unclean", *salvage) == []
    data = bytearray(log_of(state).read_bytes())
    for at, _ in frames(bytes(data)):
        data[at + 61] ^= 1
    log_of(state).write_bytes(data)
    found = rows(home, "transaction-open", "--unclean", *salvage)
    assert (name, producer_id, offset) in [(row["partition"], row["producer_id"], row["first_offset"]) for row in found]
    shutil.rmtree(state)
    found = rows(home, "transaction-open", "--unclean", *salvage)
    assert (name, producer_id, offset) in [(row["partition"], row["producer_id"], row["first_offset"]) for row in found]


def test_an_open_transaction_that_its_coordinator_ends_after_a_cut(home: Path) -> None:
    """The start cuts the partition's log, and the coordinator still has the transaction open."""
    name, producer_id, offset, state = ongoing(home)
    end = end_of(home / name)
    whose = {"kind": "transaction-open", "partition": name, "producer_id": producer_id}
    damaged = batch(b"x", base_offset=end)
    damaged[-1] ^= 1
    append(
        home,
        TopicPartition(name.rpartition("-")[0], int(name.rpartition("-")[2])),
        damaged + batch(b"y", base_offset=end + 1),
    )
    lines = [json.loads(each) for each in kcli("recover", "--format", "jsonl", home).stdout.splitlines()]
    (row,) = (each for each in lines if all(each.get(key) == value for key, value in whose.items()))
    assert (row["first_offset"], row["state"]) == (offset, "Ongoing")
    assert f"{row['transactional_id']} is Ongoing in its last record" in kcli("recover", home).stdout
    shutil.rmtree(state)
    lines = [json.loads(each) for each in kcli("recover", "--format", "jsonl", home).stdout.splitlines()]
    (row,) = (each for each in lines if all(each.get(key) == value for key, value in whose.items()))
    assert "state" not in row
