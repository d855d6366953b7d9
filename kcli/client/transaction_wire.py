"""The requests about transactions that librdkafka's API lacks, sent over connections of `wire`.

    FindCoordinator v4       returns the coordinators of transactional ids
    ListTransactions v0, v1  returns the transactional ids that a broker coordinates; v1 filters by duration (KIP-664,
                             KIP-994)
    DescribeTransactions     returns the state of transactional ids, from their coordinator
    DescribeProducers        returns the active producers of a partition, from one of its replicas
    WriteTxnMarkers v1       writes a transaction marker to a partition
    InitProducerId v4        aborts the open transaction of a transactional id, and fences its producer

Every function sends one request to one broker, and raises NoAnswer and OSError.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import groupby
from typing import NamedTuple

from kcli.client.wire import Server, call
from kcli.protocol.error_code import ErrorCode

# isort: split
from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_producers.v0.response import DescribeProducersResponse, ProducerState
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.list_transactions import v0, v1
from kio.schema.types import ProducerId, TopicName, TransactionalId
from kio.schema.write_txn_markers.v1.request import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kio.schema.write_txn_markers.v1.response import WriteTxnMarkersResponse
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

from kcli.client.transaction_state import DescribeTransactionsResponse, TransactionState
from kcli.protocol.topic_partition import TopicPartition
from kcli.views.transactions import Listing, Producer, Transaction, TransactionFilter, known

TRANSACTION = i8(1)
NONE = -1
ONE_MS = timedelta(milliseconds=1)
FENCING_TIMEOUT = i32Timedelta.parse(timedelta(seconds=30))


class Coordinator(NamedTuple):
    """The coordinator of a transactional id. error: NONE, or the error that FindCoordinator returned for the id; the
    other fields mean nothing then."""

    error: ErrorCode
    broker: int
    host: str
    port: int


def find_coordinators(server: Server, transactional_ids: Sequence[str]) -> dict[str, Coordinator]:
    """Return the coordinator of each transactional id, by the id."""
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=tuple(transactional_ids))
    answer = call(server, request, FindCoordinatorResponse)
    return {
        each.key: Coordinator(ErrorCode(each.error_code), each.node_id, each.host, each.port)
        for each in answer.coordinators
    }


def list_transactions(server: Server, broker: int, selection: TransactionFilter) -> tuple[ErrorCode, list[Listing]]:
    """Return the error code of ListTransactions and the transactional ids that a broker coordinates. broker: the id of
    the broker at `server`. Raises NoAnswer if `selection` has a duration and the broker has only version 0 of
    ListTransactions, which has no filter by duration."""
    filters = {"state_filters": tuple(sorted(selection.states))}
    producers = tuple(ProducerId(each) for each in sorted(selection.producer_ids))
    if selection.longer_than_ms is None:
        request: object = v0.ListTransactionsRequest(**filters, producer_id_filters=producers)
        answer = call(server, request, v0.ListTransactionsResponse)
    else:
        request = v1.ListTransactionsRequest(
            **filters, producer_id_filters=producers, duration_filter=i64(selection.longer_than_ms)
        )
        answer = call(server, request, v1.ListTransactionsResponse)
    return ErrorCode(answer.error_code), [
        Listing(each.transactional_id, broker, each.producer_id, each.transaction_state)
        for each in answer.transaction_states
    ]


def describe_transactions(
    server: Server, broker: int, transactional_ids: Iterable[str]
) -> list[tuple[ErrorCode, Transaction]]:
    """Send DescribeTransactions. Return, for each transactional id, the error code and the state of its transaction.
    broker: the id of the broker at `server`, which must be the coordinator."""
    request = DescribeTransactionsRequest(transactional_ids=tuple(map(TransactionalId, transactional_ids)))
    answer = call(server, request, DescribeTransactionsResponse)
    return [(ErrorCode(each.error_code), _transaction(each, broker)) for each in answer.transaction_states]


def _transaction(described: TransactionState, broker: int) -> Transaction:
    return Transaction(
        described.transactional_id,
        broker,
        described.producer_id,
        described.producer_epoch,
        described.transaction_state,
        described.transaction_timeout,
        described.transaction_start_time if described.transaction_start_time >= 0 else None,
        tuple(sorted(TopicPartition(topic.topic, number) for topic in described.topics for number in topic.partitions)),
    )


def describe_producers(
    server: Server, places: Iterable[TopicPartition]
) -> list[tuple[TopicPartition, ErrorCode, list[Producer]]]:
    """Return, for each partition, the error code of DescribeProducers and the active producers."""
    topics = tuple(
        TopicRequest(name=TopicName(topic), partition_indexes=tuple(i32(number) for _, number in of_topic))
        for topic, of_topic in groupby(sorted(places), key=lambda place: place.topic)
    )
    answer = call(server, DescribeProducersRequest(topics=topics), DescribeProducersResponse)
    return [
        (
            TopicPartition(topic.name, each.partition_index),
            ErrorCode(each.error_code),
            sorted(map(_producer, each.active_producers)),
        )
        for topic in answer.topics
        for each in topic.partitions
    ]


def _producer(described: ProducerState) -> Producer:
    return Producer(
        described.producer_id,
        described.producer_epoch,
        known(described.coordinator_epoch),
        known(described.last_sequence),
        described.last_timestamp,
        known(described.current_txn_start_offset),
    )


def abort(
    server: Server, place: TopicPartition, producer_id: int, producer_epoch: int, coordinator_epoch: int
) -> ErrorCode:
    """Have a partition's leader write an ABORT marker (WriteTxnMarkers). Return the error code in the response, NONE if
    the marker was written."""
    topic, number = place
    marker = WritableTxnMarker(
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(producer_epoch),
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=TopicName(topic), partition_indexes=(i32(number),)),),
        coordinator_epoch=i32(coordinator_epoch),
    )
    answer = call(server, WriteTxnMarkersRequest(markers=(marker,)), WriteTxnMarkersResponse)
    partitions = [each for marked in answer.markers for topic in marked.topics for each in topic.partitions]
    errors = [ErrorCode(each.error_code) for each in partitions]
    return next((each for each in errors if each != ErrorCode.NONE), ErrorCode.NONE)


def fence(server: Server, transactional_id: str) -> ErrorCode:
    """Abort the open transaction of a transactional id and raise its producer epoch, as a new producer's InitProducerId
    does. Return the error code in the response, NONE for success."""
    request = InitProducerIdRequest(
        transactional_id=TransactionalId(transactional_id),
        transaction_timeout=FENCING_TIMEOUT,
        producer_id=ProducerId(NONE),
        producer_epoch=i16(NONE),
    )
    return ErrorCode(call(server, request, InitProducerIdResponse).error_code)
