"""Which brokers are alive: what the active controller knows of them beside the metadata log.

    FENCED               until it has read the log as far as its own registration, and wants to serve
    UNFENCED             may lead and be in sync
    CONTROLLED_SHUTDOWN  wants to go: leads no more; goes when all active brokers have read of that
    SHUTDOWN_NOW         may go, and is fenced

                         wants to be fenced   wants to go                     neither
    FENCED               FENCED               SHUTDOWN_NOW                    UNFENCED once it has caught up
    UNFENCED             FENCED               CONTROLLED_SHUTDOWN if it       UNFENCED
                         (SHUTDOWN_NOW if it  leads anything, else
                         wants to go too)     SHUTDOWN_NOW
    CONTROLLED_SHUTDOWN  the same for all: SHUTDOWN_NOW once it leads nothing and all have read of it

A broker that was let go comes back only with a new registration: a heartbeat that was long on its way changes nothing.
A broker's session is kept up by heartbeats with its epoch; without one for broker.session.timeout.ms it is fenced. All
of this is lost with the controller: the next one takes every broker that is not fenced as heard of when it became
active.

Source: BrokerHeartbeatManager, BrokerHeartbeatTracker, ReplicationControlManager; KIP-631, KIP-841.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from uuid import UUID

from kcli.metadata import registration_control as registrations
from kcli.metadata.election import leads
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.registration import Broker
from kcli.metadata.result import ErrorCode, Refused, Result

NO_OFFSET = -1
OFFSET_MAX = (1 << 63) - 1


class State(Enum):
    """See above."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """What a broker says of itself. metadata_offset: of the last record that it has read; cordoned: None where it does
    not say."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    wants_fence: bool = False
    wants_shutdown: bool = False
    offline: Sequence[UUID] = ()
    cordoned: Sequence[UUID] | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """What it is told."""

    is_caught_up: bool
    is_fenced: bool
    is_in_controlled_shutdown: bool
    should_shut_down: bool


@dataclass(slots=True)
class _Known:
    metadata_offset: int = NO_OFFSET
    shutdown_offset: int = NO_OFFSET


class Heartbeats:
    """See above. Times are of any clock that only goes forward."""

    def __init__(self, session_timeout_ms: float, brokers: Iterable[Broker] = (), now_ms: float = 0) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._known: dict[int, _Known] = {}
        self._contacts = {(each.id, each.epoch): now_ms for each in brokers if not each.fenced}

    # sessions

    def heard_of(self, broker_id: int, epoch: int, now_ms: float) -> None:
        """A heartbeat came."""
        self._contacts[broker_id, epoch] = now_ms

    def has_session(self, broker: Broker | None, now_ms: float) -> bool:
        """Was the broker heard of lately, as it is registered?"""
        contact = None if broker is None else self._contacts.get((broker.id, broker.epoch))
        return contact is not None and contact + self._session_timeout_ms >= now_ms

    def end_session(self, broker_id: int) -> None:
        """The broker is known to be dead, or about to be."""
        for key in [each for each in self._contacts if each[0] == broker_id]:
            del self._contacts[key]

    def take_expired(self, now_ms: float) -> tuple[int, int] | None:
        """A broker, and its epoch, that was not heard of for too long; it is told once."""
        for key, contact in self._contacts.items():
            if contact + self._session_timeout_ms < now_ms:
                del self._contacts[key]
                return key
        return None

    def next_expiry_ms(self) -> float | None:
        """When the next broker will have been silent for too long, unless it is heard of; None where there is none."""
        if not self._contacts:
            return None
        return min(self._contacts.values()) + self._session_timeout_ms

    # states

    def registered(self, broker_id: int) -> None:
        """A new incarnation registered: what was known is of the old one."""
        self._known.pop(broker_id, None)

    def is_shutting_down(self, broker_id: int) -> bool:
        """Has it been granted a controlled shutdown that has not ended?"""
        known = self._known.get(broker_id)
        return known is not None and known.shutdown_offset != NO_OFFSET

    def told_to_shut_down(self, broker_id: int, offset: int) -> None:
        """Its leaderships are given away, as the log says up to this offset."""
        known = self._known.setdefault(broker_id, _Known())
        if known.shutdown_offset == NO_OFFSET:
            known.shutdown_offset = offset

    def states(self, image: MetadataImage, beat: Heartbeat) -> tuple[State, State]:
        """The state that the broker is in, and that it comes into with this heartbeat."""
        broker_id = beat.broker_id
        is_caught_up = beat.metadata_offset >= image.registered_at[broker_id]
        if self.is_shutting_down(broker_id):
            shutdown_offset = self._known[broker_id].shutdown_offset
            may_go = not leads(image, broker_id) and shutdown_offset <= self._lowest_active_offset(image)
            return State.CONTROLLED_SHUTDOWN, State.SHUTDOWN_NOW if may_go else State.CONTROLLED_SHUTDOWN
        if image.brokers[broker_id].fenced:
            if beat.wants_shutdown:
                return State.FENCED, State.SHUTDOWN_NOW
            is_gone = image.brokers[broker_id].in_controlled_shutdown
            may_serve = is_caught_up and not beat.wants_fence and not is_gone
            return State.FENCED, State.UNFENCED if may_serve else State.FENCED
        if beat.wants_fence:
            return State.UNFENCED, State.SHUTDOWN_NOW if beat.wants_shutdown else State.FENCED
        if beat.wants_shutdown:
            return State.UNFENCED, State.CONTROLLED_SHUTDOWN if leads(image, broker_id) else State.SHUTDOWN_NOW
        return State.UNFENCED, State.UNFENCED

    def _lowest_active_offset(self, image: MetadataImage) -> int:
        """How far every broker has read that is up and stays."""
        active = [each.id for each in image.brokers.values() if not each.fenced and not self.is_shutting_down(each.id)]
        return min((self._known.get(each, _Known()).metadata_offset for each in active), default=OFFSET_MAX)

    def fenced(self, broker_id: int) -> None:
        """It is no longer on its way down."""
        if broker_id in self._known:
            self._known[broker_id].shutdown_offset = NO_OFFSET

    def has_read(self, broker_id: int, offset: int) -> None:
        """How far the broker has read the log."""
        self._known.setdefault(broker_id, _Known()).metadata_offset = offset


