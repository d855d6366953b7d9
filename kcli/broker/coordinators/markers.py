"""Markers: the ends of transactions, in the logs of the partitions that they have written to, whoever leads those.

    own       appended here, and waited for until they are committed
    others'   WriteTxnMarkers to the broker that leads them: one request at a time to each broker, with all that has
              come up meanwhile
    again     what was not written is sent once more after a while, to whoever leads the partition then, until it is, or
              the partition is gone

The coordinator hears of it when a transaction has all its markers. Markers carry the epoch in which this broker leads
the coordinator's partition: a log that has seen a later one refuses them (TRANSACTION_COORDINATOR_FENCED).

    control record   key    version int16, type int16: 0 abort, 1 commit
                     value  version int16, coordinator epoch int32

Source: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler, EndTransactionMarker; KIP-98.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from formats.batch_writer import write_batch
from formats.control_record import ControlType
from kcli.broker.coordinators.other_brokers import OtherBrokers
from kcli.broker.network.messages import ErrorCode
from kcli.broker.network.peers import Unanswered
from kcli.broker.unattended import begin, report
from kcli.group.records import TOPIC as GROUPS
from kcli.log.partition_log import LogFailed
from kcli.log.validator import CONTROL, TRANSACTIONAL, AppendRefused, Origin
from kcli.txn.records import TOPIC
from kcli.txn.requests import WriteMarkers
from kcli.txn.transaction import Partition as Place

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.logs.partitions import Partition

log = logging.getLogger("kcli.broker")

RETRY_S: Final = 0.1
NOBODY: Final = -1
MARKER_KEY, MARKER_VALUE = struct.Struct(">hh"), struct.Struct(">hi")
REQUEST, REQUEST_VERSION = "write_txn_markers", 2
AGAIN = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.not_leader_or_follower,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
    ErrorCode.kafka_storage_error,
)
"""Why a marker is not written yet. Of an unknown partition the metadata says whether it is gone."""


@dataclass(frozen=True, slots=True)
class Marker:
    """The end of a producer's transaction. coordinator_epoch: the leader's of the coordinator's partition."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int


def write_marker(broker: Broker, topic: str, number: int, marker: Marker) -> ErrorCode | asyncio.Future[ErrorCode]:
    """End a transaction in one partition that this broker leads. NONE: it is in the log, and committed. Where that
    takes its followers, the answer comes later."""
    partition = broker.partitions.get(topic, number)
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    if topic == GROUPS and not broker.groups.is_loaded(number):
        return ErrorCode.not_leader_or_follower
    code = partition.check_leader_epoch()
    if code is not None:
        return code
    try:
        if partition.lacks_replicas:
            return ErrorCode.not_enough_replicas
        end_offset = _append(partition, marker, broker.clock.now_ms())
    except AppendRefused as refused:
        return ErrorCode(refused.error.value)
    except (OSError, LogFailed) as failure:
        partition.failed(failure)
        return ErrorCode.kafka_storage_error
    if topic == GROUPS:
        broker.groups.marker_written(number, marker.producer_id, marker.producer_epoch, commit=marker.commit)
    if partition.log.high_watermark >= end_offset:
        return ErrorCode.none
    return partition.wait_committed(end_offset, broker.config.number("request.timeout.ms") / 1000)


def _append(partition: Partition, marker: Marker, now_ms: int) -> int:
    """Returns the log's end behind it. Raises AppendRefused, LogFailed, OSError."""
    kind = ControlType.COMMIT if marker.commit else ControlType.ABORT
    data = write_batch(
        [(MARKER_KEY.pack(0, kind), MARKER_VALUE.pack(0, marker.coordinator_epoch))],
        now_ms,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )
    appended = partition.append_as_leader(
        data, now_ms, origin=Origin.COORDINATOR, transaction_version=marker.transaction_version
    )
    return appended.last_offset + 1


@dataclass(eq=False, slots=True)
class _Ending:
    """A transaction whose markers are being written. number: of the coordinator's partition; left: where there is none
    yet; again: where it is to be tried once more."""

    message: WriteMarkers
    number: int
    left: set[Place]
    again: set[Place] = field(default_factory=set)


class _Asked(NamedTuple):
    """One marker for another broker."""

    ending: _Ending
    place: Place
    marker: Marker


