"""Producers, transactions and leader epochs across batches: verify's findings in logs made for this test."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from formats import control_record, producer_snapshot, txn_index
from formats.control_record import ControlRecord, ControlType
from formats.producer_snapshot import ProducerEntry, ProducerSnapshot
from formats.record_batch import BatchHeader, Record, RecordBatch, build_batch
from formats.txn_index import AbortedTxn
from kcli.inspector.verify import Finding, Verification

PLAIN, TRANSACTIONAL, CONTROL = 0, 16, 32
INT_MAX = 2**31 - 1


@dataclass
class Log:
    """A log with batches of at most two records, end to end."""

    next_offset: int = 0
    data: bytes = b""

    def batch(
        self,
        producer: int = -1,
        epoch: int = -1,
        sequence: int = -1,
        attributes: int = PLAIN,
        leader_epoch: int = 0,
        timestamp: int = 1000,
        records: tuple[Record, ...] = (Record(0, 0, 0, None, b"a", ()), Record(0, 0, 1, None, b"b", ())),
    ) -> "Log":
        delta = len(records) - 1
        header = BatchHeader(
            self.next_offset,
            0,
            leader_epoch,
            2,
            0,
            attributes,
            delta,
            timestamp,
            timestamp,
            producer,
            epoch,
            sequence,
            0,
        )
        return Log(self.next_offset + delta + 1, self.data + build_batch(RecordBatch(header, records)))

    def marker(self, producer: int, epoch: int, kind: ControlType, codec: int = 0) -> "Log":
        key, value = control_record.build(ControlRecord(kind, 0, {"coordinatorEpoch": 3}))
        record = Record(0, 0, 0, key, value, ())
        return self.batch(producer, epoch, -1, TRANSACTIONAL | CONTROL | codec, records=(record,))

    def skip(self, offsets: int) -> "Log":
        return Log(self.next_offset + offsets, self.data)


def verify(directory: Path, log: Log, base: int = 0) -> list[tuple[str, str]]:
    (directory / f"{base:020}.log").write_bytes(log.data)
    return [(finding.kind, finding.severity) for finding in loud(directory)]


def loud(directory: Path) -> list[Finding]:
    return [finding for finding in Verification([directory]).findings() if finding.severity != "info"]


@pytest.mark.parametrize(
    ("log", "kinds"),
    [
        (Log().batch(7, 0, 0).batch(7, 0, 2), []),
        (Log().batch(7, 0, INT_MAX - 1).batch(7, 0, 0), []),
        (Log().batch(7, 0, INT_MAX).batch(7, 0, 1), []),
        (Log().batch(7, 0, 5).batch(8, 0, 0).batch(7, 0, 7), []),
        (Log().batch(7, 0, 0).batch(7, 0, 0), [("producer-sequence", "error")]),
        (Log().batch(7, 0, 0).batch(7, 0, 1), [("producer-sequence", "error")]),
        (Log().batch(7, 0, 0).batch(7, 0, 9), [("producer-sequence", "warning")]),
        (Log().batch(7, 0, 0).skip(3).batch(7, 0, 9), [("offset-gap", "warning")]),
        (Log().batch(7, 0, 4).batch(7, 1, 0), []),
        (Log().batch(7, 1, 0).batch(7, 0, 0), [("producer-epoch", "warning")]),
        (Log().batch(7, 0, -1), [("producer-sequence", "error")]),
        (Log().batch(7, -1, 5).batch(7, -1, 5).batch(7, -1, 9), []),
        (Log().batch(attributes=TRANSACTIONAL), [("transactional-without-producer", "warning")]),
        (Log().batch(leader_epoch=3).batch(leader_epoch=2), [("leader-epoch", "warning")]),
        (Log().batch(leader_epoch=3).batch(leader_epoch=-1).batch(leader_epoch=3), []),
    ],
)
def test_sequences_and_epochs(tmp_path: Path, log: Log, kinds: list[tuple[str, str]]) -> None:
    assert verify(tmp_path, log) == kinds


def test_coordinators_do_not_count(tmp_path: Path) -> None:
    """In __consumer_offsets sequences do not count, since each batch begins at 0."""
    log = Log().batch(7, 0, 0, TRANSACTIONAL).batch(7, 0, 0, TRANSACTIONAL).marker(7, 0, ControlType.COMMIT)
    groups, other = tmp_path / "__consumer_offsets-3", tmp_path / "other-3"
    groups.mkdir()
    other.mkdir()
    assert verify(groups, log) == [("not-loaded", "error")]  # these are not records of the group coordinator
    assert verify(other, log) == [("producer-sequence", "error")]


def transactions(codec: int = 0) -> Log:
    """Offsets 0, 1: producer 7; 2, 3: producer 8; 4: abort of 7; 5: abort of 8; 6, 7: producer 7; 8: commit."""
    log = Log().batch(7, 0, 0, TRANSACTIONAL).batch(8, 0, 0, TRANSACTIONAL)
    log = log.marker(7, 0, ControlType.ABORT, codec).marker(8, 0, ControlType.ABORT)
    return log.batch(7, 0, 2, TRANSACTIONAL).marker(7, 0, ControlType.COMMIT)


RIGHT = (AbortedTxn(0, 7, 0, 4, 2), AbortedTxn(0, 8, 2, 5, 6))


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [(3, 8, 0), (5, 8, 0), (4, 8, 1), (6, 8, 1), (9, 8, 1), (2, 8, 1), (5, 9, 1), (6, 9, 2)],
)
def test_last_stable_offsets_of_a_follower(tmp_path: Path, first: int, second: int, count: int) -> None:
    """A follower has the transaction of producer 8 from offset 5 on, if it came together with the marker of producer 7
    at offset 2; a producer's own next transaction does not count."""
    log = Log().batch(7, 0, 0, TRANSACTIONAL).marker(7, 0, ControlType.ABORT).batch()
    log = log.batch(8, 0, 0, TRANSACTIONAL).marker(8, 0, ControlType.ABORT).batch()
    log = log.batch(8, 0, 2, TRANSACTIONAL).marker(8, 0, ControlType.COMMIT)
    entries = AbortedTxn(0, 7, 0, 2, first), AbortedTxn(0, 8, 5, 7, second)
    (tmp_path / f"{0:020}.txnindex").write_bytes(txn_index.build(entries))
    found = [kind for kind, _ in verify(tmp_path, log) if kind != "txnindex-order"]
    assert found == ["txnindex-stable-offset"] * count


