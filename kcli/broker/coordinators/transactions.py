"""Transactions on a broker: the coordinator of __transaction_state, what it wants done, and what its handlers share.

    markers   written to the partitions that this broker leads, again and again until all are; then the coordinator
              hears of it. A partition that there is no more needs none
    verify    before a transactional batch is the first of its transaction in a partition, the coordinator is asked
              whether the partition is part of it, or told so by new clients (KIP-890)

Source: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler, AddPartitionsToTxnManager,
ReplicaManager.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from formats.batch_writer import write_batch
from formats.control_record import ControlType
from kcli.broker.coordinators.runtime import CoordinatorError, Work
from kcli.broker.network.messages import ErrorCode
from kcli.group.records import TOPIC as GROUPS
from kcli.log.partition_log import LogFailed
from kcli.log.validator import CONTROL, TRANSACTIONAL, AppendRefused, Origin
from kcli.metadata.result import Refused
from kcli.txn.machine import TransactionMachine
from kcli.txn.records import TOPIC
from kcli.txn.requests import NEEDS_PRODUCER_ID, AbortTimedOut, MarkersWritten, Producer, WriteMarkers
from kcli.txn.transaction import Partition as Place
from kcli.txn.turn import TransactionConfig

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.config import BrokerConfig

log = logging.getLogger("kcli.broker")

FEATURE: Final = "transaction.version"
RETRY_S = 0.1
MARKER_KEY, MARKER_VALUE = struct.Struct(">hh"), struct.Struct(">hi")  # version, type; version, coordinator epoch
AGAIN = (
    ErrorCode.not_leader_or_follower,
    ErrorCode.not_enough_replicas,
    ErrorCode.kafka_storage_error,
)
"""Why a marker is not written yet."""
NOT_NEEDED = (ErrorCode.none, ErrorCode.unknown_topic_or_partition)


def coordinate(broker: Broker) -> Work:
    """What the coordinator of transactions does."""
    config = _config(broker.config)
    return Work(
        make=lambda _: TransactionMachine(config, lambda: broker.image.features.get(FEATURE, 0)),
        act=_Transactions(broker).act,
        commit_timeout_ms=broker.config.number("request.timeout.ms"),
        changes_nothing=lambda _: True,  # transactions change by their records only
    )


def _config(config: BrokerConfig) -> TransactionConfig:
    return TransactionConfig(
        max_timeout_ms=config.number("transaction.max.timeout.ms"),
        id_expiration_ms=config.number("transactional.id.expiration.ms"),
        abort_interval_ms=config.number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        remove_interval_ms=config.number("transaction.remove.expired.transaction.cleanup.interval.ms"),
        two_phase_commit=bool(config.get("transaction.two.phase.commit.enable")),
    )


class _Transactions:
    """Does what the coordinator's machines tell. written: the last markers of each transactional id, as long as not
    all are written."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._unwritten: dict[str, WriteMarkers] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def act(self, message: WriteMarkers | AbortTimedOut, number: int) -> None:
        """Do it."""
        if isinstance(message, WriteMarkers):
            self._unwritten[message.transactional_id] = message
            self._write(message, message.partitions, number)
        else:
            self._begin(self._abort(message, number))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _write(self, message: WriteMarkers, partitions: tuple[Place, ...], number: int) -> None:
        """Write the markers to these partitions, which are left of the message's. number: of the coordinator's
        partition."""
        own = self._broker.partitions.get(TOPIC, number)
        if self._unwritten.get(message.transactional_id) is not message:
            return  # the coordinator was loaded anew, and has said it again
        if own is None or not self._broker.transactions.is_loaded(number):
            del self._unwritten[message.transactional_id]
            return  # it says it again when it is loaded
        marker = Marker(
            message.producer_id,
            message.producer_epoch,
            message.commit,
            own.leader_epoch,
            message.transaction_version,
        )
        left = []
        for topic, partition in partitions:
            code = write_marker(self._broker, topic, partition, marker)
            if code in AGAIN:
                left.append((topic, partition))
            elif code not in NOT_NEEDED:
                log.error("%s: no marker in %s-%d: %s", message.transactional_id, topic, partition, code.name)
                del self._unwritten[message.transactional_id]
                return
        if left:
            asyncio.get_running_loop().call_later(RETRY_S, self._write, message, tuple(left), number)
            return
        del self._unwritten[message.transactional_id]
        self._begin(self._complete(message, number))

    async def _complete(self, message: WriteMarkers, number: int) -> None:
        request = MarkersWritten(message.transactional_id, message.producer_id, message.producer_epoch)
        try:
            await self._broker.transactions.ask_shard(number, request)
        except CoordinatorError as error:
            log.info("%s is completed later: %s", message.transactional_id, error.code.name)

    async def _abort(self, message: AbortTimedOut, number: int) -> None:
        try:
            producer_id = await self._broker.producer_ids.next()
            await self._broker.transactions.ask_shard(number, replace(message, new_producer_id=producer_id))
        except (CoordinatorError, Refused) as error:
            log.warning("%s has timed out and is not aborted: %s", message.transactional_id, error)


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a producer's transaction. coordinator_epoch: the leader's of the coordinator's partition."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int


