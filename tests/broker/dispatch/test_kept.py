"""Kept answers equal newly made ones after any change; clients share them, and their memory is bounded."""

from __future__ import annotations

import asyncio
import struct
from inspect import isawaitable
from io import BytesIO
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.broker.broker import Broker
from kcli.broker.dispatch import kept as module
from kcli.broker.dispatch.handlers import plain_of, state_of
from kcli.broker.dispatch.kept import KeptAnswer
from kcli.broker.dispatch.routing import Router
from kcli.broker.wire.answers import Laid, with_throttle
from kcli.broker.wire.apis import APIS
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import entity_writer, messages
from kcli.metadata.image import Record
from kcli.metadata.partition import from_uuid
from kcli.metadata.registration_control import NO_EPOCH, fence_broker, register_broker, unfence_broker
from kcli.metadata.topic_control import NewTopic, TopicContext, create_topics
from kcli.metadata.topic_deletion import delete_topics
from tests.metadata.node import NODE_ID, Metadata, call, node, registration, started
from tests.metadata.test_answers import PROPERTIES

METADATA, API_VERSIONS, DESCRIBE_CONFIGS, DESCRIBE_CLUSTER, DESCRIBE_TOPIC_PARTITIONS = 3, 18, 32, 60, 75
NAMES = "a", "b", "c"
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


def asked_metadata(version: int, names: tuple[str, ...] | None) -> dict[str, Any]:
    by_name = () if version == 0 and names is None else names
    topic_id = {"topic_id": None} if version >= 10 else {}
    topics = None if by_name is None else [{"name": each, **topic_id} for each in by_name]
    return {"topics": topics, **({"allow_auto_topic_creation": False} if version >= 4 else {})}


