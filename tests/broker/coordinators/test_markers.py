"""Transactions whose partitions or coordinator are on other brokers: the requests that these receive, and the
outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from formats.batch_writer import write_batch
from kcli.broker.coordinators.local_markers import LocalMarkers
from kcli.broker.coordinators.log import read_log
from kcli.broker.coordinators.markers import RETRY_S, Markers
from kcli.broker.coordinators.runtime import Coordinator
from kcli.broker.coordinators.transaction_check import Producer, producing, verify
from kcli.broker.network.peers import Unanswered, api_named, new_request
from kcli.broker.wire.messages import messages
from kcli.log.live.validator import TRANSACTIONAL
from kcli.metadata.partition import from_uuid
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn.requests import WriteMarkers
from tests.broker.log_dirs import create_topic
from tests.broker.one_partition import OTHER, OWN, OnePartition

THIRD = 3
AGAIN_S = 2 * RETRY_S
ELSEWHERE_ID = UUID(int=8)


class Peer:
    """Another broker. asked: the requests that it has decoded; answers: error codes by topic and partition, NONE by
    default; gone: whether it does not respond."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.answers: dict[tuple[str, int], ErrorCode] = {}
        self.gone = False
        self.delay_s = 0.01

    async def call(self, api: str, version: int | None, /, *, timeout_s: float, **fields: Any) -> Any:
        assert version is not None
        assert timeout_s > 0
        kind = messages(api_named(api).key, version)
        request = new_request(kind, fields)
        self.asked.append(request)
        await asyncio.sleep(self.delay_s)
        if self.gone:
            raise Unanswered("gone")
        return getattr(self, f"_{api}")(kind, request)

    def _code(self, topic: str, number: int) -> ErrorCode:
        return self.answers.get((topic, number), ErrorCode.NONE)

    def _write_txn_markers(self, kind: Any, request: Any) -> Any:
        def new(class_name: str, /, **values: Any) -> Any:
            return kind.new(class_name, values)

        return new(
            "WriteTxnMarkersResponse",
            markers=tuple(
                new(
                    "WritableTxnMarkerResult",
                    producer_id=marker.producer_id,
                    topics=tuple(
                        new(
                            "WritableTxnMarkerTopicResult",
                            name=topic.name,
                            partitions=tuple(
                                new(
                                    "WritableTxnMarkerPartitionResult",
                                    partition_index=number,
                                    error_code=self._code(topic.name, number),
                                )
                                for number in topic.partition_indexes
                            ),
                        )
                        for topic in marker.topics
                    ),
                )
                for marker in request.markers
            ),
        )

    def _add_partitions_to_txn(self, kind: Any, request: Any) -> Any:
        def new(class_name: str, /, **values: Any) -> Any:
            return kind.new(class_name, values)

        (transaction,) = request.transactions
        topics = tuple(
            new(
                "AddPartitionsToTxnTopicResult",
                name=topic.name,
                results_by_partition=tuple(
                    new(
                        "AddPartitionsToTxnPartitionResult",
                        partition_index=number,
                        partition_error_code=self._code(topic.name, number),
                    )
                    for number in topic.partitions
                ),
            )
            for topic in transaction.topics
        )
        result = new("AddPartitionsToTxnResult", transactional_id=transaction.transactional_id, topic_results=topics)
        return new("AddPartitionsToTxnResponse", error_code=ErrorCode.NONE, results_by_transaction=(result,))

    def close(self) -> None:
        pass