def heartbeat(
    image: MetadataImage, heartbeats: Heartbeats, beat: Heartbeat, broker_properties: Mapping[str, str], now_ms: float
) -> Result[HeartbeatAnswer]:
    """A heartbeat came: what is to be written of the broker, and what it is told.

    Where the answer says that it is in controlled shutdown, `told_to_shut_down` is to be called with the offset of the
    last record written. Raises Refused(STALE_BROKER_EPOCH).
    """
    broker_id = beat.broker_id
    if broker_id not in image.brokers:
        reason = f"Receive a heartbeat from broker {broker_id} before registration"
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, reason)
    registrations.check_epoch(image, broker_id, beat.broker_epoch)
    heartbeats.heard_of(broker_id, beat.broker_epoch, now_ms)
    current, following = heartbeats.states(image, beat)
    is_fenced = following in (State.FENCED, State.SHUTDOWN_NOW)
    records: list[Record] = []
    if current is not following:
        change: dict[State, Callable[[MetadataImage, int, Mapping[str, str]], list[Record]]] = {
            State.FENCED: registrations.fence_broker,
            State.SHUTDOWN_NOW: registrations.fence_broker,
            State.UNFENCED: registrations.unfence_broker,
            State.CONTROLLED_SHUTDOWN: registrations.begin_controlled_shutdown,
        }
        records += change[following](image, broker_id, broker_properties)
    if is_fenced:
        heartbeats.fenced(broker_id)
    if following is State.SHUTDOWN_NOW:  # its next process need not wait until its session is over, as Kafka's has to
        heartbeats.end_session(broker_id)
    heartbeats.has_read(broker_id, beat.metadata_offset)
    records += registrations.directories_offline(image, broker_id, beat.offline, broker_properties)
    if beat.cordoned is not None:
        records += registrations.cordon_directories(image, broker_id, beat.cordoned)
    answer = HeartbeatAnswer(
        is_caught_up=beat.metadata_offset >= image.registered_at[broker_id],
        is_fenced=is_fenced,
        is_in_controlled_shutdown=following is State.CONTROLLED_SHUTDOWN,
        should_shut_down=following is State.SHUTDOWN_NOW,
    )
    return Result(records, answer)
