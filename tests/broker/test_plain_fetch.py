"""Plain Fetches of followers, which are not decoded, get the same responses and leave the same session as others.

Two brokers get the same requests, and only one of them has the short way. Responses, sessions, high watermarks and what
the leader knows of the follower are equal after any stream of requests.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.broker.fetching.sessions import Session
from kcli.broker.network.peers import request_frame
from kcli.broker.wire import fetch_request
from kcli.broker.wire.answers import Laid, Later
from kcli.broker.wire.call import Client as Peer
from kcli.broker.wire.messages import messages
from kcli.security.acls import Operation
from tests.broker.running import RunningNode, running_node
from tests.broker.test_plain_produce import FOLLOWER, PARTITIONS, Broker, frame_of
from tests.conftest import examples
from tests.log.batches import batch

FETCH = 1
SESSION_ID = slice(11, 15)  # of a response
TOPIC_NUMBERS = itertools.count()


class Leader(Broker):
    """A broker whose partitions have a follower. plain: the number of Fetches that were not decoded."""

    def __init__(self, node: RunningNode, *, is_short: bool) -> None:
        super().__init__(node, is_short=is_short)
        self.session_id, self.topic_id = 0, b""
        router = node.node.router

        def counted(frame: memoryview, client: Peer) -> Laid | Later | None:
            found = router.at_once(frame, client)
            self.plain += found is not None and int.from_bytes(frame[:2]) == FETCH
            return found

        if is_short:
            node.node.server.at_once, node.node.server.serve_plain = counted, router.serve

    def begin(self, topic: str) -> None:
        """Make a topic whose partitions have a follower, and end the session."""
        self.topic, self.session_id, self.topic_id = topic, 0, self.create(topic, {})
        for index in range(PARTITIONS):
            self.replicate(topic, index, "none")

    def fetch(self, request: dict[str, Any]) -> list[bytes]:  # type: ignore[override]
        """Return the responses to a Fetch: each with the session id and the topic's id replaced."""
        body = fetch_request.lay_out(
            request
            | {
                "session_id": self.session_id if request["session_epoch"] else 0,
                "topics": [{"topic_id": UUID(bytes=self.topic_id), "partitions": request["topics"]}],
                "forgotten_topics_data": [{"topic_id": UUID(bytes=self.topic_id), "partitions": each}]
                if (each := request["forgotten_topics_data"])
                else [],
            }
        )
        assert body is not None, "as a follower's"
        found = []
        for answer in self.send(request_frame(messages(FETCH, fetch_request.VERSION), "broker-9", 7, body)):
            if not request["session_epoch"]:
                self.session_id = int.from_bytes(answer[SESSION_ID])
            known = answer[SESSION_ID] != bytes(4)
            found.append(answer[:11] + bytes([known]) + answer[15:].replace(self.topic_id, b"a topic's own id"))
        return found

    def session(self) -> Session | None:
        """The follower's."""
        return self.node.node.broker.sessions.find(self.session_id)

    def known(self) -> list[Any]:
        """Return all that the leader knows of the session, the partitions and the follower."""
        found: list[Any] = []
        session = self.session()
        if session is not None:
            assert session.tracker is not None, "it was read"
            found += session.epoch, session.held, [index for _, index in session.tracker.dirty]
            for each in session.partitions.values():
                found.append((each.index, each.offset, each.max_bytes, each.leader_epoch, each.last_fetched_epoch))
                found.append((each.log_start, each.sent_high_watermark, each.sent_log_start))
        for index in range(PARTITIONS):
            leader = self.partition(self.topic, index)
            assert leader.leadership is not None, "it has a follower"
            follower = leader.leadership.followers[FOLLOWER]
            found.append((leader.log.high_watermark, leader.log.log_end_offset, follower.broker_epoch))
            found.append((follower.log_end_offset, follower.log_start_offset))
        return found


@pytest.fixture(scope="module")
def leaders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Leader]]:
    home = tmp_path_factory.mktemp("leaders")
    with running_node(home / "short") as short, running_node(home / "long") as long:
        yield [Leader(short, is_short=True), Leader(long, is_short=False)]
        for node in (short, long):
            node.close_clients()


def fetched(index: int, offset: int, **changed: int) -> dict[str, int]:
    """One partition of a Fetch."""
    return {
        "partition": index,
        "current_leader_epoch": 0,
        "fetch_offset": offset,
        "last_fetched_epoch": 0 if offset else -1,
        "log_start_offset": 0,
        "partition_max_bytes": 1 << 20,
    } | changed


