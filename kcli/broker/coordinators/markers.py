"""Writes the markers of a transaction to all its partitions, for the transaction coordinator.

    led by this broker     this broker appends the marker, which counts as written once it is committed
    led by another broker  WriteTxnMarkers sends all waiting markers to that broker; each broker gets one request at a
                           time
    retry                  a marker that could not be written is sent again after RETRY_S, to the broker that leads the
                           partition by then, until it is written or the partition is deleted

When all markers of a transaction are written, the coordinator gets the message MarkersWritten. A marker carries the
leader epoch of the coordinator's partition: a log that has a marker with a later epoch refuses a marker with an earlier
one (TRANSACTION_COORDINATOR_FENCED).

Source: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler, EndTransactionMarker; KIP-98.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kcli.broker.coordinators.local_markers import LocalMarkers, Marker
from kcli.broker.coordinators.other_brokers import OtherBrokers
from kcli.broker.network.peers import Unanswered
from kcli.broker.process.unattended import begin, report
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.requests import WriteMarkers

if TYPE_CHECKING:
    from kcli.broker.coordinators.runtime import Coordinator
    from kcli.broker.wire.types.write_txn_markers import WriteTxnMarkersResponse

log = logging.getLogger("kcli.broker")

RETRY_S: Final = 0.1
NO_LEADER: Final = -1
REQUEST, REQUEST_VERSION = "write_txn_markers", 2
AGAIN = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
)
"""Errors after which a marker is sent again. After UNKNOWN_TOPIC_OR_PARTITION the metadata image shows whether the
partition was deleted."""


@dataclass(eq=False, slots=True)
class _Ending:
    """A transaction whose markers are being written. number: the transaction's partition of __transaction_state. left:
    the partitions in which the marker is not written yet. again: those of `left` whose marker must be sent again."""

    message: WriteMarkers
    number: int
    left: set[TopicPartition]
    again: set[TopicPartition] = field(default_factory=set)


class _QueuedMarker(NamedTuple):
    """One marker of a WriteTxnMarkers request. place: the partition to which it is written."""

    ending: _Ending
    place: TopicPartition
    marker: Marker


class Markers:
    """Writes the markers of ended transactions. local: writes markers to the partitions that this broker leads.
    written(message, number): called when all markers of a transaction are written; number: the transaction's partition
    of __transaction_state."""

    def __init__(
        self, transactions: Coordinator, local: LocalMarkers, written: Callable[[WriteMarkers, int], None]
    ) -> None:
        self._transactions = transactions
        self._context = transactions.context
        self._local = local
        self._written = written
        self._endings: dict[str, _Ending] = {}
        self._others = OtherBrokers(self._context, f"broker-{self._context.node_id}-txn-marker-sender")
        self._queues: dict[int, list[tuple[_Ending, TopicPartition]]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def write(self, message: WriteMarkers, number: int) -> None:
        """Write the markers of a transaction. An earlier message for the same transactional id is dropped: the state
        machine that sent that message has been replaced, and the new message again names all partitions of the
        transaction."""
        ending = self._endings[message.transactional_id] = _Ending(message, number, set(message.partitions))
        self._send(ending, message.partitions)

    # one transaction

    def _send(self, ending: _Ending, places: Iterable[TopicPartition]) -> None:
        """Write the transaction's marker to the partitions `places`: append it if this broker leads the partition, else
        queue it for the leader."""
        marker = self._marker(ending)
        if marker is None:
            return
        for place in places:
            leader = self._leader(place)
            if leader is None:
                ending.left.discard(place)
            elif leader == self._context.node_id:
                self._write(ending, place, marker)
            elif leader == NO_LEADER:
                self._try_again(ending, place)
            else:
                self._queues.setdefault(leader, []).append((ending, place))
                if leader not in self._tasks:
                    self._tasks[leader] = begin(self._send_queue(leader), f"broker {leader}: markers are not written")
        self._end(ending)

    def _marker(self, ending: _Ending) -> Marker | None:
        """Return the transaction's marker with the current coordinator epoch; None if this broker is no longer the
        coordinator (the new coordinator writes the markers once it has loaded), or if a later WriteMarkers message has
        replaced that of `ending`."""
        message = ending.message
        if self._endings.get(message.transactional_id) is not ending:
            return None
        epoch = self._transactions.leader_epoch_of(ending.number)
        if epoch is None:
            del self._endings[message.transactional_id]
            return None
        return Marker(
            message.producer_id,
            message.producer_epoch,
            message.commit,
            epoch,
            message.transaction_version,
        )

    def _leader(self, place: TopicPartition) -> int | None:
        """Return the partition's leader, -1 while it has none; None if the partition was deleted and so needs no
        marker."""
        topic = self._context.image.topics.get(place.topic)
        state = None if topic is None else topic.partitions.get(place.partition)
        return None if state is None else state.leader

    def _write(self, ending: _Ending, place: TopicPartition, marker: Marker) -> None:
        code = self._local.write(*place, marker)
        if isinstance(code, ErrorCode):
            self._handle_result(ending, place, code, marker)
        else:
            code.add_done_callback(lambda done: self._is_committed(ending, place, done, marker))

    def _is_committed(
        self, ending: _Ending, place: TopicPartition, done: asyncio.Future[ErrorCode], marker: Marker
    ) -> None:
        if not done.cancelled():
            self._handle_result(ending, place, done.result(), marker)
            self._end(ending)

    def _handle_result(self, ending: _Ending, place: TopicPartition, code: ErrorCode, marker: Marker) -> None:
        """Remove the partition from `ending.left` if its marker is written. After an error in AGAIN, write the marker
        again later; after any other error, log the error and write no more markers of the transaction."""
        if code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            now = self._marker(ending)
            if now is not None and now.coordinator_epoch > marker.coordinator_epoch:
                # this coordinator has a later epoch by now: send the marker again, with that epoch
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        if code in AGAIN:
            self._try_again(ending, place)
        elif code == ErrorCode.NONE:
            ending.left.discard(place)
        elif self._endings.get(ending.message.transactional_id) is ending:
            log.error("%s: no marker in %s-%d: %s", ending.message.transactional_id, *place, code.name)
            del self._endings[ending.message.transactional_id]

    def _end(self, ending: _Ending) -> None:
        """Call `written` if all markers of the transaction are written."""
        transactional_id = ending.message.transactional_id
        if not ending.left and self._endings.get(transactional_id) is ending:
            del self._endings[transactional_id]
            self._written(ending.message, ending.number)

    def _try_again(self, ending: _Ending, place: TopicPartition) -> None:
        if not ending.again:
            asyncio.get_running_loop().call_later(RETRY_S, self._resend, ending)
        ending.again.add(place)

    def _resend(self, ending: _Ending) -> None:
        places, ending.again = ending.again, set()
        self._send(ending, sorted(places))

    # other brokers

    async def _send_queue(self, node_id: int) -> None:
        """Send the queued markers to one broker, in one request after another, until its queue is empty."""
        queued = self._queues[node_id]
        try:
            while queued:
                markers = [
                    _QueuedMarker(ending, place, marker)
                    for ending, place in queued
                    if (marker := self._marker(ending)) is not None
                ]
                queued.clear()
                await self._send_request(node_id, markers)
        finally:
            del self._tasks[node_id]

    async def _send_request(self, node_id: int, queued: list[_QueuedMarker]) -> None:
        answers: dict[tuple[int, TopicPartition], ErrorCode] = {}
        try:
            channel = self._others.channel(node_id)
            if channel is not None and queued:
                timeout_s = self._context.config.number("request.timeout.ms") / 1000
                markers = [_plain(list(each)) for _, each in groupby(queued, key=lambda each: each.ending)]
                response = await channel.call(REQUEST, REQUEST_VERSION, timeout_s=timeout_s, markers=markers)
                answers = _codes(response)
        except Unanswered as error:
            log.info("broker %d: markers are not written: %s", node_id, error)
        except Exception as error:  # noqa: BLE001  (else the markers would never be written)
            report(f"broker {node_id}: markers are not written", error)
        for ending, place, marker in queued:
            code = answers.get((marker.producer_id, place), ErrorCode.NOT_LEADER_OR_FOLLOWER)
            self._handle_result(ending, place, code, marker)
            self._end(ending)


def _plain(queued: Sequence[_QueuedMarker]) -> dict[str, Any]:
    """Return the fields of a WriteTxnMarkers request for the queued markers of one transaction."""
    marker = queued[0].marker
    topics = groupby(sorted(each.place for each in queued), key=lambda place: place.topic)
    return {
        "producer_id": marker.producer_id,
        "producer_epoch": marker.producer_epoch,
        "transaction_result": marker.commit,
        "topics": [{"name": name, "partition_indexes": [number for _, number in of_name]} for name, of_name in topics],
        "coordinator_epoch": marker.coordinator_epoch,
        "transaction_version": marker.transaction_version,
    }


def _codes(response: WriteTxnMarkersResponse) -> dict[tuple[int, TopicPartition], ErrorCode]:
    return {
        (marker.producer_id, TopicPartition(topic.name, each.partition_index)): ErrorCode(each.error_code)
        for marker in response.markers
        for topic in marker.topics
        for each in topic.partitions
    }
