"""Plain Fetches of consumers, which are not decoded, get the same responses and leave the same session as others.

Two brokers get the same requests, and only one of them has the short way. Responses and sessions are equal after any
stream of requests, with batches, transactions, rolls and deletions in between.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from functools import partial
from threading import Timer
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.kernels.consumer_fetch import read_request
from formats.varint import uvarint
from kcli.broker.fetching.sessions import Session
from kcli.broker.wire.answers import Laid, Later
from kcli.broker.wire.call import Client as Peer
from kcli.log.live.validator import Origin
from kcli.security.acls import Operation
from tests.broker.running import RunningNode, running_node
from tests.broker.test_plain_produce import CONFIGS, PARTITIONS, Broker, frame_of
from tests.conftest import examples
from tests.log.batches import NOW_MS, batch, marker

FETCH = 1
VERSIONS = range(4, 19)
SESSIONS, EPOCHS, RACKS, FLEXIBLE, IDS, STATES = 7, 9, 11, 12, 13, 15
TOPIC_NUMBERS = itertools.count()
KNOWN_ID, UNKNOWN_ID = b"a topic's own id", UUID(int=99)


class Leader(Broker):
    """A broker of a topic that consumers read. plain: the number of Fetches that were not decoded. session_id: that of
    the consumer's session."""

    def __init__(self, node: RunningNode, *, is_short: bool) -> None:
        super().__init__(node, is_short=is_short)
        self.topic, self.topic_id, self.session_id = "", b"", 0
        router = node.node.router

        def counted(frame: memoryview, client: Peer) -> Laid | Later | None:
            found = router.at_once(frame, client)
            self.plain += found is not None and int.from_bytes(frame[:2]) == FETCH
            return found

        if is_short:
            node.node.server.at_once, node.node.server.serve_plain = counted, router.serve

    def begin(self, topic: str, config: dict[str, str] | None = None) -> None:
        """Make a topic, and forget the session."""
        self.topic, self.session_id, self.topic_id = topic, 0, self.create(topic, config or {})
        self.now_ms = NOW_MS

    def frame(self, version: int, request: dict[str, Any]) -> bytes:
        """Return a request's frame. request: see `request_of`."""
        topics = []
        for name, partitions in request["topics"]:
            known = {"topic": self.topic if name else "other"}
            if version >= IDS:
                known = {"topic_id": UUID(bytes=self.topic_id) if name else UNKNOWN_ID}  # type: ignore[dict-item]
            topics.append(known | {"partitions": [_of_version(version, each) for each in partitions]})
        body = {key: request[key] for key in ("max_wait", "min_bytes", "max_bytes", "isolation_level")}
        body["topics"] = topics
        if version < STATES:
            body["replica_id"] = request["replica_id"]
        elif request["replica_id"] != -1:
            body["replica_state"] = {"replica_id": request["replica_id"], "replica_epoch": -1}
        if version >= SESSIONS:
            kind = request["session"]
            body["session_id"] = self.session_id if kind == "own" else 77 if kind == "other" else 0
            body["session_epoch"] = request["epoch"]
            forgotten = {"topic_id": UUID(bytes=self.topic_id)} if version >= IDS else {"topic": self.topic}
            indexes = request["forgotten"]
            body["forgotten_topics_data"] = [forgotten | {"partitions": indexes}] if indexes else []
        if version >= RACKS:
            body["rack_id"] = request["rack"]
        self.client.correlation_id = 7
        return self.client.frame("fetch", version, body)

    def consume(self, version: int, request: dict[str, Any], change: tuple[int, int] | None = None) -> list[bytes]:
        """Return the responses to a Fetch, in which session and topic have the same ids on every broker. change: a
        position in the frame and a bit of its byte to change."""
        frame = bytearray(self.frame(version, request))
        if change is not None:
            frame[min(change[0], len(frame) - 1)] ^= change[1]
        return [self.known_ids(version, each, request) for each in self.send(bytes(frame))]

    def known_ids(self, version: int, answer: bytes, request: dict[str, Any]) -> bytes:
        """Note the session that the response begins. Return the response without the broker's own ids."""
        at = 10 + (version >= FLEXIBLE)
        if version >= SESSIONS and answer:
            found = int.from_bytes(answer[at : at + 4])
            if request["epoch"] == 0:
                self.session_id = found
            answer = answer[:at] + bytes((found != 0, found == self.session_id, 0, 0)) + answer[at + 4 :]
        return answer.replace(self.topic_id, KNOWN_ID)

    def session(self) -> Session | None:
        """The consumer's."""
        return self.node.node.broker.sessions.find(self.session_id)

    def known(self) -> list[Any]:
        """Return all that the broker knows of the session."""
        sessions = self.node.node.broker.sessions
        found: list[Any] = [len(sessions), sessions.held]
        session = self.session()
        if session is not None:
            assert session.tracker is not None, "it was read"
            found += session.epoch, session.held, [index for _, index in session.tracker.dirty], session.terms
            for each in session.partitions.values():
                found.append((each.index, each.offset, each.max_bytes, each.leader_epoch, each.last_fetched_epoch))
                found.append((each.log_start, each.sent_high_watermark, each.sent_log_start))
        return found


