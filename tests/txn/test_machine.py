"""The answers and records of the transaction coordinator, after Kafka's TransactionCoordinator and
TransactionMetadata."""

from __future__ import annotations

from dataclasses import replace

import pytest

from formats.internal_topic import decode
from kcli.coordinator.machine import Pair
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.records import TOPIC, transaction_record
from kcli.txn.requests import (
    NEEDS_PRODUCER_ID,
    AddPartitions,
    DescribeTransaction,
    EndTransaction,
    InitProducerId,
    ListTransactions,
    Producer,
    VerifyPartitions,
    WriteMarkers,
)
from kcli.txn.transaction import EPOCH_MAX, EPOCHS_END, INT_MAX, State, Transaction
from kcli.txn.turn import TransactionConfig
from tests.txn.driver import ID, NOW_MS, PLACE, Driver

COMMIT, ABORT = State.COMPLETE_COMMIT, State.COMPLETE_ABORT
VERSIONS = (0, 2)


def statuses(log: list[Pair]) -> list[str]:
    """The states that are in the log."""
    values = [decode(TOPIC, *record).value for record in log]
    return ["gone" if value is None else State(value["transactionStatus"]).label for value in values]


def in_state(driver: Driver, state: State, *, producer_epoch: int = 5, **more: object) -> Producer:
    """Have the transactional id in a state."""
    transaction = Transaction(
        producer_id=7,
        previous_producer_id=7,
        producer_epoch=producer_epoch,
        timeout_ms=60_000,
        state=state,
        partitions=frozenset() if state.is_over else frozenset({PLACE}),
        start_ms=-1 if state is State.EMPTY else NOW_MS,
        last_update_ms=NOW_MS,
        client_version=2 if driver.version >= 2 else 0,
    )
    driver.log = [transaction_record(ID, transaction._replace(**more), driver.version)]  # type: ignore[arg-type]
    driver.holds = True
    driver.start()
    return Producer(ErrorCode.NONE, 7, producer_epoch)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_goes_through_its_states(version: int, commit: bool) -> None:
    driver = Driver(version)
    producer = driver.init()
    assert (producer.code, producer.producer_id, producer.producer_epoch) == (ErrorCode.NONE, 1000, 0)
    assert driver.add(producer, TopicPartition("t", 0)) is ErrorCode.NONE
    assert driver.add(producer, TopicPartition("t", 1), TopicPartition("u", 0)) is ErrorCode.NONE
    assert driver.add(producer, TopicPartition("t", 1)) is ErrorCode.NONE
    ended = driver.end(producer, commit=commit)
    assert ended.code is ErrorCode.NONE
    assert ended.producer_epoch == (1 if version >= 2 else 0)
    (markers,) = driver.markers
    added = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
    assert markers == WriteMarkers(ID, 1000, ended.producer_epoch, commit, added, 2 if version >= 2 else 0)
    last = ["PrepareCommit", "CompleteCommit"] if commit else ["PrepareAbort", "CompleteAbort"]
    assert statuses(driver.log) == ["Empty", "Ongoing", "Ongoing", *last]


def test_the_next_transaction_begins_with_the_epoch_that_the_last_one_ended_with() -> None:
    driver = Driver()
    producer = driver.init()
    for epoch in range(1, 4):
        driver.add(producer)
        producer = driver.end(producer)
        assert producer.producer_epoch == epoch


def test_records_are_those_that_kafka_writes() -> None:
    driver = Driver()
    producer = driver.init()
    driver.now_ms += 5
    driver.add(producer, TopicPartition("t", 1), TopicPartition("t", 0))
    driver.now_ms += 5
    driver.end(producer)
    fields = [decode(TOPIC, *record).value or {} for record in driver.log]
    partitions = [{"topic": "t", "partitionIds": [0, 1]}]
    assert [each["transactionPartitions"] for each in fields] == [None, partitions, partitions, []]
    assert [each["previousProducerId"] for each in fields] == [1000] * 4
    assert [each["producerEpoch"] for each in fields] == [0, 0, 1, 1]
    assert [each["transactionStartTimestampMs"] - NOW_MS for each in fields[1:]] == [5, 5, 5]
    assert [each["transactionLastUpdateTimestampMs"] - NOW_MS for each in fields] == [0, 5, 10, 10]
    assert [each["clientTransactionVersion"] for each in fields] == [0, 2, 2, 2]


def test_values_are_of_the_version_of_the_feature() -> None:
    for version, value_version in ((0, 0), (1, 1), (2, 1)):
        driver = Driver(version)
        driver.init()
        assert decode(TOPIC, *driver.log[0]).value_version == value_version


# InitProducerId