class Fixture:
    """A broker that leads output-0 and, if it `coordinates`, the coordinator's partition; another broker leads
    `elsewhere`."""

    def __init__(self, directory: Path) -> None:
        self.host = OnePartition(directory, "output", SimpleNamespace(channel=self._channel))
        self.peers = {OTHER: Peer(), THIRD: Peer()}
        self.addresses: list[tuple[str, int]] = []
        self.coordinates = True
        self.leader = OWN
        self.written: list[tuple[str, int]] = []
        self.own = SimpleNamespace(leader_epoch=5)
        transactions: Any = SimpleNamespace(
            context=self.host.context,
            leader_epoch_of=lambda _: self.own.leader_epoch if self.coordinates else None,
            partition_count=1,
            leader_of=lambda _: self.leader,
            others=SimpleNamespace(channel=self.peers.get),
        )
        self.transactions, groups = transactions, cast("Coordinator", SimpleNamespace())
        create_topic(self.host.image, "elsewhere", 2, ELSEWHERE_ID, leader=OTHER)
        for node_id in self.peers:
            self._register(node_id)
        self.markers = Markers(
            transactions,
            LocalMarkers(self.host.context, groups),
            lambda message, number: self.written.append((message.transactional_id, number)),
        )
        assert self.host.partition.log.log_end_offset == 0

    def _channel(self, host: str, port: int, client_id: str) -> Peer:
        assert client_id == "broker-1-txn-marker-sender"
        self.addresses.append((host, port))
        return self.peers[port]

    def _register(self, node_id: int) -> None:
        endpoint = {"name": "PLAINTEXT", "host": "h", "port": node_id, "securityProtocol": 0}
        record = {
            "brokerId": node_id,
            "brokerEpoch": 1,
            "incarnationId": from_uuid(UUID(int=node_id)),
            "endPoints": [endpoint],
            "features": [],
            "fenced": False,
        }
        self.host.image.apply("RegisterBrokerRecord", record, self.host.image.offset + 1)

    def lead(self, number: int, leader: int) -> None:
        """Another broker leads a partition of `elsewhere`."""
        record = {"partitionId": number, "topicId": from_uuid(ELSEWHERE_ID), "leader": leader}
        self.host.image.apply("PartitionChangeRecord", record, self.host.image.offset + 1)

    def write(self, name: str = "t", producer_id: int = 7, *places: TopicPartition, commit: bool = True) -> None:
        """Let the broker write markers for a transaction of the coordinator's partition 0."""
        self.markers.write(WriteMarkers(name, producer_id, 1, commit, places, 2), 0)

    def own_markers(self) -> list[bool | None]:
        """In output-0."""
        return [each.commits for each in read_log(self.host.partition.log)]


@pytest.fixture
def fixture(tmp_path: Path) -> Iterator[Fixture]:
    made = Fixture(tmp_path)
    yield made
    made.host.close()


HERE, THERE, BESIDE = TopicPartition("output", 0), TopicPartition("elsewhere", 0), TopicPartition("elsewhere", 1)


def open_transaction(fixture: Fixture) -> None:
    data = write_batch([(None, b"v")], 0, attributes=TRANSACTIONAL, producer_id=7, producer_epoch=0, base_sequence=0)
    fixture.host.partition.append_as_leader(data, 0)


def test_here_and_there(fixture: Fixture) -> None:
    """The coordinator continues once all markers are written; here this also waits for the follower."""

    async def run() -> None:
        open_transaction(fixture)
        fixture.write("t", 7, HERE, THERE, BESIDE)
        await asyncio.sleep(1)
        assert fixture.written == [], "the marker here is not committed"
        (request,) = fixture.peers[OTHER].asked
        (marker,) = request.markers
        assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 1, True)
        assert (marker.coordinator_epoch, marker.transaction_version) == (5, 2)
        assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("elsewhere", (0, 1))]
        fixture.host.copy()
        await asyncio.sleep(0.01)
        assert fixture.written == [("t", 0)]
        assert fixture.own_markers() == [None, True]
        assert fixture.addresses == [("h", OTHER)]

    fixture.host.run(run())


def test_one_request_at_a_time_with_all_that_came_up(fixture: Fixture) -> None:
    async def run() -> None:
        peer = fixture.peers[OTHER]
        peer.delay_s = 1
        fixture.write("a", 7, THERE)
        await asyncio.sleep(0.1)
        fixture.write("b", 8, THERE, BESIDE, commit=False)
        fixture.write("c", 9, BESIDE)
        await asyncio.sleep(1.5)
        assert [[marker.producer_id for marker in request.markers] for request in peer.asked] == [[7], [8, 9]]
        assert fixture.written == [("a", 0)]
        await asyncio.sleep(1)
        assert fixture.written == [("a", 0), ("b", 0), ("c", 0)]
        assert fixture.addresses == [("h", OTHER)]

    fixture.host.run(run())


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
def test_again_to_whoever_leads_then(fixture: Fixture, code: ErrorCode) -> None:
    async def run() -> None:
        fixture.peers[OTHER].answers[THERE] = code
        fixture.write("t", 7, THERE, BESIDE)
        await asyncio.sleep(AGAIN_S)
        assert fixture.written == []
        fixture.lead(0, THIRD)
        await asyncio.sleep(AGAIN_S)
        (request,) = fixture.peers[THIRD].asked
        assert request.markers[0].topics[0].partition_indexes == (0,), "only what is left"
        assert fixture.written == [("t", 0)]

    fixture.host.run(run())