@pytest.mark.parametrize(
    ("entries", "kinds"),
    [
        (RIGHT, []),
        (None, [("txnindex-missing", "error")]),
        ((), [("txnindex-missing-entry", "error")]),
        (RIGHT[1:], [("txnindex-missing-entry", "error")]),
        ((RIGHT[0]._replace(first_offset=1), RIGHT[1]), [("txnindex-offset", "error")]),
        ((RIGHT[0]._replace(last_stable_offset=5), RIGHT[1]), [("txnindex-stable-offset", "error")]),
        ((*RIGHT, AbortedTxn(0, 7, 6, 8, 9)), [("txnindex-extra-entry", "error")]),
        ((RIGHT[1], RIGHT[0]), [("txnindex-order", "error")]),
    ],
)
def test_transaction_index(
    tmp_path: Path, entries: tuple[AbortedTxn, ...] | None, kinds: list[tuple[str, str]]
) -> None:
    if entries is not None:
        (tmp_path / f"{0:020}.txnindex").write_bytes(txn_index.build(entries))
    found = verify(tmp_path, transactions())
    assert all(kind in found for kind in kinds)
    assert bool(found) == bool(kinds)


def test_compressed_markers_count(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.txnindex").write_bytes(txn_index.build(RIGHT))
    for codec in range(5):
        assert verify(tmp_path, transactions(codec)) == []


RIGHT_STATE = (
    ProducerEntry(7, 0, 3, 7, 1, 1000, 3, -1),
    ProducerEntry(8, 0, 1, 3, 1, 1000, 3, -1),
)


def test_snapshot_against_the_log(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.txnindex").write_bytes(txn_index.build(RIGHT))
    snapshot = tmp_path / f"{9:020}.snapshot"
    snapshot.write_bytes(producer_snapshot.build(ProducerSnapshot(RIGHT_STATE)))
    assert verify(tmp_path, transactions()) == []
    for field in ProducerEntry._fields[1:]:
        wrong = RIGHT_STATE[1]._replace(**{field: 77})
        snapshot.write_bytes(producer_snapshot.build(ProducerSnapshot((RIGHT_STATE[0], wrong))))
        (finding,) = loud(tmp_path)
        assert (finding.kind, finding.position, finding.length) == ("snapshot-state", 56, 46), field
    snapshot.rename(tmp_path / f"{10:020}.snapshot")
    assert [finding.kind for finding in loud(tmp_path)] == ["snapshot-offset"]


def test_snapshot_in_the_middle_of_the_log(tmp_path: Path) -> None:
    (tmp_path / f"{0:020}.txnindex").write_bytes(txn_index.build(RIGHT))
    early = (ProducerEntry(7, 0, 1, 1, 1, 1000, -1, 0), ProducerEntry(8, 0, 1, 3, 1, 1000, -1, 2))
    (tmp_path / f"{4:020}.snapshot").write_bytes(producer_snapshot.build(ProducerSnapshot(early)))
    assert verify(tmp_path, transactions()) == []
    wrong = (early[0]._replace(current_txn_first_offset=-1), early[1])
    (tmp_path / f"{4:020}.snapshot").write_bytes(producer_snapshot.build(ProducerSnapshot(wrong)))
    assert [finding.position for finding in loud(tmp_path)] == [10]


TWO = Log().batch(7, 0, 0).batch(8, 0, 0, timestamp=2000)
AS_IT_IS = "a clean start takes the file as it is: "
REFUSED = "producers may be refused"
ALONE = "read_committed consumers stop at transactions that are open in it alone"
LACKS = (
    "read_committed consumers get the records of transactions that are open in the log and not in it, committed or not"
)
AGAIN = "records that a producer sends again are written twice"
OF_7 = ProducerEntry(7, 0, 1, 1, 1, 1000, -1, 0)
OPEN = Log().batch(7, 0, 0, TRANSACTIONAL).batch(8, 0, 0)
"""Offsets 0, 1: producer 7, whose transaction stays open; 2, 3: producer 8."""


@pytest.mark.parametrize(
    ("log", "entries", "found"),
    [
        (OPEN, (OF_7,), None),
        (OPEN, (), "no entry"),
        (OPEN, (OF_7, ProducerEntry(9, 0, 1, 3, 1, 1000, -1, -1)), "producer 9, which has none"),
        (OPEN, (OF_7, ProducerEntry(8, 0, 5, 7, 1, 1000, -1, -1)), "offset 7 of producer 8"),
        (TWO, (ProducerEntry(8, 0, 1, 3, 1, 2000, -1, -1),), None),
        (TWO, (ProducerEntry(7, 0, 1, 1, 1, 1000, -1, -1),), "no entry"),
        (TWO, (), None),
        (Log(100).batch(8, 0, 6), (ProducerEntry(9, 0, 1, 3, 1, 1000, -1, 2),), None),
        (Log(100).batch(8, 0, 6), (ProducerEntry(9, 0, 1, 101, 1, 1000, -1, -1),), "producer 9, which has none"),
        (Log(100).batch(7, 0, 2, TRANSACTIONAL), (ProducerEntry(7, 0, 3, 101, 1, 1000, -1, 40),), None),
        (
            Log(100).batch(7, 0, 2, TRANSACTIONAL),
            (ProducerEntry(7, 0, 3, 101, 1, 1000, -1, -1),),
            "open transaction's first offset -1",
        ),
        (
            Log(100).batch(7, 0, 2, TRANSACTIONAL).marker(7, 0, ControlType.COMMIT),
            (ProducerEntry(7, 0, 3, 101, 1, 1000, 3, 40),),
            "open transaction's first offset 40",
        ),
        (Log().batch(8, 0, 0).batch(8, 1, 0).skip(2).batch(), (ProducerEntry(8, 1, 4, 5, 0, 1000, -1, -1),), None),
        (Log().batch(8, 0, 0).batch(8, 1, 0).skip(2).batch(), (ProducerEntry(8, 0, 1, 1, 1, 1000, -1, -1),), "epoch 0"),
        (
            Log().batch(8, 0, 0).batch(8, 0, 2).skip(2).batch(),
            (ProducerEntry(8, 0, 1, 1, 1, 1000, -1, -1),),
            "last offset 1",
        ),
    ],
)
def test_the_snapshot_of_another_log(
    tmp_path: Path, log: Log, entries: tuple[ProducerEntry, ...], found: str | None
) -> None:
    """Only as far as the log shows: retention and compaction may have removed batches of a producer."""
    snapshot = tmp_path / f"{log.next_offset:020}.snapshot"
    snapshot.write_bytes(producer_snapshot.build(ProducerSnapshot(entries)))
    base = 0 if log.data[:8] == bytes(8) else 100
    (tmp_path / f"{base:020}.log").write_bytes(log.data)
    of_snapshot = [each for each in loud(tmp_path) if each.path == str(snapshot)]
    assert [each.found for each in of_snapshot] == ([] if found is None else [found])
    assert all(each.command is not None and "--salvage" in each.command for each in of_snapshot)


@pytest.mark.parametrize(
    ("log", "entries", "outcomes"),
    [
        (OPEN, (), [LACKS]),
        (OPEN, (OF_7._replace(last_sequence=5),), [REFUSED]),
        (OPEN, (OF_7._replace(current_txn_first_offset=-1),), [REFUSED, LACKS]),
        (OPEN, (OF_7, ProducerEntry(9, 0, 1, 3, 1, 1000, -1, 2)), [REFUSED, ALONE]),
        (OPEN, (ProducerEntry(9, 0, 1, 3, 1, 1000, -1, 2),), [REFUSED, ALONE, LACKS]),
        (TWO, (ProducerEntry(7, 0, 1, 1, 1, 1000, -1, -1),), [AGAIN]),
    ],
)
def test_what_follows_from_the_snapshot_of_another_log(
    tmp_path: Path, log: Log, entries: tuple[ProducerEntry, ...], outcomes: list[str]
) -> None:
    snapshot = tmp_path / f"{log.next_offset:020}.snapshot"
    snapshot.write_bytes(producer_snapshot.build(ProducerSnapshot(entries)))
    (tmp_path / f"{0:020}.log").write_bytes(log.data)
    actions = {each.action for each in loud(tmp_path) if each.path == str(snapshot)}
    assert {str(each).partition("; ")[0] for each in actions} == {f"{AS_IT_IS}{', and '.join(outcomes)}"}


REMOVED = Log().batch(7, 0, 0, TRANSACTIONAL).marker(7, 0, ControlType.COMMIT).skip(2).batch(8, 0, 0)
"""Offsets 0, 1: producer 7; 2: commit; 3, 4: of producer 7, removed by compaction; 5, 6: producer 8."""


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_transaction_of_which_compaction_left_the_end_marker(tmp_path: Path, epoch: int) -> None:
    """The snapshot has the sequences of the removed records; those that follow go on from there."""
    log = REMOVED.marker(7, epoch, ControlType.COMMIT)
    entries = ProducerEntry(7, epoch, 9, 4, 1, 1000, 3, -1), ProducerEntry(8, 0, 1, 6, 1, 1000, -1, -1)
    snapshot = tmp_path / f"{log.next_offset:020}.snapshot"
    snapshot.write_bytes(producer_snapshot.build(ProducerSnapshot(entries)))
    log = log.batch(7, epoch, 10, TRANSACTIONAL).marker(7, epoch, ControlType.COMMIT)
    assert {kind for kind, _ in verify(tmp_path, log)} <= {"offset-gap"}
    snapshot.write_bytes(producer_snapshot.build(ProducerSnapshot((entries[0]._replace(timestamp=2000), entries[1]))))
    assert "snapshot-state" in {finding.kind for finding in loud(tmp_path)}


def test_sequences_behind_an_end_marker_with_all_batches_before_it(tmp_path: Path) -> None:
    log = Log().batch(7, 0, 0, TRANSACTIONAL).marker(7, 0, ControlType.COMMIT)
    assert verify(tmp_path, log.batch(7, 0, 9)) == [("producer-sequence", "warning")]


def test_leader_epochs_of_checkpoint_and_batches(tmp_path: Path) -> None:
    log = Log().batch(leader_epoch=1).batch(leader_epoch=4)
    for content, kinds in (
        ("0\n2\n1 0\n4 2\n", []),
        ("0\n3\n1 0\n4 2\n5 4\n", []),
        ("0\n1\n4 2\n", []),
        ("0\n1\n1 0\n", ["checkpoint-epoch"]),
        ("0\n2\n1 0\n4 3\n", ["checkpoint-epoch"]),
        ("", ["checkpoint-empty"]),
        ("0\n3\n1 0\n4 2\n5 5\n", ["checkpoint-offset"]),
    ):
        (tmp_path / "leader-epoch-checkpoint").write_text(content)
        assert [kind for kind, _ in verify(tmp_path, log)] == kinds, content
