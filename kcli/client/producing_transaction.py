"""A transaction whose batches LogAppender appends; it commits offsets of a group together with them.

    FindCoordinator v4        the coordinator of the transactional id, and of the group
    InitProducerId v4         aborts what an earlier producer of the id has left open, and fences that producer
    AddPartitionsToTxn v3     before the first batch of a partition
    AddOffsetsToTxn v3, TxnOffsetCommit v3
                              the offsets, which become visible with the batches, or never
    EndTxn v3                 commits or aborts
    OffsetFetch v8            the last committed offsets, once a transaction that is ending has ended (KIP-447)

A request that fails is repeated. Clients of transaction.version 1 send these versions; brokers with version 2 accept
them, too. Source: KIP-98, KIP-360, KIP-447.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from kcli.client.leaders import RETRY_S
from kcli.client.wire import AnyBroker, ErrorAnswer, LoginFailed, NoAnswer, NobodyAnswers, Server, call, failure_reason
from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition

# isort: split
from kio.schema.add_offsets_to_txn.v3.request import AddOffsetsToTxnRequest
from kio.schema.add_offsets_to_txn.v3.response import AddOffsetsToTxnResponse
from kio.schema.add_partitions_to_txn.v3.request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kio.schema.add_partitions_to_txn.v3.response import AddPartitionsToTxnResponse
from kio.schema.end_txn.v3.request import EndTxnRequest
from kio.schema.end_txn.v3.response import EndTxnResponse
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.schema.init_producer_id.v4.request import InitProducerIdRequest
from kio.schema.init_producer_id.v4.response import InitProducerIdResponse
from kio.schema.offset_fetch.v8.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.offset_fetch.v8.response import OffsetFetchResponse
from kio.schema.txn_offset_commit.v3.request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kio.schema.txn_offset_commit.v3.response import TxnOffsetCommitResponse
from kio.schema.types import GroupId, ProducerId, TopicName, TransactionalId
from kio.static.primitive import i8, i16, i32, i32Timedelta, i64

GROUP, TRANSACTION = 0, 1
RETRIED = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
    }
)
"""Errors after which a request is sent again, to the coordinator that is looked up again."""


class _Producer(NamedTuple):
    producer_id: int
    epoch: int


class ProducingTransaction:
    """The producer of a transactional id, with one transaction at a time."""

    def __init__(self, brokers: AnyBroker, transactional_id: str, group: str, timeout_ms: int) -> None:
        """group: the group whose offsets a transaction commits. timeout_ms: the time after which the coordinator aborts
        a transaction."""
        self._brokers = brokers
        self._id, self._group = transactional_id, group
        self._timeout_ms = timeout_ms
        self._coordinators: dict[int, Server] = {}
        self._added: set[TopicPartition] = set()
        self._producer = _Producer(-1, -1)

    @property
    def producer_id(self) -> int:
        """The producer id for the batches of the transaction."""
        return self._producer.producer_id

    @property
    def producer_epoch(self) -> int:
        """The producer epoch for the batches of the transaction."""
        return self._producer.epoch

    def begin(self, known: tuple[int, int] | None = None) -> None:
        """Become the only producer of the transactional id: fence earlier producers, and abort a transaction that they
        have left open. known: the producer id and epoch that this producer has had; then another producer that has come
        since is not fenced, but this one (KIP-360). Raises ErrorAnswer, NobodyAnswers, KcliError."""
        producer_id, epoch = known or (-1, -1)
        request = InitProducerIdRequest(
            transactional_id=TransactionalId(self._id),
            transaction_timeout=i32Timedelta.parse(timedelta(milliseconds=self._timeout_ms)),
            producer_id=ProducerId(producer_id),
            producer_epoch=i16(epoch),
        )
        answer = self._ask(TRANSACTION, request, InitProducerIdResponse, lambda found: [found.error_code])
        self._producer = _Producer(answer.producer_id, answer.producer_epoch)
        self._added.clear()

    def committed(self) -> dict[TopicPartition, tuple[int, str]]:
        """Return the offsets that the group has committed, with their metadata. Raises as `begin`."""
        request = OffsetFetchRequest(
            groups=(OffsetFetchRequestGroup(group_id=GroupId(self._group), topics=None),), require_stable=True
        )

        def partitions(found: Any) -> list[Any]:
            return [each for one in found.groups for topic in one.topics for each in topic.partitions]

        answer = self._ask(
            GROUP,
            request,
            OffsetFetchResponse,
            lambda found: [each.error_code for each in (*found.groups, *partitions(found))],
        )
        return {
            TopicPartition(topic.name, each.partition_index): (each.committed_offset, each.metadata or "")
            for one in answer.groups
            for topic in one.topics
            for each in topic.partitions
            if each.committed_offset >= 0
        }

    def add(self, partitions: Collection[TopicPartition]) -> None:
        """Add partitions to the transaction, before batches are appended to them. Raises as `begin`."""
        new = sorted(set(partitions) - self._added)
        if not new:
            return
        topics = {each.topic: tuple(i32(one.partition) for one in new if one.topic == each.topic) for each in new}
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=TransactionalId(self._id),
            v3_and_below_producer_id=ProducerId(self.producer_id),
            v3_and_below_producer_epoch=i16(self.producer_epoch),
            v3_and_below_topics=tuple(
                AddPartitionsToTxnTopic(name=TopicName(name), partitions=numbers) for name, numbers in topics.items()
            ),
        )
        self._ask(
            TRANSACTION,
            request,
            AddPartitionsToTxnResponse,
            lambda found: [
                each.partition_error_code
                for topic in found.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            ],
        )
        self._added.update(new)

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        """Commit the transaction together with offsets of the group and their metadata, if there are any. Raises as
        `begin`; it is then unknown whether the transaction was committed: call `begin`, then `committed`, to find
        out."""
        if offsets:
            self._add_offsets(offsets)
        self._end(commits=True)

    def _add_offsets(self, offsets: Mapping[TopicPartition, tuple[int, str]]) -> None:
        group = GroupId(self._group)
        added = AddOffsetsToTxnRequest(
            transactional_id=TransactionalId(self._id),
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.producer_epoch),
            group_id=group,
        )
        self._ask(TRANSACTION, added, AddOffsetsToTxnResponse, lambda found: [found.error_code])
        topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for place, (offset, metadata) in offsets.items():
            topics.setdefault(place.topic, []).append(
                TxnOffsetCommitRequestPartition(
                    partition_index=i32(place.partition),
                    committed_offset=i64(offset),
                    committed_metadata=metadata,
                )
            )
        request = TxnOffsetCommitRequest(
            transactional_id=TransactionalId(self._id),
            group_id=group,
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.producer_epoch),
            topics=tuple(
                TxnOffsetCommitRequestTopic(name=TopicName(name), partitions=tuple(each))
                for name, each in topics.items()
            ),
        )
        self._ask(
            GROUP,
            request,
            TxnOffsetCommitResponse,
            lambda found: [each.error_code for topic in found.topics for each in topic.partitions],
        )

    def abort(self) -> None:
        """Abort the transaction, if it has any partition. Raises as `begin`."""
        if self._added:
            self._end(commits=False)

    def _end(self, *, commits: bool) -> None:
        request = EndTxnRequest(
            transactional_id=TransactionalId(self._id),
            producer_id=ProducerId(self.producer_id),
            producer_epoch=i16(self.producer_epoch),
            committed=commits,
        )
        self._ask(TRANSACTION, request, EndTxnResponse, lambda found: [found.error_code])
        self._added.clear()

    def _ask(self, kind: int, request: Any, response_type: type[Any], codes: Any) -> Any:
        """Send a request to the coordinator of the transactional id or of the group (kind); repeat it after a temporary
        error. codes: returns the error codes in the response."""
        deadline = time.monotonic() + self._brokers.timeout_s
        while True:
            failure: KcliError
            try:
                answer = call(self._coordinator(kind), request, response_type)
            except LoginFailed as error:
                raise KcliError(f"{self._id}: {error}") from None
            except (OSError, NoAnswer) as error:
                failure = SilentCoordinator(f"{self._id}: its coordinator does not answer ({failure_reason(error)})")
            except _NoCoordinator as error:
                failure = error
            except NobodyAnswers as error:
                failure = error
            else:
                bad = [ErrorCode(each) for each in codes(answer) if each != ErrorCode.NONE]
                if not bad:
                    return answer
                final = [each for each in bad if each not in RETRIED]
                failure = ErrorAnswer(
                    self._id if kind == TRANSACTION else f"group {self._group}", (final or bad)[0], None
                )
                if final:
                    raise failure
            if time.monotonic() > deadline:
                raise failure
            self._coordinators.pop(kind, None)
            time.sleep(RETRY_S)

    def _coordinator(self, kind: int) -> Server:
        if kind not in self._coordinators:
            key = self._id if kind == TRANSACTION else self._group
            request = FindCoordinatorRequest(key_type=i8(kind), coordinator_keys=(key,))
            (found,) = self._brokers.ask(lambda server: call(server, request, FindCoordinatorResponse)).coordinators
            if found.error_code != ErrorCode.NONE:
                code = ErrorCode(found.error_code)
                raise (_NoCoordinator if code in RETRIED else ErrorAnswer)(key, code, found.error_message)
            self._coordinators[kind] = self._brokers.server(found.host, found.port)
        return self._coordinators[kind]


class SilentCoordinator(KcliError):
    """The broker that is the coordinator does not answer."""


class _NoCoordinator(ErrorAnswer):
    """No broker is the coordinator at present."""