def write_marker(broker: Broker, topic: str, number: int, marker: Marker) -> ErrorCode:
    """End a transaction in one partition. NONE: it is in the log."""
    partition = broker.partitions.get(topic, number)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    if topic == GROUPS and not broker.groups.is_loaded(number):
        return ErrorCode.not_leader_or_follower
    code = partition.check_leader_epoch()
    if code is not None:
        return code
    now_ms = broker.clock.now_ms()
    data = write_batch(
        [
            (
                MARKER_KEY.pack(0, ControlType.COMMIT if marker.commit else ControlType.ABORT),
                MARKER_VALUE.pack(0, marker.coordinator_epoch),
            )
        ],
        now_ms,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )
    try:
        if partition.lacks_replicas:
            return ErrorCode.not_enough_replicas
        partition.append_as_leader(
            data, now_ms, origin=Origin.COORDINATOR, transaction_version=marker.transaction_version
        )
    except AppendRefused as refused:
        return ErrorCode(refused.error.value)
    except (OSError, LogFailed) as failure:
        partition.failed(failure)
        return ErrorCode.kafka_storage_error
    if topic == GROUPS:
        broker.groups.marker_written(number, marker.producer_id, marker.producer_epoch, commit=marker.commit)
    return ErrorCode.none


async def ask_transaction(broker: Broker, transactional_id: str, request: Any) -> Any:
    """The answer of the transactional id's machine, with a producer id where it needs one. Raises CoordinatorError;
    Refused where there are no producer ids."""
    answer = await broker.transactions.ask(transactional_id, request)
    if answer is NEEDS_PRODUCER_ID:
        request = replace(request, new_producer_id=await broker.producer_ids.next())
        answer = await broker.transactions.ask(transactional_id, request)
    return answer


async def ask_producer(broker: Broker, transactional_id: str, request: Any) -> tuple[ErrorCode, int, int]:
    """The answer to InitProducerId and EndTransaction: error, producer id, epoch."""
    if not transactional_id:
        return ErrorCode.invalid_request, -1, -1
    try:
        answer: Producer = await ask_transaction(broker, transactional_id, request)
    except CoordinatorError as error:
        return error.code, -1, -1
    except Refused:
        return ErrorCode.unknown_server_error, -1, -1
    return ErrorCode(answer.code.value), answer.producer_id, answer.producer_epoch


def for_version(code: ErrorCode, version: int, since: int) -> ErrorCode:
    """Clients before that version do not know PRODUCER_FENCED."""
    return ErrorCode.invalid_producer_epoch if code is ErrorCode.producer_fenced and version < since else code
