"""Idempotence and transactions in an open log: batches that a leader appends, answers as duplicates, or refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from formats.txn_index import AbortedTxn
from kcli.log.live import partition_log
from kcli.log.live.partition_log import Appended, PartitionLog
from kcli.log.live.validator import AppendRefused, Origin
from kcli.protocol.error_code import ErrorCode
from tests.log.batches import NOW_MS, batch, marker
from tests.log.live.test_partition_log import open_log

P, Q = 7, 8
VALUES = b"one", b"two", b"three"


@pytest.fixture
def log(tmp_path: Path) -> PartitionLog:
    return open_log(tmp_path / "p-0", {})


def append(log: PartitionLog, data: bytearray, **more: int) -> Appended:
    return log.append_as_leader(data, 0, NOW_MS, **more)  # type: ignore[arg-type]


def end(log: PartitionLog, data: bytearray, transaction_version: int = 0) -> Appended:
    return log.append_as_leader(data, 0, NOW_MS, origin=Origin.COORDINATOR, transaction_version=transaction_version)


def refused(log: PartitionLog, data: bytearray, *, origin: Origin = Origin.CLIENT, version: int = 0) -> ErrorCode:
    before = log.log_end_offset, log.size, log.producers.table.entries()
    with pytest.raises(AppendRefused) as refusal:
        log.append_as_leader(data, 0, NOW_MS, origin=origin, transaction_version=version)
    assert (log.log_end_offset, log.size, log.producers.table.entries()) == before
    return refusal.value.error


def test_the_last_five_batches_are_recognised(log: PartitionLog) -> None:
    for i in range(7):
        append(log, batch(*VALUES, producer=(P, 0), sequence=3 * i, timestamp_ms=NOW_MS + i))
    for i in range(2, 7):
        again = append(log, batch(*VALUES, producer=(P, 0), sequence=3 * i))
        assert again == Appended(3 * i, 3 * i + 2, NOW_MS + i + 2, NOW_MS + i + 2, 0, duplicate=True)
    assert refused(log, batch(*VALUES, producer=(P, 0), sequence=3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, batch(b"x", producer=(P, 0), sequence=20)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 21


def test_sequences_go_on_behind_the_largest_int(log: PartitionLog) -> None:
    append(log, batch(*VALUES, producer=(P, 0), sequence=2**31 - 2))
    assert not append(log, batch(b"x", producer=(P, 0), sequence=1)).duplicate
    assert append(log, batch(*VALUES, producer=(P, 0), sequence=2**31 - 2)).first_offset == 0


def test_an_unknown_producer_may_begin_anywhere_a_new_epoch_at_0(log: PartitionLog) -> None:
    append(log, batch(b"x", producer=(P, 3), sequence=17))
    assert refused(log, batch(b"x", producer=(P, 4), sequence=18)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    append(log, batch(b"x", producer=(P, 4), sequence=0))
    assert refused(log, batch(b"x", producer=(P, 3), sequence=18)) == ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("rolled_behind", [(), (3,), (1, 5), tuple(range(7))])
@pytest.mark.parametrize("clean", [True, False])
def test_the_last_five_batches_are_recognised_after_a_restart(
    log: PartitionLog, rolled_behind: tuple[int, ...], clean: bool
) -> None:
    """A snapshot has only the last batch of each producer; the others are in the log."""
    for i in range(7):
        append(log, batch(*VALUES, producer=(P, 1), sequence=3 * i, timestamp_ms=NOW_MS + i))
        append(log, batch(b"x", producer=(Q, 0), sequence=i))
        if i in rolled_behind:
            log.roll(NOW_MS)
    if clean:
        log.close(NOW_MS)
    else:
        log.close_handles()
    log = open_log(log.directory, {}, clean=clean)
    again = [append(log, batch(*VALUES, producer=(P, 1), sequence=3 * i)) for i in range(2, 7)]
    times = [NOW_MS + i + 2 for i in range(2, 7)]
    assert again == [
        Appended(4 * i, 4 * i + 2, at, at, 0, duplicate=True) for i, at in zip(range(2, 7), times, strict=True)
    ]
    assert refused(log, batch(*VALUES, producer=(P, 1), sequence=3)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, batch(b"x", producer=(Q, 0), sequence=9)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert not append(log, batch(*VALUES, producer=(P, 1), sequence=21)).duplicate
    assert not append(log, batch(b"x", producer=(Q, 0), sequence=7)).duplicate


def test_batches_of_an_epoch_before_are_not_taken_back(log: PartitionLog) -> None:
    append(log, batch(b"x", producer=(P, 0), sequence=0))
    append(log, batch(b"x", producer=(P, 0), sequence=1))
    append(log, batch(b"x", producer=(P, 1), sequence=0))
    log.close(NOW_MS)
    log = open_log(log.directory, {})
    assert append(log, batch(b"x", producer=(P, 1), sequence=0)).duplicate
    assert refused(log, batch(b"x", producer=(P, 1), sequence=7)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, batch(b"x", producer=(P, 0), sequence=1)) == ErrorCode.INVALID_PRODUCER_EPOCH


def test_the_log_is_asked_once_for_each_producer(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    append(log, batch(b"x", producer=(P, 0), sequence=0))
    asked = []
    monkeypatch.setattr(partition_log, "recall", lambda *arguments: asked.append(arguments[2]))
    for _ in range(3):
        assert refused(log, batch(b"x", producer=(P, 0), sequence=9)) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert asked == [P]


def test_the_last_stable_offset_waits_for_markers_below_the_high_watermark(log: PartitionLog) -> None:
    append(log, batch(b"plain"))
    append(log, batch(b"p", producer=(P, 0), sequence=0, transactional=True))
    append(log, batch(b"q", producer=(Q, 0), sequence=0, transactional=True))
    log.update_high_watermark(3)
    assert log.last_stable_offset == 1
    end(log, marker((P, 0), commit=True))
    assert log.last_stable_offset == 1
    log.update_high_watermark(4)
    assert log.last_stable_offset == 2
    end(log, marker((Q, 0), commit=False))
    log.update_high_watermark(5)
    assert log.last_stable_offset == 5
    assert log.aborted_transactions(0, 5) == [AbortedTxn(0, Q, 2, 4, 5)]


@pytest.mark.parametrize(("clean", "stable"), [(True, 3), (False, 4)])
def test_a_start_that_reads_markers_waits_for_the_high_watermark(
    log: PartitionLog, tmp_path: Path, clean: bool, stable: int
) -> None:
    """As in Kafka, it waits for markers that it replays behind a snapshot. Recovery writes a snapshot behind them
    first, which has no complete transactions."""
    append(log, batch(b"one", b"two", b"three"))
    log.roll(NOW_MS)
    append(log, batch(b"p", producer=(P, 0), sequence=0, transactional=True))
    end(log, marker((P, 0), commit=True))
    log.close(NOW_MS)
    (tmp_path / "p-0" / f"{5:020}.snapshot").unlink()
    log = open_log(log.directory, {}, clean=clean, recovery_point=5, high_watermark=4)
    assert log.last_stable_offset == stable
    log.update_high_watermark(5)
    assert log.last_stable_offset == 5


def test_a_transaction_holds_all_batches_of_its_producer(log: PartitionLog) -> None:
    append(log, batch(b"p", producer=(P, 0), sequence=0, transactional=True))
    assert refused(log, batch(b"p", producer=(P, 0), sequence=1)) == ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("version", [0, 2])
def test_markers_come_from_the_latest_epoch_and_coordinator(log: PartitionLog, version: int) -> None:
    append(log, batch(b"p", producer=(P, 5), sequence=0, transactional=True))
    older = marker((P, 4), commit=True)
    same = marker((P, 5), commit=True, coordinator_epoch=3)
    origin = Origin.COORDINATOR
    assert refused(log, older, origin=origin, version=version) == ErrorCode.INVALID_PRODUCER_EPOCH
    if version == 2:
        assert refused(log, same, origin=origin, version=2) == ErrorCode.INVALID_PRODUCER_EPOCH
        same = marker((P, 6), commit=True, coordinator_epoch=3)
    end(log, bytearray(same), version)
    again = marker((P, 5 if version == 0 else 6), commit=True, coordinator_epoch=2)
    fenced = ErrorCode.TRANSACTION_COORDINATOR_FENCED
    assert refused(log, again, origin=origin, version=version) is fenced
    end(log, same, version)  # a coordinator that did not learn of it writes its marker again


def test_clients_write_no_markers(log: PartitionLog) -> None:
    assert refused(log, marker((P, 0), commit=True)) == ErrorCode.INVALID_RECORD


def test_a_follower_begins_the_transactions_of_one_append_before_it_ends_any(log: PartitionLog) -> None:
    data = (
        batch(b"p", producer=(P, 0), sequence=0, transactional=True)
        + marker((P, 0), commit=False, base_offset=1)
        + batch(b"plain", base_offset=2)
        + batch(b"q", producer=(Q, 0), sequence=0, transactional=True, base_offset=3)
    )
    log.append_as_follower(data, 0, NOW_MS)
    assert log.aborted_transactions(0, 4) == [AbortedTxn(0, P, 0, 1, 3)]


def test_a_follower_takes_no_batch_that_contradicts_a_transaction(log: PartitionLog) -> None:
    log.append_as_follower(batch(b"p", producer=(P, 0), sequence=0, transactional=True), 0, NOW_MS)
    entries = log.producers.table.entries()
    data = batch(b"q", producer=(Q, 0), sequence=0, base_offset=1) + batch(
        b"p", producer=(P, 0), sequence=1, base_offset=2
    )
    with pytest.raises(AppendRefused) as refusal:
        log.append_as_follower(data, 0, NOW_MS)
    assert refusal.value.error == ErrorCode.INVALID_TXN_STATE
    assert log.log_end_offset == 1
    assert log.producers.table.entries() == entries


def test_what_a_leader_was_asked_for_is_over_when_another_has_appended_it(log: PartitionLog) -> None:
    """A producer was verified for sequence 3 here, then another leader appended sequences 3 and 4 of its
    transaction."""
    data = batch(b"x", producer=(P, 0), sequence=2, transactional=True)
    append(log, data)
    end(log, marker((P, 0), commit=True))
    log.producers.begin_verification(P, 0, 3, NOW_MS, begins_at_0=False)
    log.producers.begin_verification(Q, 0, 8, NOW_MS, begins_at_0=False)
    theirs = batch(b"y", b"z", producer=(P, 0), sequence=3, transactional=True, base_offset=2, leader_epoch=1)
    log.append_as_follower(theirs, 1, NOW_MS)
    log.append_as_follower(marker((P, 0), commit=True, base_offset=4, leader_epoch=1), 1, NOW_MS)
    assert log.producers.verifications.keys() == {Q}
    log.producers.begin_verification(P, 0, 5, NOW_MS, begins_at_0=False)
    assert (
        log.append_as_leader(batch(b"x", producer=(P, 0), sequence=5, transactional=True), 2, NOW_MS).first_offset == 5
    )


def test_what_is_tried_again_late_holds_up_nothing(log: PartitionLog) -> None:
    """The repeated sequence 0 belongs to a transaction that has ended; a producer whose first batch is still missing
    may send no later one."""
    append(log, batch(b"x", producer=(P, 0), sequence=0, transactional=True))
    end(log, marker((P, 0), commit=True))
    log.producers.begin_verification(P, 0, 0, NOW_MS, begins_at_0=False)
    append(log, batch(b"x", producer=(P, 0), sequence=1, transactional=True))
    log.producers.begin_verification(Q, 0, 5, NOW_MS, begins_at_0=False)
    later = batch(b"x", producer=(Q, 0), sequence=6, transactional=True)
    assert refused(log, later) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_silent_producers_are_forgotten_unless_a_transaction_is_open(log: PartitionLog) -> None:
    append(log, batch(b"p", producer=(P, 0), sequence=0))
    append(log, batch(b"q", producer=(Q, 0), sequence=0, transactional=True))
    append(log, batch(b"r", producer=(9, 0), sequence=0, timestamp_ms=NOW_MS + 1))
    assert log.expire_producers(NOW_MS + 86_400_000 - 1) == 0
    assert log.expire_producers(NOW_MS + 86_400_000) == 1
    assert [entry[0] for entry in log.producers.table.entries()] == [Q, 9]
    assert not append(log, batch(b"p", producer=(P, 0), sequence=5)).duplicate