def asked_configs(*resources: tuple[int, str]) -> dict[str, Any]:
    found = [{"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in resources]
    return {"resources": found, "include_synonyms": True}


REQUESTS: list[tuple[int, int, dict[str, Any]]] = [
    *((METADATA, version, asked_metadata(version, None)) for version in (0, 1, 5, 9, 13)),
    *((METADATA, version, asked_metadata(version, names)) for version in (0, 7, 12) for names in (("a",), ("b", "a"))),
    *((API_VERSIONS, version, {}) for version in (0, 1, 2)),
    *((API_VERSIONS, 4, {"client_software_name": name, "client_software_version": "1"}) for name in ("good", "-bad")),
    (DESCRIBE_CONFIGS, 4, asked_configs((TOPIC_RESOURCE, "a"), (BROKER_RESOURCE, str(NODE_ID)))),
    (DESCRIBE_CLUSTER, 2, {"endpoint_type": 1, "include_fenced_brokers": True}),
    (DESCRIBE_CLUSTER, 0, {}),
    *((DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [{"name": each} for each in names]}) for names in ((), ("a", "b"))),
]
ACTIONS = st.tuples(
    st.sampled_from(["create", "delete", "leader", "isr", "broker", "fence", "feature", "config", "dynamic", "noop"]),
    st.sampled_from(NAMES),
    st.integers(0, 3),
)


def change(broker: Broker, metadata: Metadata, action: str, name: str, number: int, random: Random) -> None:
    """Change a state on which answers depend: the metadata image, or the dynamic configuration."""
    image = metadata.image
    context = TopicContext(random=random, new_id=lambda: UUID(int=random.getrandbits(128)))
    topic = image.topics.get(name)
    records: list[Record] = []
    match action:
        case "create":
            records = create_topics(image, [NewTopic(name=name, num_partitions=1 + number * 50)], context).records
        case "delete":
            records = delete_topics(image, [(name, None)], context).records
        case "leader" | "isr" if topic is not None:
            changed = {"leader": -1 if number else NODE_ID} if action == "leader" else {"isr": [NODE_ID] * (number > 0)}
            records = [("PartitionChangeRecord", 0, {"topicId": from_uuid(topic.id), "partitionId": 0, **changed})]
        case "broker" if number:
            other = registration(metadata.next_offset, NODE_ID + number, directories=(UUID(int=99 + number),))
            records = register_broker(image, other, NO_EPOCH, {})
        case "fence" if NODE_ID + number in image.brokers:
            is_fenced = image.brokers[NODE_ID + number].fenced
            records = (unfence_broker if is_fenced else fence_broker)(image, NODE_ID + number, {})
        case "feature":
            records = [("FeatureLevelRecord", 0, {"name": "transaction.version", "featureLevel": number % 3})]
        case "config" if topic is not None:
            value = {"resourceType": 2, "resourceName": name, "name": "retention.ms", "value": str(number)}
            records = [("ConfigRecord", 0, value)]
        case "dynamic":
            broker.config.update({"log.retention.ms": str(1 + number)}, {})
        case "noop":
            records = [("NoOpRecord", 0, {})]
    metadata.apply(records)


async def frame_of(asked: Call, answer: Any, throttle_ms: int = 0) -> bytes:
    """Return the frame of an answer with this throttle time."""
    found = await answer if isawaitable(answer) else answer
    if isinstance(found, Laid):
        found.set_throttle(throttle_ms)
        parts: list[Any] = found
        return b"".join(parts)
    return asked.messages.encode(asked.header.correlation_id, with_throttle(found, throttle_ms))


def with_frame(asked: Call, client_id: bytes = b"client") -> Call:
    """The request with its bytes."""
    kind, buffer = asked.messages, BytesIO()
    head = struct.pack(">hhih", kind.api_key, kind.version, asked.header.correlation_id, len(client_id)) + client_id
    entity_writer(kind.request_type)(buffer, asked.request)
    asked.frame = memoryview(head + (b"\0" if kind.flexible else b"") + buffer.getvalue())
    return asked


def found_by_bytes(router: Router, asked: Call) -> KeptAnswer | None:
    """Return the answer that is found by the request's bytes."""
    assert asked.frame is not None
    found = router.at_once(memoryview(asked.frame), asked)
    assert found is None or isinstance(found, KeptAnswer)
    return found


async def compare(router: Router) -> None:
    """Compare three answers, with and without a throttle time: the kept one, the one found by the request's bytes, and
    a new one."""
    for key, version, body in REQUESTS:
        asked = with_frame(call(key, version, body))
        kept = found_by_bytes(router, asked)
        if kept is not None:
            assert await frame_of(asked, kept) == await frame_of(asked, router.route(APIS[key], asked))
        for throttle_ms in (0, 7, 0):
            ours = await frame_of(asked, router.handle(APIS[key], asked), throttle_ms)
            assert ours == await frame_of(asked, router.route(APIS[key], asked), throttle_ms), (key, version, body)


@settings(max_examples=20)
@given(st.lists(ACTIONS, max_size=6), st.integers())
def test_kept_answers_are_those_made_anew(actions: list[tuple[str, str, int]], seed: int) -> None:
    async def run() -> None:
        metadata, random = started(), Random(seed)
        broker = node({**PROPERTIES, "auto.create.topics.enable": "false"}, metadata)
        router = Router(broker)
        await compare(router)
        for action, name, number in actions:
            change(broker, metadata, action, name, number, random)
            await compare(router)

    asyncio.run(run())


def of_two_topics(partitions: int = 1) -> Router:
    metadata, random = started(), Random(1)
    context = TopicContext(random=random, new_id=lambda: UUID(int=random.getrandbits(128)))
    topics = [NewTopic(name="a", num_partitions=partitions), NewTopic(name="b", num_partitions=1)]
    metadata.apply(create_topics(metadata.image, topics, context).records)
    return Router(node(PROPERTIES, metadata))


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: f"{APIS[each[0]].name}-{each[1]}")
def test_an_answer_is_kept(request_: tuple[int, int, dict[str, Any]]) -> None:
    key, version, body = request_
    router = of_two_topics()

    async def run() -> None:
        first = router.handle(APIS[key], call(key, version, body))
        assert isawaitable(first)
        await first
        again = router.handle(APIS[key], call(key, version, body))
        assert isinstance(again, KeptAnswer)

    asyncio.run(run())


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda each: f"{APIS[each[0]].name}-{each[1]}")
def test_the_third_request_is_answered_from_its_bytes(request_: tuple[int, int, dict[str, Any]]) -> None:
    """The client id and the correlation id do not matter. Requests of another listener, or after a change of state, are
    not answered so."""
    key, version, body = request_
    router = of_two_topics()

    async def run() -> None:
        for _ in range(2):
            asked = with_frame(call(key, version, body))
            assert found_by_bytes(router, asked) is None
            expected = await frame_of(asked, router.handle(APIS[key], asked))
        again = with_frame(call(key, version, body), b"another client")
        kept = found_by_bytes(router, again)
        if key in (DESCRIBE_CONFIGS, DESCRIBE_TOPIC_PARTITIONS):
            assert kept is None, "these depend on more than a state of the node"
            return
        assert kept is not None
        assert await frame_of(again, kept) == expected
        again.listener = "OTHER"
        assert found_by_bytes(router, again) is None
        again.listener = asked.listener
        router.quotas.is_active = True
        assert found_by_bytes(router, again) is None, "quotas count the time of each request"
        router.quotas.is_active = False
        router.broker.image.version += 1
        assert found_by_bytes(router, again) is None

    asyncio.run(run())