def request_of(epoch: int, partitions: list[dict[str, int]], **changed: Any) -> dict[str, Any]:
    """A follower's Fetch."""
    return {
        "replica_state": {"replica_id": FOLLOWER, "replica_epoch": 1},
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 10 << 20,
        "session_epoch": epoch,
        "topics": partitions,
        "forgotten_topics_data": [],
    } | changed


def any_request(draw: st.DataObject, leader: Leader) -> dict[str, Any]:
    """Return a Fetch: mostly the next one of the session, at the end of some partitions."""

    def pick(*values: Any) -> Any:
        return draw.draw(st.sampled_from(values))

    session = leader.session()
    epoch = pick(*[0 if session is None else session.epoch] * 12, 0, 5)
    partitions = []
    for index in (
        range(PARTITIONS) if not epoch else sorted({pick(*range(PARTITIONS)) for _ in range(pick(0, 1, 1, 2))})
    ):
        log = leader.partition(leader.topic, index).log
        offset = pick(*[log.log_end_offset] * 4, log.high_watermark, 0, log.log_end_offset + 5)
        changed = {
            "current_leader_epoch": pick(*[0] * 12, -1, 7),
            "partition_max_bytes": pick(1 << 20, 1 << 20, 90),
            "log_start_offset": pick(0, 0, 0, 1),
        }
        if pick(*range(12)) == 0:
            changed["last_fetched_epoch"] = pick(-1, 0, 3)
        partitions.append(fetched(pick(*[index] * 15, 99), offset, **changed))
    return request_of(
        epoch,
        partitions,
        max_wait=pick(0, 0, 0, 0, 3),
        max_bytes=pick(10 << 20, 10 << 20, 100),
        forgotten_topics_data=[pick(*range(PARTITIONS))] if epoch and pick(*range(15)) == 0 else [],
        replica_state={"replica_id": pick(*[FOLLOWER] * 12, 8, -1), "replica_epoch": pick(1, 1, 1, -1)},
    )


@examples(15, soak=2_000)
@given(st.data())
def test_both_ways_answer_the_same(leaders: list[Leader], draw: st.DataObject) -> None:
    topic = f"topic-{next(TOPIC_NUMBERS)}"
    for each in leaders:
        each.begin(topic)
    for _ in range(draw.draw(st.integers(1, 25))):
        if draw.draw(st.booleans()):
            index, size = draw.draw(st.integers(0, PARTITIONS - 1)), draw.draw(st.integers(0, 100))
            records = {topic: [{"index": index, "records": bytes(batch(b"a" * size))}]}
            for each in leaders:
                assert each.send(frame_of(each.client, {}, 9, records, 1))
        request = any_request(draw, leaders[0])
        answers = [each.fetch(request) for each in leaders]
        assert answers[0] == answers[1]
        known = [each.node.run(each.known) for each in leaders]
        assert known[0] == known[1]


def test_most_fetches_are_plain(leaders: list[Leader]) -> None:
    short, long = leaders
    for each in leaders:
        each.begin("plain")
        each.fetch(request_of(0, [fetched(index, 0) for index in range(PARTITIONS)]))
        each.plain = 0
        for offset in range(5):
            each.send(frame_of(each.client, {}, 9, {"plain": [{"index": 1, "records": bytes(batch(b"value"))}]}, 1))
            (answer,) = each.fetch(request_of(2 * offset + 1, [fetched(1, offset)], max_wait=30_000))
            assert b"value" in answer
            each.fetch(request_of(2 * offset + 2, [fetched(1, offset + 1)]))
            assert each.node.run(partial(each.partition, "plain", 1)).log.high_watermark == offset + 1
        assert len(each.fetch(request_of(11, [fetched(99, 0)]))) == 1, "a new partition of the session"
    assert (short.plain, long.plain) == (10, 0)


def test_a_client_that_may_not_act_for_the_cluster_is_not_answered_at_once(
    leaders: list[Leader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Fetch is decoded, so that the handler decides and the audit log gets its line, also within a session that was
    begun before."""
    asked: list[Operation] = []

    def denied(_: Peer, operation: Operation, *__: Any) -> bool:
        asked.append(operation)
        return False

    for each in leaders:
        each.begin("denied")
        each.fetch(request_of(0, [fetched(index, 0) for index in range(PARTITIONS)]))
        each.plain = 0
    monkeypatch.setattr(leaders[0].node.node.broker.access, "allows_unaudited", denied)
    answers = [each.fetch(request_of(1, [fetched(1, 0)])) for each in leaders]
    assert answers[0] == answers[1]
    assert (leaders[0].plain, asked) == (0, [Operation.CLUSTER_ACTION])
