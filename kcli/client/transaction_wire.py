"""The requests about transactions that librdkafka has no face for, as values. See wire.

    FindCoordinator v4       the brokers that coordinate transactional ids
    ListTransactions v0, v1  the ids that a broker coordinates; v1 by how long they are open (KIP-664, KIP-994)
    DescribeTransactions     what a coordinator knows of its ids
    DescribeProducers        what a replica knows of its producers
    WriteTxnMarkers v1       end a transaction in a partition
    InitProducerId v4        end the transaction of an id, and fence its producer

Every function asks one broker, and raises NoAnswer and OSError.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import groupby
from typing import NamedTuple

from kcli.client.wire import Server, asked

# isort: split
from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.describe_producers.v0.response import DescribeProducersResponse, ProducerState
from kio.schema.describe_transactions.v0.request import DescribeTransactionsRequest
from kio.schema.errors import ErrorCode
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
from kcli.group_view import Place
from kcli.transaction_view import Listing, Producer, Transaction, Wanted, known

TRANSACTION = i8(1)
NONE = -1
ONE_MS = timedelta(milliseconds=1)
FENCING_TIMEOUT = i32Timedelta.parse(timedelta(seconds=30))


class Coordinator(NamedTuple):
    """The broker that coordinates a transactional id, or why none is known."""

    error: ErrorCode
    broker: int
    host: str
    port: int


def find_coordinators(server: Server, transactional_ids: Sequence[str]) -> dict[str, Coordinator]:
    """Coordinators by transactional id."""
    request = FindCoordinatorRequest(key_type=TRANSACTION, coordinator_keys=tuple(transactional_ids))
    answer = asked(server, request, FindCoordinatorResponse)
    return {each.key: Coordinator(each.error_code, each.node_id, each.host, each.port) for each in answer.coordinators}


def list_transactions(server: Server, broker: int, wanted: Wanted) -> tuple[ErrorCode, list[Listing]]:
    """What a broker coordinates. One that knows no durations gives NoAnswer where one is wanted."""
    filters = {"state_filters": tuple(sorted(wanted.states))}
    producers = tuple(ProducerId(each) for each in sorted(wanted.producer_ids))
    if wanted.longer_than_ms is None:
        request: object = v0.ListTransactionsRequest(**filters, producer_id_filters=producers)
        answer = asked(server, request, v0.ListTransactionsResponse)
    else:
        request = v1.ListTransactionsRequest(
            **filters, producer_id_filters=producers, duration_filter=i64(wanted.longer_than_ms)
        )
        answer = asked(server, request, v1.ListTransactionsResponse)
    return answer.error_code, [
        Listing(each.transactional_id, broker, each.producer_id, each.transaction_state)
        for each in answer.transaction_states
    ]


def describe_transactions(
    server: Server, broker: int, transactional_ids: Iterable[str]
) -> list[tuple[ErrorCode, Transaction]]:
    """What a coordinator knows of transactional ids, or why not."""
    request = DescribeTransactionsRequest(transactional_ids=tuple(map(TransactionalId, transactional_ids)))
    answer = asked(server, request, DescribeTransactionsResponse)
    return [(each.error_code, _transaction(each, broker)) for each in answer.transaction_states]


def _transaction(told: TransactionState, broker: int) -> Transaction:
    return Transaction(
        told.transactional_id,
        broker,
        told.producer_id,
        told.producer_epoch,
        told.transaction_state,
        told.transaction_timeout,
        told.transaction_start_time if told.transaction_start_time >= 0 else None,
        tuple(sorted((topic.topic, number) for topic in told.topics for number in topic.partitions)),
    )


def describe_producers(server: Server, places: Iterable[Place]) -> list[tuple[Place, ErrorCode, list[Producer]]]:
    """What a broker's replicas know of their producers, or why not."""
    topics = tuple(
        TopicRequest(name=TopicName(topic), partition_indexes=tuple(i32(number) for _, number in of_topic))
        for topic, of_topic in groupby(sorted(places), key=lambda place: place[0])
    )
    answer = asked(server, DescribeProducersRequest(topics=topics), DescribeProducersResponse)
    return [
        ((topic.name, each.partition_index), each.error_code, sorted(map(_producer, each.active_producers)))
        for topic in answer.topics
        for each in topic.partitions
    ]


def _producer(told: ProducerState) -> Producer:
    return Producer(
        told.producer_id,
        told.producer_epoch,
        known(told.coordinator_epoch),
        known(told.last_sequence),
        told.last_timestamp,
        known(told.current_txn_start_offset),
    )


def abort(server: Server, place: Place, producer_id: int, producer_epoch: int, coordinator_epoch: int) -> ErrorCode:
    """Have a partition's leader write the marker of an abort."""
    topic, number = place
    marker = WritableTxnMarker(
        producer_id=ProducerId(producer_id),
        producer_epoch=i16(producer_epoch),
        transaction_result=False,
        topics=(WritableTxnMarkerTopic(name=TopicName(topic), partition_indexes=(i32(number),)),),
        coordinator_epoch=i32(coordinator_epoch),
    )
    answer = asked(server, WriteTxnMarkersRequest(markers=(marker,)), WriteTxnMarkersResponse)
    errors = [each.error_code for told in answer.markers for topic in told.topics for each in topic.partitions]
    return next((each for each in errors if each is not ErrorCode.none), ErrorCode.none)


def fence(server: Server, transactional_id: str) -> ErrorCode:
    """Have a coordinator take a producer's transaction and epoch from it, as if it began anew."""
    request = InitProducerIdRequest(
        transactional_id=TransactionalId(transactional_id),
        transaction_timeout=FENCING_TIMEOUT,
        producer_id=ProducerId(NONE),
        producer_epoch=i16(NONE),
    )
    error: ErrorCode = asked(server, request, InitProducerIdResponse).error_code
    return error