def test_the_apis_of_plain_requests() -> None:
    """A handler's module that imports a function of that name by chance would be asked for a kept answer."""
    assert [APIS[key].name for key in APIS if plain_of(key) is not None] == [
        "produce",
        "fetch",
        "offset_commit",
        "heartbeat",
    ]
    assert {APIS[key].name for key in APIS if state_of(key) is not None} == {
        "metadata",
        "api_versions",
        "describe_cluster",
    }


@pytest.mark.parametrize("length", [-2, 7, 0x7FFF])
def test_a_request_whose_client_id_is_torn_is_not_answered_from_its_bytes(length: int) -> None:
    router = of_two_topics()

    async def run() -> None:
        for _ in range(2):
            asked = with_frame(call(API_VERSIONS, 0, {}), b"")
            await frame_of(asked, router.handle(APIS[API_VERSIONS], asked))
        assert found_by_bytes(router, asked) is not None
        frame = bytearray(asked.frame or b"")
        frame[8:10] = length.to_bytes(2, signed=True)
        assert router.at_once(memoryview(frame), asked) is None

    asyncio.run(run())


def test_the_forms_of_a_request_are_bounded() -> None:
    """ApiVersions requests with different fields share an answer. The memory of their bytes is counted, and released
    together with the answer."""
    router = of_two_topics()

    async def run() -> None:
        for i in range(20):
            body = {"client_software_name": f"good{i}", "client_software_version": "1"}
            asked = with_frame(call(API_VERSIONS, 3, body))
            await frame_of(asked, router.handle(APIS[API_VERSIONS], asked))
        (kept,) = router.kept._kept.values()
        assert len(kept.forms) == module.FORMS_MAX
        assert router.kept.size_bytes == len(kept.body) + module.ENTRY_BYTES + sum(len(each[-1]) for each in kept.forms)
        router.kept._drop(next(iter(router.kept._kept)))
        assert router.kept.size_bytes == 0
        assert not router.kept._forms

    asyncio.run(run())


