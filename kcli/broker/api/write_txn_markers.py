"""WriteTxnMarkers (27): a transaction coordinator, or an administrator, appends transaction markers to partitions.

v1 flexible. v2 the transaction version, which decides how producer epochs are compared (KIP-1228). KIP-98, KIP-664.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.coordinators.local_markers import Marker
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import write_txn_markers as types

log = logging.getLogger("kcli.broker")
NONE = -1
Code = ErrorCode | asyncio.Future[ErrorCode]
"""The error code of one marker in one partition; or a future of the code, which is done when the marker is
committed."""


def write_txn_markers(
    broker: Broker, call: types.WriteTxnMarkersCall
) -> types.WriteTxnMarkersResponse | Awaitable[types.WriteTxnMarkersResponse]:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT,
    KAFKA_STORAGE_ERROR, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED; UNKNOWN_SERVER_ERROR for all markers if
    one of them has no producer id or epoch. The response waits until all appended markers are committed."""
    if not broker.access.allows(call, Operation.ALTER, ResourceType.CLUSTER, log_denied=False):
        broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    markers = call.request.markers
    lacks_producer = any(NONE in (each.producer_id, each.producer_epoch) for each in markers)
    code = ErrorCode.UNKNOWN_SERVER_ERROR if lacks_producer else None
    if lacks_producer:
        log.error("markers of client %s refused: a marker without a producer id or epoch", call.client_id)
    codes = [code or _write(broker, marker, place) for marker in markers for place in _places(marker)]
    waits = [each for each in codes if not isinstance(each, ErrorCode)]
    return _answer_later(call, codes, waits) if waits else _answer(call, codes)


def _places(marker: types.WritableTxnMarker) -> Iterator[TopicPartition]:
    return (TopicPartition(topic.name, number) for topic in marker.topics for number in topic.partition_indexes)


def _write(broker: Broker, requested: types.WritableTxnMarker, place: TopicPartition) -> Code:
    marker = Marker(
        producer_id=requested.producer_id,
        producer_epoch=requested.producer_epoch,
        commit=requested.transaction_result,
        coordinator_epoch=requested.coordinator_epoch,
        transaction_version=getattr(requested, "transaction_version", 0),
    )
    return broker.markers.write(*place, marker)


async def _answer_later(
    call: types.WriteTxnMarkersCall, codes: Sequence[Code], waits: Iterable[asyncio.Future[ErrorCode]]
) -> types.WriteTxnMarkersResponse:
    await asyncio.wait(waits)
    return _answer(call, codes)


def _answer(call: types.WriteTxnMarkersCall, codes: Iterable[Code]) -> types.WriteTxnMarkersResponse:
    """Return the response. codes: the error codes of each marker's partitions, in the order of the request."""
    results = (each if isinstance(each, ErrorCode) else each.result() for each in codes)
    return call.respond(markers=tuple(_result(call, each, results) for each in call.request.markers))


def _result(
    call: types.WriteTxnMarkersCall, marker: types.WritableTxnMarker, codes: Iterator[ErrorCode]
) -> types.WritableTxnMarkerResult:
    topics = tuple(
        call.new(
            "WritableTxnMarkerTopicResult",
            name=topic.name,
            partitions=tuple(
                call.new("WritableTxnMarkerPartitionResult", partition_index=number, error_code=next(codes))
                for number in topic.partition_indexes
            ),
        )
        for topic in marker.topics
    )
    return call.new("WritableTxnMarkerResult", producer_id=marker.producer_id, topics=topics)