@pytest.mark.parametrize("timeout_ms", [0, -1, 60_001])
def test_time_outs_are_limited(timeout_ms: int) -> None:
    assert Driver().init(timeout_ms=timeout_ms).code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_two_phase_commit_is_allowed_or_not() -> None:
    request = InitProducerId(ID, 60_000, two_phase_commit=True)
    assert Driver().ask(request).code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    driver = Driver(config=TransactionConfig(two_phase_commit=True))
    assert driver.ask(replace(request, keep_prepared=True)).code is ErrorCode.UNSUPPORTED_VERSION
    producer = driver.ask(request)
    assert driver.transaction.timeout_ms == INT_MAX
    driver.add(producer)
    driver.pass_ms(30 * 86_400_000)
    assert driver.state is State.ONGOING


def test_a_new_producer_fences_the_old_one() -> None:
    driver = Driver()
    old = driver.init()
    new = driver.init()
    assert new.producer_epoch == old.producer_epoch + 1
    assert driver.add(old) is ErrorCode.PRODUCER_FENCED
    assert driver.end(old).code is ErrorCode.PRODUCER_FENCED
    assert driver.add(new) is ErrorCode.NONE


@pytest.mark.parametrize("version", VERSIONS)
def test_a_new_producer_aborts_what_is_open_and_has_to_ask_again(version: int) -> None:
    driver = Driver(version)
    old = driver.init()
    driver.add(old)
    driver.holds = True
    assert driver.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    (markers,) = driver.markers
    assert (markers.commit, markers.producer_epoch) == (False, 1)
    assert driver.init().code is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers(markers)
    assert driver.init().producer_epoch == 2
    assert driver.end(old).code is ErrorCode.PRODUCER_FENCED


def test_a_producer_that_says_who_it_was_gets_the_next_epoch_once() -> None:
    driver = Driver()
    producer = driver.init()
    bumped = driver.init(producer.producer_id, 0)
    assert bumped.producer_epoch == 1
    assert driver.init(producer.producer_id, 0) == bumped
    assert driver.init(producer.producer_id, 1).producer_epoch == 2
    assert driver.init(producer.producer_id, 0).code is ErrorCode.PRODUCER_FENCED
    assert driver.init(producer.producer_id + 1, 2).code is ErrorCode.PRODUCER_FENCED


def test_after_a_restart_a_repeated_request_cannot_be_told_from_an_old_one() -> None:
    driver = Driver()
    producer = driver.init()
    driver.init(producer.producer_id, 0)
    driver.start()
    assert driver.init(producer.producer_id, 0).code is ErrorCode.PRODUCER_FENCED


def test_an_unknown_producer_that_says_who_it_was_begins_anew() -> None:
    assert Driver().init(77, 5) == Producer(ErrorCode.NONE, 1000, 0)


def test_a_new_producer_id_takes_over_when_the_epochs_are_used_up() -> None:
    driver = Driver()
    in_state(driver, State.EMPTY, producer_epoch=EPOCHS_END)
    assert driver.init() == Producer(ErrorCode.NONE, 1000, 0)
    assert driver.transaction.previous_producer_id == 7
    assert driver.init(7, EPOCHS_END).code is ErrorCode.PRODUCER_FENCED
    in_state(driver, State.EMPTY, producer_epoch=EPOCHS_END)
    assert driver.init(7, EPOCHS_END) == Producer(ErrorCode.NONE, 1001, 0)
    assert driver.init(7, EPOCHS_END) == Producer(ErrorCode.NONE, 1001, 0), "asked again"
    in_state(driver, State.EMPTY, producer_epoch=EPOCHS_END)
    assert driver.init(7, 3).code is ErrorCode.UNKNOWN_SERVER_ERROR


# AddPartitionsToTxn


def test_partitions_are_added_by_the_producer_only() -> None:
    driver = Driver()
    producer = driver.init()
    assert driver.add(replace(producer, producer_id=5)) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.add(replace(producer, producer_epoch=1)) is ErrorCode.PRODUCER_FENCED
    assert statuses(driver.log) == ["Empty"]


def test_a_cluster_of_version_0_has_no_transactions_of_version_2() -> None:
    driver = Driver(0)
    producer = driver.init()
    add = AddPartitions(ID, producer.producer_id, 0, frozenset({PLACE}), 2)
    assert driver.ask(add) is ErrorCode.UNSUPPORTED_VERSION
    driver.add(producer)
    end = EndTransaction(ID, producer.producer_id, 0, commit=True, client_version=2)
    assert driver.ask(end).code is ErrorCode.UNSUPPORTED_VERSION
    assert driver.end(producer).code is ErrorCode.NONE


