"""Heartbeats: sessions, fencing and unfencing, controlled shutdown; and registrations that depend on them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.heartbeats import Heartbeat, HeartbeatAnswer, Heartbeats, heartbeat
from kcli.metadata.registration import Broker, VersionRange
from kcli.metadata.registration_control import NO_EPOCH, register_broker, unregister_broker
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from tests.metadata.cluster import DIRECTORIES, Cluster
from tests.metadata.node import registration

TIMEOUT_MS = 9000


class Controller(Cluster):
    """With the sessions of its brokers."""

    def __init__(self, **state: Any) -> None:
        super().__init__(**state)
        self.beats = Heartbeats(TIMEOUT_MS, self.image.brokers.values(), 0)

    def beat(self, broker_id: int, offset: int | None = None, now_ms: float = 0, **fields: Any) -> HeartbeatAnswer:
        broker = self.image.brokers[broker_id]
        known = {"broker_epoch": broker.epoch, "metadata_offset": self.offset if offset is None else offset}
        beat = Heartbeat(broker_id=broker_id, **{**known, **fields})
        records, answer = heartbeat(self.image, self.beats, beat, {}, now_ms)
        self.commit(records)
        if answer.is_in_controlled_shutdown:
            self.beats.begin_controlled_shutdown(broker_id, self.offset)
        return answer


def test_unfenced_once_it_has_read_its_own_registration() -> None:
    controller = Controller(isr=[1, 2])
    controller.add_broker(3, fenced=True)
    registered_at = controller.image.registered_at[3]
    answer = controller.beat(3, registered_at - 1)
    assert (answer.is_caught_up, answer.is_fenced) == (False, True)
    answer = controller.beat(3, registered_at, wants_fence=True)
    assert (answer.is_caught_up, answer.is_fenced) == (True, True)
    assert controller.image.brokers[3].fenced
    assert not controller.beat(3, registered_at).is_fenced
    assert not controller.image.brokers[3].fenced


def test_a_heartbeat_of_another_incarnation_is_refused() -> None:
    controller = Controller()
    with pytest.raises(Refused) as refused:
        controller.beat(2, broker_epoch=7)
    assert refused.value.error == (ErrorCode.STALE_BROKER_EPOCH, "Expected broker epoch 12, but got broker epoch 7")


def test_controlled_shutdown_waits_until_all_have_read_of_it() -> None:
    controller = Controller()
    for each in (2, 3):
        controller.beat(each)
    answer = controller.beat(1, wants_shutdown=True)
    assert (answer.should_shut_down, answer.is_fenced) == (False, False)
    assert controller.image.brokers[1].in_controlled_shutdown
    assert (controller.partition().leader, controller.partition().isr) == (2, (2, 3))
    assert not controller.beat(1, wants_shutdown=True).should_shut_down
    controller.beat(2)
    assert not controller.beat(1, wants_shutdown=True).should_shut_down
    controller.beat(3)
    answer = controller.beat(1, wants_shutdown=True)
    assert (answer.should_shut_down, answer.is_fenced) == (True, True)
    assert controller.image.brokers[1].fenced
    assert controller.beat(1).is_fenced, "long on its way"
    assert controller.image.brokers[1].fenced


def test_the_last_broker_may_go_at_once_and_leaves_nobody_to_lead() -> None:
    controller = Controller(brokers=1, replicas=[1])
    assert not controller.beat(1, wants_shutdown=True).should_shut_down
    assert controller.beat(1, wants_shutdown=True).should_shut_down
    assert (controller.partition().leader, controller.partition().elr) == (-1, (1,))


def test_who_leads_nothing_may_go_at_once() -> None:
    controller = Controller()
    assert controller.beats.has_session(controller.image.brokers[3], 0)
    assert controller.beat(3, wants_shutdown=True).should_shut_down
    assert controller.partition().isr == (1, 2)
    assert not controller.beats.has_session(controller.image.brokers[3], 0), "its next process may register at once"


def test_a_fenced_broker_may_go_at_once() -> None:
    controller = Controller(isr=[1, 2])
    controller.add_broker(3, fenced=True)
    before = controller.offset
    assert controller.beat(3, wants_shutdown=True).should_shut_down
    assert controller.offset == before


def test_directories_that_fail_and_are_cordoned() -> None:
    controller = Controller()
    spare = UUID(int=0xABCDEF)
    controller.add_broker(1, directories=(DIRECTORIES[1], spare))
    controller.beat(1, cordoned=[spare])
    assert controller.image.brokers[1].cordoned == (spare,)
    before = controller.offset
    controller.beat(1, cordoned=[spare])
    controller.beat(1)
    assert controller.offset == before
    controller.beat(1, offline=[DIRECTORIES[1]])
    assert controller.image.brokers[1].directories == (spare,)
    assert (controller.partition().leader, controller.partition().isr) == (2, (2, 3))
    before = controller.offset
    controller.beat(1, offline=[DIRECTORIES[1]])
    assert controller.offset == before


def test_sessions_end_one_after_the_other() -> None:
    controller = Controller()
    controller.beat(1, now_ms=1000)
    controller.beat(2, now_ms=5000)
    assert controller.beats.next_expiry_ms() == TIMEOUT_MS
    assert controller.beats.take_expired(TIMEOUT_MS) is None
    assert controller.beats.take_expired(TIMEOUT_MS + 1) == (3, 13)
    assert controller.beats.take_expired(TIMEOUT_MS + 1) is None
    assert controller.beats.take_expired(1001 + TIMEOUT_MS) == (1, 11)
    broker = controller.image.brokers[2]
    assert controller.beats.has_session(broker, 5000 + TIMEOUT_MS)
    assert not controller.beats.has_session(broker, 5001 + TIMEOUT_MS)
    assert not controller.beats.has_session(replace(broker, epoch=99), 5000)
    controller.beats.end_session(2)
    assert not controller.beats.has_session(broker, 5000)
    assert controller.beats.next_expiry_ms() is None


# registrations


def newcomer(broker_id: int = 3, **fields: Any) -> Broker:
    known = {"incarnation_id": UUID(int=0xFEED), "directories": (DIRECTORIES[broker_id],)}
    return replace(registration(500, broker_id), **{**known, **fields})


def test_a_new_incarnation_waits_for_the_session_of_the_old_one() -> None:
    cluster = Cluster()
    with pytest.raises(Refused) as refused:
        register_broker(cluster.image, newcomer(), 13, {}, has_session=True)
    assert refused.value.error.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
    cluster.commit(register_broker(cluster.image, newcomer(), 13, {}))
    known = cluster.image.brokers[3]
    assert (known.epoch, known.fenced, known.incarnation_id) == (500, True, UUID(int=0xFEED))
    assert cluster.image.registered_at[3] == cluster.offset
    assert cluster.partition().isr == (1, 2)


def test_the_same_incarnation_keeps_its_epoch_and_state() -> None:
    cluster = Cluster()
    known = cluster.image.brokers[3]
    again = newcomer(incarnation_id=known.incarnation_id, rack="b")
    records = register_broker(cluster.image, again, NO_EPOCH, {}, has_session=True)
    assert [name for name, _, _ in records] == ["RegisterBrokerRecord"]
    cluster.commit(records)
    assert cluster.image.brokers[3] == replace(known, rack="b")
    assert cluster.partition().isr == (1, 2, 3)


@pytest.mark.parametrize(("previous", "eligible"), [(13, (3,)), (12, ()), (NO_EPOCH, ()), (None, ())])
def test_who_was_killed_is_eligible_no_more(previous: int | None, eligible: tuple[int, ...]) -> None:
    cluster = Cluster(min_isr=3, isr=[1, 2], eligibleLeaderReplicas=[3])
    cluster.commit(register_broker(cluster.image, newcomer(), previous, {}))
    assert cluster.partition().elr == eligible


UNSUPPORTED = (
    "Unable to register because the broker does not support finalized version 30 of metadata.version. The broker wants "
    "a version between {}, inclusive."
)
REFUSALS: dict[str, tuple[dict[str, Any], ErrorCode, str]] = {
    "no directory": ({"directories": ()}, ErrorCode.INVALID_REGISTRATION, "No directories specified in request"),
    "reserved": ({"directories": (UUID(int=1),)}, ErrorCode.INVALID_REGISTRATION, "Reserved directory ID in request"),
    "twice": (
        {"directories": (DIRECTORIES[3], DIRECTORIES[3])},
        ErrorCode.INVALID_REGISTRATION,
        "Duplicate directory ID in request",
    ),
    "another's": (
        {"directories": (DIRECTORIES[1],)},
        ErrorCode.INVALID_REGISTRATION,
        "Broker 1 is already registered with directory AAAAAAAAAAAAAAAAAA0QAQ",
    ),
    "without metadata.version": (
        {"features": {key: each for key, each in SUPPORTED_FEATURES.items() if key != "metadata.version"}},
        ErrorCode.INVALID_REGISTRATION,
        "Request features do not contain 'metadata.version'",
    ),
    "too old": (
        {"features": {**SUPPORTED_FEATURES, "metadata.version": VersionRange(7, 29)}},
        ErrorCode.UNSUPPORTED_VERSION,
        UNSUPPORTED.format("7 and 29"),
    ),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_registrations_that_are_refused(name: str) -> None:
    fields, code, message = REFUSALS[name]
    with pytest.raises(Refused) as refused:
        register_broker(Cluster().image, newcomer(**fields), NO_EPOCH, {})
    assert refused.value.error == (code, message)


def test_who_is_unregistered_leads_nothing() -> None:
    cluster = Cluster()
    found = cluster.commit(unregister_broker(cluster.image, 1, {}))
    assert 1 not in cluster.image.brokers
    assert (found.leader, found.isr, found.replicas) == (2, (2, 3), (1, 2, 3))
    with pytest.raises(Refused) as refused:
        unregister_broker(cluster.image, 1, {})
    assert refused.value.error.code == ErrorCode.BROKER_ID_NOT_REGISTERED