@pytest.mark.parametrize(
    "asked",
    [
        (METADATA, 12, asked_metadata(12, ("a", "unknown"))),
        (METADATA, 12, asked_metadata(12, tuple(f"t{i}" for i in range(60)))),
        (DESCRIBE_CONFIGS, 4, asked_configs((TOPIC_RESOURCE, "unknown"))),
        (DESCRIBE_CONFIGS, 4, asked_configs((8, str(NODE_ID)))),
        (DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [{"name": "unknown"}]}),
    ],
    ids=lambda each: f"{APIS[each[0]].name}-{each[1]}",
)
def test_answers_with_an_effect_or_of_any_size_are_not_kept(asked: tuple[int, int, dict[str, Any]]) -> None:
    """Metadata about an unknown topic may create it, and kept answers about unknown names would let clients fill the
    memory."""
    key, version, body = asked
    router = of_two_topics()

    async def run() -> None:
        for _ in range(2):
            found: Any = router.handle(APIS[key], call(key, version, body))
            found = await found if isawaitable(found) else found
            assert not isinstance(found, KeptAnswer)

    asyncio.run(run())
    assert router.kept.size_bytes == 0


def test_requests_at_the_same_time_share_one_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    router = of_two_topics(1000)
    made: list[Call] = []
    handle = router.route

    def counted(api: Any, asked: Call) -> Any:
        made.append(asked)
        return handle(api, asked)

    monkeypatch.setattr(router.kept, "_handle", counted)

    async def run() -> None:
        asked = call(METADATA, 12, asked_metadata(12, None))
        waiting: list[Any] = [router.handle(APIS[METADATA], asked) for _ in range(50)]
        cancelled = asyncio.ensure_future(waiting[0])
        others = [asyncio.ensure_future(each) for each in waiting[1:]]
        await asyncio.sleep(0)
        cancelled.cancel()  # the connection that asked first is closed
        frames = {await frame_of(asked, each) for each in others}
        assert len(frames) == 1
        assert len(made) == 1

    asyncio.run(run())


def test_an_answer_that_changes_while_it_is_made_is_not_kept() -> None:
    router = of_two_topics(1000)
    metadata: Any = router.broker.metadata

    async def run() -> None:
        asked = call(METADATA, 12, asked_metadata(12, None))
        found: Any = router.handle(APIS[METADATA], asked)
        first = asyncio.ensure_future(found)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        metadata.apply([("FeatureLevelRecord", 0, {"name": "transaction.version", "featureLevel": 1})])
        await first
        assert router.kept.size_bytes == 0

    asyncio.run(run())


def test_the_memory_of_kept_answers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 4 * module.ENTRY_BYTES)
    router = of_two_topics()

    async def run() -> None:
        for version in range(14):
            await frame_of_metadata(router, version)
            assert router.kept.size_bytes <= module.KEPT_BYTES
        newest = router.handle(APIS[METADATA], call(METADATA, 13, asked_metadata(13, None)))
        assert isinstance(newest, KeptAnswer), "the least recently used one went"

    asyncio.run(run())


async def frame_of_metadata(router: Router, version: int) -> bytes:
    asked = call(METADATA, version, asked_metadata(version, None))
    return await frame_of(asked, router.handle(APIS[METADATA], asked))


def test_listeners_have_answers_of_their_own() -> None:
    router = of_two_topics()

    async def run() -> None:
        asked = call(METADATA, 12, asked_metadata(12, None))
        here = await frame_of(asked, router.handle(APIS[METADATA], asked))
        asked.listener = "OTHER"
        assert await frame_of(asked, router.handle(APIS[METADATA], asked)) != here

    asyncio.run(run())


@pytest.mark.parametrize("version", range(14))
def test_where_the_throttle_time_is(version: int) -> None:
    kind = messages(METADATA, version)
    response: Any = asyncio.run(response_of(version))
    frame, at = kind.encode_with_throttle_at(response)
    assert (at is None) == (version < 3)
    if at is not None:
        changed = bytearray(frame)
        changed[at : at + 4] = (5).to_bytes(4)
        assert kind.encode(0, with_throttle(response, 5)) == changed


async def response_of(version: int) -> Any:
    found = of_two_topics().route(APIS[METADATA], call(METADATA, version, asked_metadata(version, None)))
    return await found if isawaitable(found) else found