def test_a_broker_that_does_not_answer(fixture: Fixture) -> None:
    async def run() -> None:
        peer = fixture.peers[OTHER]
        peer.gone = True
        fixture.write("t", 7, THERE)
        await asyncio.sleep(1)
        assert len(peer.asked) > 3
        peer.gone = False
        await asyncio.sleep(AGAIN_S)
        assert fixture.written == [("t", 0)]

    fixture.host.run(run())


def test_no_leader_and_no_partition(fixture: Fixture) -> None:
    async def run() -> None:
        fixture.lead(0, -1)
        fixture.write("t", 7, THERE, TopicPartition("never", 0))
        await asyncio.sleep(AGAIN_S)
        assert fixture.written == []
        fixture.host.image.apply("RemoveTopicRecord", {"topicId": from_uuid(ELSEWHERE_ID)}, 1_000)
        await asyncio.sleep(AGAIN_S)
        assert fixture.written == [("t", 0)]
        assert not fixture.peers[OTHER].asked

    fixture.host.run(run())


def test_whoever_is_not_the_coordinator_any_more(fixture: Fixture) -> None:
    async def run() -> None:
        fixture.peers[OTHER].gone = True
        fixture.write("t", 7, THERE)
        await asyncio.sleep(AGAIN_S)
        fixture.coordinates = False
        await asyncio.sleep(AGAIN_S)
        fixture.peers[OTHER].asked.clear()
        await asyncio.sleep(1)
        assert not fixture.peers[OTHER].asked
        assert fixture.written == []

    fixture.host.run(run())


def test_what_is_said_anew_replaces_what_was(fixture: Fixture) -> None:
    """A later order for the same transactional id replaces the former one, as after the coordinator's machine was
    loaded anew."""

    async def run() -> None:
        peer = fixture.peers[OTHER]
        peer.gone = True
        fixture.write("t", 7, THERE)
        await asyncio.sleep(AGAIN_S)
        fixture.own.leader_epoch = 6
        fixture.write("t", 7, THERE)
        peer.gone = False
        await asyncio.sleep(1)
        assert fixture.written == [("t", 0)]
        assert peer.asked[-1].markers[0].coordinator_epoch == 6

    fixture.host.run(run())


def test_a_later_coordinator(fixture: Fixture) -> None:
    """A marker that a later coordinator has fenced is not sent again, unless that coordinator is this broker itself."""

    async def run() -> None:
        peer = fixture.peers[OTHER]
        peer.answers[THERE] = ErrorCode.TRANSACTION_COORDINATOR_FENCED
        fixture.write("t", 7, THERE)
        await asyncio.sleep(1)
        assert len(peer.asked) == 1
        peer.delay_s = 1
        fixture.write("t", 7, THERE)
        await asyncio.sleep(0.1)
        fixture.own.leader_epoch = 6
        await asyncio.sleep(1)
        del peer.answers[THERE]
        await asyncio.sleep(2)
        assert [each.markers[0].coordinator_epoch for each in peer.asked] == [5, 5, 6]
        assert fixture.written == [("t", 0)]

    fixture.host.run(run())


# is a partition part of a transaction?

PRODUCER = Producer(7, 0, 0)


def check(fixture: Fixture, version: int) -> Any:
    """Check the error that a client of that version of Produce receives."""
    partition = fixture.host.partition
    return verify(fixture.transactions, "t", producing(version), [(partition, PRODUCER)])


@pytest.mark.parametrize(("version", "verify_only"), [(9, True), (12, False)])
def test_another_broker_is_the_coordinator(fixture: Fixture, version: int, verify_only: bool) -> None:
    async def run() -> None:
        fixture.leader = OTHER
        assert await check(fixture, version) == {}
        (request,) = fixture.peers[OTHER].asked
        (asked,) = request.transactions
        assert (asked.transactional_id, asked.producer_id, asked.producer_epoch) == ("t", 7, 0)
        assert asked.verify_only == verify_only
        assert [(topic.name, topic.partitions) for topic in asked.topics] == [("output", (0,))]
        fixture.peers[OTHER].answers[HERE] = ErrorCode.PRODUCER_FENCED
        assert await check(fixture, version) == {HERE: ErrorCode.INVALID_PRODUCER_EPOCH}
        fixture.peers[OTHER].gone = True
        assert await check(fixture, version) == {HERE: ErrorCode.NETWORK_EXCEPTION}
        fixture.leader = -1
        assert await check(fixture, version) == {HERE: ErrorCode.COORDINATOR_NOT_AVAILABLE}

    fixture.host.run(run())