def _of_version(version: int, partition: dict[str, int]) -> dict[str, int]:
    left_out = {"current_leader_epoch"} if version < EPOCHS else set()
    left_out |= {"last_fetched_epoch"} if version < FLEXIBLE else set()
    left_out |= {"log_start_offset"} if version < 5 else set()
    return {key: value for key, value in partition.items() if key not in left_out}


@pytest.fixture(scope="module")
def leaders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Leader]]:
    home = tmp_path_factory.mktemp("leaders")
    options = dict.fromkeys(("log_initial_task_delay_ms", "log_retention_check_interval_ms"), "100000000")
    options["log_cleaner_enable"] = "false"
    with (
        running_node(home / "short", None, **options) as short,
        running_node(home / "long", None, **options) as long,
    ):
        yield [Leader(short, is_short=True), Leader(long, is_short=False)]
        for node in (short, long):
            node.close_clients()


def fetched(index: int, offset: int, **changed: int) -> dict[str, int]:
    """One partition of a Fetch."""
    return {
        "partition": index,
        "current_leader_epoch": 0,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": 1 << 20,
    } | changed


def request_of(partitions: list[dict[str, int]], epoch: int = -1, session: str = "", **changed: Any) -> dict[str, Any]:
    """A consumer's Fetch. topics: pairs of whether the topic is known, and its partitions. session: whose session id it
    has: "own", "other", or none."""
    return {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 10 << 20,
        "isolation_level": 0,
        "epoch": epoch,
        "session": session,
        "topics": [(True, partitions)] if partitions else [],
        "forgotten": [],
        "rack": "",
    } | changed


def any_request(draw: st.DataObject, leader: Leader, version: int) -> dict[str, Any]:
    """Return a Fetch: mostly the next one of the session, of some partitions of the topic."""

    def pick(*values: Any) -> Any:
        return draw.draw(st.sampled_from(values))

    session = leader.session() if version >= SESSIONS else None
    epoch = -1 if version < SESSIONS else pick(*[0 if session is None else session.epoch] * 8, 0, -1, 5)
    kind = pick(*["own" if epoch > 0 else ""] * 8, "own", "other", "")
    indexes = range(PARTITIONS) if epoch <= 0 else {pick(*range(PARTITIONS)) for _ in range(pick(0, 1, 1, 2))}
    topics: list[tuple[bool, list[dict[str, int]]]] = []
    for index in sorted(indexes):
        log = leader.partition(leader.topic, index).log
        ends = log.high_watermark, log.last_stable_offset, log.log_start_offset
        changed = {
            "current_leader_epoch": pick(*[0] * 8, -1, 7),
            "partition_max_bytes": pick(1 << 20, 1 << 20, 300, 90, 0),
        }
        if pick(*range(12)) == 0:
            changed["last_fetched_epoch"] = pick(-1, 0, 3)
        offset = pick(ends[0], ends[0], *ends, max(ends[0] - 1, 0), 0, 3, ends[0] + 5, -1)
        one = fetched(pick(*[index] * 15, 99), offset, **changed)
        is_known = pick(*range(13)) > 0
        if topics and topics[-1][0] == is_known:
            topics[-1][1].append(one)
        else:
            topics.append((is_known, [one]))
    return request_of(
        [],
        epoch,
        kind,
        topics=topics,
        max_wait=pick(0, 0, 0, 0, 3),
        min_bytes=pick(0, 1, 1, 500),
        max_bytes=pick(10 << 20, 10 << 20, 400, 100),
        isolation_level=pick(*[0] * 3, *[1] * 3, 2),
        rack=pick(*[""] * 6, "rack"),
        forgotten=[pick(*range(PARTITIONS))] if epoch > 0 and pick(*range(15)) == 0 else [],
        replica_id=pick(*[-1] * 15, -2, 8),
    )