class Markers:
    """See above. written(message, number): all markers of a transaction are."""

    def __init__(self, broker: Broker, written: Callable[[WriteMarkers, int], None]) -> None:
        self._broker = broker
        self._written = written
        self._endings: dict[str, _Ending] = {}
        self._others = OtherBrokers(broker, f"broker-{broker.node_id}-txn-marker-sender")
        self._queues: dict[int, list[tuple[_Ending, Place]]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def write(self, message: WriteMarkers, number: int) -> None:
        """Write them. What was told before of the same transactional id, by a machine that was dropped since, is
        given up: the coordinator was loaded anew, and has said it again."""
        ending = self._endings[message.transactional_id] = _Ending(message, number, set(message.partitions))
        self._send(ending, message.partitions)

    # one transaction

    def _send(self, ending: _Ending, places: Iterable[Place]) -> None:
        """To these partitions, whoever leads them."""
        marker = self._marker(ending)
        if marker is None:
            return
        for place in places:
            leader = self._leader(place)
            if leader is None:
                ending.left.discard(place)
            elif leader == self._broker.node_id:
                self._write(ending, place, marker)
            elif leader == NOBODY:
                self._try_again(ending, place)
            else:
                self._queues.setdefault(leader, []).append((ending, place))
                if leader not in self._tasks:
                    self._tasks[leader] = begin(self._ask(leader), f"broker {leader}: markers are not written")
        self._end(ending)

    def _marker(self, ending: _Ending) -> Marker | None:
        """As it is now; None where this broker has nothing to say about it any more: whoever is the coordinator says it
        again when it has loaded the transaction."""
        message = ending.message
        if self._endings.get(message.transactional_id) is not ending:
            return None
        own = self._broker.partitions.get(TOPIC, ending.number)
        if own is None or not self._broker.transactions.is_loaded(ending.number):
            del self._endings[message.transactional_id]
            return None
        return Marker(
            message.producer_id,
            message.producer_epoch,
            message.commit,
            own.leader_epoch,
            message.transaction_version,
        )

    def _leader(self, place: Place) -> int | None:
        """None: there is no such partition any more, and it needs no marker."""
        topic = self._broker.image.topics.get(place[0])
        state = None if topic is None else topic.partitions.get(place[1])
        return None if state is None else state.leader

    def _write(self, ending: _Ending, place: Place, marker: Marker) -> None:
        code = write_marker(self._broker, *place, marker)
        if isinstance(code, ErrorCode):
            self._hear(ending, place, code, marker)
        else:
            code.add_done_callback(lambda done: self._is_committed(ending, place, done, marker))

    def _is_committed(self, ending: _Ending, place: Place, done: asyncio.Future[ErrorCode], marker: Marker) -> None:
        if not done.cancelled():
            self._hear(ending, place, done.result(), marker)
            self._end(ending)

    def _hear(self, ending: _Ending, place: Place, code: ErrorCode, marker: Marker) -> None:
        """A partition's leader says what became of the marker."""
        if code is ErrorCode.transaction_coordinator_fenced:
            now = self._marker(ending)
            if now is not None and now.coordinator_epoch > marker.coordinator_epoch:
                code = ErrorCode.not_leader_or_follower  # it was this broker itself, in a later epoch
        if code in AGAIN:
            self._try_again(ending, place)
        elif code is ErrorCode.none:
            ending.left.discard(place)
        elif self._endings.get(ending.message.transactional_id) is ending:
            log.error("%s: no marker in %s-%d: %s", ending.message.transactional_id, *place, code.name)
            del self._endings[ending.message.transactional_id]

    def _end(self, ending: _Ending) -> None:
        """Has it all its markers?"""
        transactional_id = ending.message.transactional_id
        if not ending.left and self._endings.get(transactional_id) is ending:
            del self._endings[transactional_id]
            self._written(ending.message, ending.number)

    def _try_again(self, ending: _Ending, place: Place) -> None:
        if not ending.again:
            asyncio.get_running_loop().call_later(RETRY_S, self._resend, ending)
        ending.again.add(place)

    def _resend(self, ending: _Ending) -> None:
        places, ending.again = ending.again, set()
        self._send(ending, sorted(places))

    # other brokers

    async def _ask(self, node_id: int) -> None:
        """One broker after another request, until nothing is left for it."""
        queued = self._queues[node_id]
        try:
            while queued:
                asked = [
                    _Asked(ending, place, marker)
                    for ending, place in queued
                    if (marker := self._marker(ending)) is not None
                ]
                queued.clear()
                await self._ask_once(node_id, asked)
        finally:
            del self._tasks[node_id]

    async def _ask_once(self, node_id: int, asked: list[_Asked]) -> None:
        answers: dict[tuple[int, Place], ErrorCode] = {}
        try:
            channel = self._others.channel(node_id)
            if channel is not None and asked:
                timeout_s = self._broker.config.number("request.timeout.ms") / 1000
                markers = [_plain(list(each)) for _, each in groupby(asked, key=lambda each: each.ending)]
                response = await channel.call(REQUEST, REQUEST_VERSION, timeout_s=timeout_s, markers=markers)
                answers = _codes(response)
        except Unanswered as error:
            log.info("broker %d: markers are not written: %s", node_id, error)
        except Exception as error:  # noqa: BLE001  (else nobody would write them)
            report(f"broker {node_id}: markers are not written", error)
        for ending, place, marker in asked:
            code = answers.get((marker.producer_id, place), ErrorCode.not_leader_or_follower)
            self._hear(ending, place, code, marker)
            self._end(ending)


def _plain(asked: Sequence[_Asked]) -> dict[str, Any]:
    """One transaction's part of a request."""
    marker = asked[0].marker
    topics = groupby(sorted(each.place for each in asked), key=lambda place: place[0])
    return {
        "producer_id": marker.producer_id,
        "producer_epoch": marker.producer_epoch,
        "transaction_result": marker.commit,
        "topics": [{"name": name, "partition_indexes": [number for _, number in of_name]} for name, of_name in topics],
        "coordinator_epoch": marker.coordinator_epoch,
        "transaction_version": marker.transaction_version,
    }


def _codes(response: Any) -> dict[tuple[int, Place], ErrorCode]:
    return {
        (marker.producer_id, (topic.name, each.partition_index)): each.error_code
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    }