def test_nothing_is_added_while_markers_are_written() -> None:
    driver = Driver()
    producer = in_state(driver, State.PREPARE_COMMIT)
    assert driver.add(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.add(replace(producer, producer_id=99)) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_of_unknown_transactional_ids_nothing_is_known() -> None:
    driver = Driver()
    producer = Producer(ErrorCode.NONE, 1, 0)
    assert driver.add(producer) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.end(producer).code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    verify = VerifyPartitions(ID, 1, 0, frozenset({PLACE}))
    assert driver.ask(verify) == {PLACE: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert driver.ask(DescribeTransaction(ID)).code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert driver.ask(DescribeTransaction("")).code is ErrorCode.INVALID_REQUEST
    assert driver.log == []


def test_partitions_are_verified() -> None:
    driver = Driver(0)
    producer = driver.init()
    driver.add(producer, TopicPartition("t", 0))
    verify = VerifyPartitions(ID, producer.producer_id, 0, frozenset({TopicPartition("t", 0), TopicPartition("t", 1)}))
    assert driver.ask(verify) == {("t", 0): ErrorCode.NONE, ("t", 1): ErrorCode.TRANSACTION_ABORTABLE}
    assert set(driver.ask(replace(verify, producer_epoch=3)).values()) == {ErrorCode.PRODUCER_FENCED}
    driver.holds = True
    driver.end(producer)
    assert set(driver.ask(verify).values()) == {ErrorCode.CONCURRENT_TRANSACTIONS}


# EndTxn

OK, FENCED, WRONG, BUSY, OTHER = (
    ErrorCode.NONE,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
)
ENDS_V2 = [
    # state, and the answers to: commit, abort; then with the epoch before: commit, abort
    (State.EMPTY, (WRONG, OK, FENCED, FENCED)),
    (State.ONGOING, (OK, OK, FENCED, FENCED)),
    (State.PREPARE_COMMIT, (BUSY, BUSY, BUSY, BUSY)),
    (State.PREPARE_ABORT, (BUSY, BUSY, BUSY, BUSY)),
    (State.COMPLETE_COMMIT, (WRONG, OK, OK, WRONG)),
    (State.COMPLETE_ABORT, (WRONG, OK, WRONG, OK)),
]
ENDS_V0 = [
    (State.EMPTY, (WRONG, WRONG, FENCED, FENCED)),
    (State.ONGOING, (OK, OK, FENCED, FENCED)),
    (State.PREPARE_COMMIT, (BUSY, BUSY, FENCED, FENCED)),
    (State.PREPARE_ABORT, (BUSY, BUSY, FENCED, FENCED)),
    (State.COMPLETE_COMMIT, (OK, WRONG, FENCED, FENCED)),
    (State.COMPLETE_ABORT, (WRONG, OK, FENCED, FENCED)),
]


@pytest.mark.parametrize(
    ("version", "state", "codes"), [(2, *each) for each in ENDS_V2] + [(0, *each) for each in ENDS_V0]
)
def test_how_a_transaction_may_be_ended_in_each_state(version: int, state: State, codes: tuple[ErrorCode, ...]) -> None:
    asked = [(epoch, commit) for epoch in (5, 4) for commit in (True, False)]
    for (epoch, commit), code in zip(asked, codes, strict=True):
        driver = Driver(version)
        producer = in_state(driver, state)
        assert driver.end(replace(producer, producer_epoch=epoch), commit=commit).code is code
        assert driver.end(replace(producer, producer_epoch=7), commit=commit).code in (FENCED, BUSY)
        other = driver.end(replace(producer, producer_id=99), commit=commit).code
        assert other in (OTHER, BUSY)


def test_an_abort_without_partitions_is_written_and_bumps_the_epoch() -> None:
    driver = Driver()
    producer = driver.init()
    aborted = driver.end(producer, commit=False)
    assert aborted.producer_epoch == 1
    assert statuses(driver.log) == ["Empty", "PrepareAbort", "CompleteAbort"]
    assert driver.transaction.start_ms == NOW_MS
    assert driver.markers[0].partitions == ()


def test_a_repeated_end_is_answered_with_what_the_first_one_was() -> None:
    driver = Driver()
    producer = driver.init()
    driver.add(producer)
    ended = driver.end(producer)
    assert driver.end(producer) == ended
    assert len(driver.markers) == 1


def test_the_last_epoch_ends_with_a_new_producer_id() -> None:
    driver = Driver()
    producer = in_state(driver, State.ONGOING, producer_epoch=EPOCHS_END)
    request = EndTransaction(ID, 7, EPOCHS_END, commit=True, client_version=2)
    assert driver.machine.handle(1, request, NOW_MS).answers == [(1, NEEDS_PRODUCER_ID)]
    driver.holds = False
    ended = driver.end(producer)
    assert ended == Producer(ErrorCode.NONE, 1000, 0)
    assert driver.markers[0].producer_id == 7
    assert driver.markers[0].producer_epoch == EPOCH_MAX
    assert driver.transaction.next_producer_id == -1
    assert driver.transaction.previous_producer_id == 7
    assert driver.end(producer) == ended, "asked again"
    assert driver.end(producer, commit=False).code is ErrorCode.INVALID_TXN_STATE


# after a crash, and in time


@pytest.mark.parametrize("state", [State.PREPARE_COMMIT, State.PREPARE_ABORT])
def test_what_was_decided_before_a_crash_is_completed(state: State) -> None:
    driver = Driver()
    in_state(driver, state)
    (markers,) = driver.markers
    assert markers == WriteMarkers(ID, 7, 5, state is State.PREPARE_COMMIT, (PLACE,), 2)
    driver.write_markers(markers)
    assert driver.state is (COMMIT if state is State.PREPARE_COMMIT else ABORT)
    driver.write_markers(markers)
    assert len(driver.log) == 2, "told twice"


def test_markers_of_an_earlier_transaction_complete_nothing() -> None:
    driver = Driver()
    producer = driver.init()
    driver.add(producer)
    producer = driver.end(producer)
    driver.holds = True
    driver.add(producer)
    driver.end(producer)
    driver.write_markers(driver.markers[0])
    assert driver.state is State.PREPARE_COMMIT


def test_the_state_is_that_of_the_log() -> None:
    driver = Driver()
    producer = driver.init()
    driver.add(producer)
    driver.add(producer, TopicPartition("u", 3))
    before = driver.transaction
    driver.start()
    assert driver.transaction == before._replace(last_producer_epoch=-1)
    assert driver.end(producer).code is ErrorCode.NONE


@pytest.mark.parametrize("version", VERSIONS)
def test_a_transaction_that_takes_too_long_is_aborted(version: int) -> None:
    driver = Driver(version)
    producer = driver.init(timeout_ms=15_000)
    driver.add(producer)
    driver.pass_ms(15_000)
    assert driver.state is State.ONGOING
    driver.pass_ms(5_000)
    assert driver.state is ABORT
    assert driver.transaction.producer_epoch == 1
    late = driver.end(producer).code
    assert late is (ErrorCode.INVALID_TXN_STATE if version >= 2 else ErrorCode.PRODUCER_FENCED)
    assert driver.add(producer) is ErrorCode.PRODUCER_FENCED
    assert driver.init().producer_epoch == 2


def test_a_transaction_of_the_last_epoch_times_out_with_a_new_producer_id() -> None:
    driver = Driver()
    in_state(driver, State.ONGOING, producer_epoch=EPOCHS_END)
    driver.holds = False
    driver.pass_ms(70_000)
    assert driver.state is ABORT
    assert (driver.transaction.producer_id, driver.transaction.producer_epoch) == (1000, 0)


@pytest.mark.parametrize("state", list(State)[:6])
def test_transactional_ids_that_nobody_uses_are_forgotten(state: State) -> None:
    driver = Driver()
    in_state(driver, state)
    driver.pass_ms(driver.config.id_expiration_ms - 1)
    assert ID in driver.machine.transactions
    driver.pass_ms(driver.config.remove_interval_ms)
    if state.is_over:
        assert statuses(driver.log)[-1] == "gone"
        assert not driver.machine.transactions
        driver.start()
        assert not driver.machine.transactions
        assert driver.machine.deadline_ms() is None
    else:
        assert ID in driver.machine.transactions


# listing


def test_transactions_are_described_and_listed() -> None:
    driver = Driver()
    producer = driver.init()
    driver.add(producer, TopicPartition("u", 1), TopicPartition("t", 2), TopicPartition("t", 0))
    driver.ask(InitProducerId("other", 1_000))
    driver.now_ms += 50
    found = driver.ask(DescribeTransaction(ID))
    assert found.topics == {"t": [0, 2], "u": [1]}
    assert (found.state, found.timeout_ms, found.start_ms) == ("Ongoing", 60_000, NOW_MS)

    def listed(**filters: object) -> set[str]:
        return {each.transactional_id for each in driver.ask(ListTransactions(**filters))}  # type: ignore[arg-type]

    assert listed() == {ID, "other"}
    assert listed(states=frozenset({"Ongoing"})) == {ID}
    assert listed(states=frozenset({"Nonsense"})) == set()
    assert listed(producer_ids=frozenset({1001})) == {"other"}
    assert listed(longer_than_ms=49, states=frozenset({"Ongoing"})) == {ID}
    assert listed(longer_than_ms=50, states=frozenset({"Ongoing"})) == set()