def between(draw: st.DataObject, leaders: list[Leader]) -> None:
    """Append to a partition of both brokers, or change its log otherwise."""

    def pick(*values: Any) -> Any:
        return draw.draw(st.sampled_from(values))

    kind = pick(*["batch"] * 4, *["transaction"] * 2, *["marker"] * 2, "roll", "delete", "state")
    index, size = draw.draw(st.integers(0, PARTITIONS - 1)), draw.draw(st.integers(0, 300))
    commit = draw.draw(st.booleans())

    def change(leader: Leader) -> None:
        partition = leader.partition(leader.topic, index)
        log = partition.log
        known = partition.producer(5)
        is_open = known is not None and known.current_txn_first_offset >= 0
        if kind == "batch":
            partition.append_as_leader(batch(b"a" * size), NOW_MS)
        elif kind == "transaction":
            sequence = 0 if known is None or known.last_sequence < 0 else known.last_sequence + 1
            data = batch(b"t" * size, producer=(5, 0), sequence=sequence, transactional=True)
            partition.append_as_leader(data, NOW_MS, origin=Origin.COORDINATOR)
        elif kind == "marker" and is_open:
            partition.append_as_leader(marker((5, 0), commit=commit), NOW_MS, origin=Origin.COORDINATOR)
        elif kind == "roll" and log.log_end_offset:
            log.roll(NOW_MS)
        elif kind == "delete":
            partition.delete_records(log.high_watermark)
        elif kind == "state":
            partition.update(partition.state)

    for each in leaders:
        each.node.run(partial(change, each))


