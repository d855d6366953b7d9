"""WriteTxnMarkers (27): a transaction coordinator, or an administrator, ends transactions in partitions.

v1 flexible. v2 the transaction version, which says how epochs are compared (KIP-1228). KIP-98, KIP-664.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Iterator, Sequence

from kcli.broker.coordinators.markers import Marker, write_marker
from kcli.broker.network.messages import Call, Entity, ErrorCode

NONE = -1
Code = ErrorCode | asyncio.Future[ErrorCode]
"""Of one marker, now or when it is committed."""


def write_txn_markers(call: Call) -> Entity | Awaitable[Entity]:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS, REQUEST_TIMED_OUT,
    KAFKA_STORAGE_ERROR, INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED; everywhere UNKNOWN_SERVER_ERROR where
    one is nobody's. Answered once all that are written are committed."""
    markers = call.request.markers
    nobody = any(NONE in (each.producer_id, each.producer_epoch) for each in markers)
    code = ErrorCode.unknown_server_error if nobody else None
    codes = [code or _write(call, asked, place) for asked in markers for place in _places(asked)]
    waits = [each for each in codes if not isinstance(each, ErrorCode)]
    return _answer_later(call, codes, waits) if waits else _answer(call, codes)


def _places(asked: Entity) -> Iterator[tuple[str, int]]:
    return ((topic.name, number) for topic in asked.topics for number in topic.partition_indexes)


def _write(call: Call, asked: Entity, place: tuple[str, int]) -> Code:
    marker = Marker(
        producer_id=asked.producer_id,
        producer_epoch=asked.producer_epoch,
        commit=asked.transaction_result,
        coordinator_epoch=asked.coordinator_epoch,
        transaction_version=getattr(asked, "transaction_version", 0),
    )
    return write_marker(call.broker, *place, marker)


async def _answer_later(call: Call, codes: Sequence[Code], waits: Iterable[asyncio.Future[ErrorCode]]) -> Entity:
    await asyncio.wait(waits)
    return _answer(call, codes)


def _answer(call: Call, codes: Iterable[Code]) -> Entity:
    """codes: of all markers and partitions, in their order."""
    told = (each if isinstance(each, ErrorCode) else each.result() for each in codes)
    return call.respond(markers=tuple(_result(call, each, told) for each in call.request.markers))


def _result(call: Call, asked: Entity, codes: Iterator[ErrorCode]) -> Entity:
    topics = tuple(
        call.new(
            "WritableTxnMarkerTopicResult",
            name=topic.name,
            partitions=tuple(
                call.new("WritableTxnMarkerPartitionResult", partition_index=number, error_code=next(codes))
                for number in topic.partition_indexes
            ),
        )
        for topic in asked.topics
    )
    return call.new("WritableTxnMarkerResult", producer_id=asked.producer_id, topics=topics)