@examples(20, soak=2_000)
@given(st.data())
def test_both_ways_answer_the_same(leaders: list[Leader], draw: st.DataObject) -> None:
    topic, config = f"topic-{next(TOPIC_NUMBERS)}", draw.draw(st.sampled_from(({}, {}, *CONFIGS)))
    for each in leaders:
        each.begin(topic, config)
    version = draw.draw(st.sampled_from(VERSIONS))
    for _ in range(draw.draw(st.integers(1, 25))):
        if draw.draw(st.booleans()):
            between(draw, leaders)
        if draw.draw(st.integers(0, 9)) == 0:
            version = draw.draw(st.sampled_from(VERSIONS))
        request = any_request(draw, leaders[0], version)
        change = None
        if version < IDS and draw.draw(st.integers(0, 7)) == 0:
            body = (
                4 + 10 + 4 + (version >= FLEXIBLE)
            )  # behind the size and the header, with a client id of four letters
            at = body + draw.draw(
                st.integers(0, 3) | st.integers(8, 300)
            )  # not the time to wait, behind the replica id
            change = at, 1 << draw.draw(st.integers(0, 7))
        answers = [each.consume(version, request, change) for each in leaders]
        assert answers[0] == answers[1]
        known = [each.node.run(each.known) for each in leaders]
        assert known[0] == known[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_usual_fetches_are_plain(leaders: list[Leader], version: int) -> None:
    """With a session and without one, with records and without; the first of the version has to be decoded."""
    short, long = leaders
    for each in leaders:
        each.begin(f"usual-{version}")
        each.consume(version, request_of([fetched(0, 0)]))
        each.plain = 0
        for offset in range(3):
            data = {each.topic: [{"index": index, "records": bytes(batch(b"value"))} for index in range(PARTITIONS)]}
            each.send(frame_of(each.client, {}, 9, data, 1))
            wanted = [fetched(index, offset) for index in range(PARTITIONS)]
            (answer,) = each.consume(version, request_of(wanted, max_wait=30_000))
            assert answer.count(b"value") == PARTITIONS
            wanted = [fetched(index, offset + 1) for index in range(PARTITIONS)]
            (answer,) = each.consume(version, request_of(wanted, isolation_level=1, rack="rack"))
            assert b"value" not in answer
        if version >= SESSIONS:
            each.consume(version, request_of([fetched(index, 0) for index in range(PARTITIONS)], 0))
            for epoch in (1, 2, 3):
                (answer,) = each.consume(version, request_of([fetched(1, epoch - 1)], epoch, "own"))
                assert answer.count(b"value") == 4 - epoch + 2 * 3
    assert (short.plain, long.plain) == (6 + 4 * (version >= SESSIONS), 0)


def test_others_are_decoded(leaders: list[Leader]) -> None:
    for each in leaders:
        each.begin("decoded")
        each.consume(12, request_of([fetched(0, 0)]))
        each.consume(12, request_of([fetched(index, 0) for index in range(PARTITIONS)], 0))
        each.plain = 0
    known = [fetched(0, 0)]
    for request in (
        request_of(known, 1, "own", forgotten=[2]),
        request_of([fetched(99, 0)], 2, "own"),
        request_of(known, 3, "own", isolation_level=1),
        request_of(known, 4, "own", rack="rack"),
        request_of(known, 9, "own"),
        request_of(known, 5, "other"),
        request_of(known, -1, "own"),
        request_of([fetched(index, 0) for index in range(17)]),
        request_of(known, replica_id=-2),
        request_of(known, isolation_level=2),
    ):
        answers = [each.consume(12, request) for each in leaders]
        assert answers[0] == answers[1]
        assert len(answers[0]) == 1
    assert (leaders[0].plain, leaders[1].plain) == (0, 0)


def test_a_count_above_what_the_request_has_is_refused_at_once() -> None:
    """2^27 partitions in a request of a few bytes, to a caller that would take so many."""
    head = struct.pack(">hhihx", FETCH, 17, 7, -1) + struct.pack(">iiibii", 0, 1, 1 << 20, 0, 0, -1)
    assert read_request(head + uvarint(2) + bytes(16) + uvarint(2**27), 2**31 - 1) is None


@pytest.mark.parametrize("version", [4, 11, 18])
@pytest.mark.parametrize("is_session", [False, True])
def test_a_plain_fetch_waits_for_records(leaders: list[Leader], version: int, is_session: bool) -> None:
    if is_session and version < SESSIONS:
        return
    found = []
    for each in leaders:
        each.begin(f"waits-{version}-{is_session}")
        wanted = [fetched(index, 0) for index in range(PARTITIONS)]
        each.consume(version, request_of(wanted))
        request = request_of(wanted, max_wait=30_000, min_bytes=100)
        if is_session:
            each.consume(version, request_of(wanted, 0))
            request = request_of([], 1, "own", max_wait=30_000, min_bytes=100)
        each.plain = 0
        partition = each.partition(each.topic, 1)
        append = partial(partition.append_as_leader, batch(b"value" * 30), NOW_MS)
        timer = Timer(0.1, each.node.run, (append,))
        timer.start()
        found.append(each.consume(version, request))
        timer.join()
    assert found[0] == found[1]
    assert found[0][0].count(b"value") == 30
    assert (leaders[0].plain, leaders[1].plain) == (1, 0)


def test_a_client_that_may_not_read_is_not_answered_at_once(
    leaders: list[Leader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its Fetch is decoded, so that the handler decides and the audit log gets its line."""
    asked: list[tuple[Operation, str]] = []

    def denied(_: Peer, operation: Operation, __: object, name: str) -> bool:
        asked.append((operation, name))
        return False

    short = leaders[0]
    for each in leaders:
        each.begin("denied")
        each.consume(18, request_of([fetched(0, 0)]))
        each.plain = 0
    broker = short.node.node.broker
    monkeypatch.setattr(broker.access, "allows_unaudited", denied)
    monkeypatch.setattr(broker, "authorizer", object())
    monkeypatch.setattr("kcli.broker.api.fetch._may_read", lambda *_: True)
    answers = [each.consume(18, request_of([fetched(0, 0)])) for each in leaders]
    assert answers[0] == answers[1]
    assert (short.plain, asked) == (0, [(Operation.READ, "denied")])
