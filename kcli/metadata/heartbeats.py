"""BrokerHeartbeat: the sessions and the states of brokers, which the active controller keeps in memory only.

    FENCED               the broker has not replayed the metadata log up to its registration, or wants to be fenced
    UNFENCED             the broker may lead and be in ISRs
    CONTROLLED_SHUTDOWN  the controller elects other leaders for the broker's partitions; the broker waits until all
                         active brokers have replayed these changes
    SHUTDOWN_NOW         the broker is fenced and may stop

    state                wants to be fenced   wants to shut down              neither
    FENCED               FENCED               SHUTDOWN_NOW                    UNFENCED once it has caught up
    UNFENCED             FENCED               CONTROLLED_SHUTDOWN if it       UNFENCED
                         (SHUTDOWN_NOW if it  leads a partition, else
                         also wants to        SHUTDOWN_NOW
                         shut down)
    CONTROLLED_SHUTDOWN  in all cases SHUTDOWN_NOW once it leads no partition and all active brokers know this

A FENCED broker that wants both gets SHUTDOWN_NOW. After SHUTDOWN_NOW a broker is unfenced only after a new
registration, so a delayed heartbeat changes nothing. A heartbeat with the broker's epoch renews its session; without
one for broker.session.timeout.ms the broker is fenced. A new active controller does not know the states of brokers: it
gives every unfenced broker a session that begins when it becomes active.

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
from kcli.metadata.result import Refused, Result
from kcli.protocol.error_code import ErrorCode

NO_OFFSET = -1
OFFSET_MAX = (1 << 63) - 1


class State(Enum):
    """The state of a registered broker, or the state that a heartbeat leads to."""

    FENCED = auto()
    UNFENCED = auto()
    CONTROLLED_SHUTDOWN = auto()
    SHUTDOWN_NOW = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """A broker's heartbeat. metadata_offset: of the last record of the metadata log that the broker has replayed.
    wants_fence, wants_shutdown: whether it wants to be fenced or to shut down. offline: ids of its failed log
    directories. cordoned: ids of its cordoned ones, None if the request has no such field."""

    broker_id: int
    broker_epoch: int
    metadata_offset: int
    wants_fence: bool = False
    wants_shutdown: bool = False
    offline: Sequence[UUID] = ()
    cordoned: Sequence[UUID] | None = None


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """The answer to a heartbeat. is_caught_up: whether the broker has replayed its own registration."""

    is_caught_up: bool
    is_fenced: bool
    is_in_controlled_shutdown: bool
    should_shut_down: bool


@dataclass(slots=True)
class _Known:
    metadata_offset: int = NO_OFFSET
    shutdown_offset: int = NO_OFFSET


class Heartbeats:
    """The sessions of brokers, the offsets of the last metadata records that they have replayed, and their controlled
    shutdowns. brokers: those registered when this controller becomes active, at `now_ms`. Times are in milliseconds of
    a monotonic clock."""

    def __init__(self, session_timeout_ms: float, brokers: Iterable[Broker] = (), now_ms: float = 0) -> None:
        self._session_timeout_ms = session_timeout_ms
        self._known: dict[int, _Known] = {}
        self._contacts = {(each.id, each.epoch): now_ms for each in brokers if not each.fenced}

    # sessions

    def renew_session(self, broker_id: int, epoch: int, now_ms: float) -> None:
        """Renew the session of a broker with this epoch."""
        self._contacts[broker_id, epoch] = now_ms

    def has_session(self, broker: Broker | None, now_ms: float) -> bool:
        """Whether the broker, with its registered epoch, has a session; False for None."""
        contact = None if broker is None else self._contacts.get((broker.id, broker.epoch))
        return contact is not None and contact + self._session_timeout_ms >= now_ms

    def end_session(self, broker_id: int) -> None:
        """End the broker's session at once, as the broker has stopped or is about to."""
        for key in [each for each in self._contacts if each[0] == broker_id]:
            del self._contacts[key]

    def take_expired(self, now_ms: float) -> tuple[int, int] | None:
        """Remove one expired session, and return the broker's id and epoch; None if none has expired."""
        for key, contact in self._contacts.items():
            if contact + self._session_timeout_ms < now_ms:
                del self._contacts[key]
                return key
        return None

    def next_expiry_ms(self) -> float | None:
        """When the next session expires unless it is renewed; None without sessions."""
        if not self._contacts:
            return None
        return min(self._contacts.values()) + self._session_timeout_ms

    # states

    def registered(self, broker_id: int) -> None:
        """Forget how far the broker has replayed the metadata log, and its controlled shutdown, as a new incarnation
        has registered."""
        self._known.pop(broker_id, None)

    def is_shutting_down(self, broker_id: int) -> bool:
        """Whether the broker is in a controlled shutdown that has not ended."""
        known = self._known.get(broker_id)
        return known is not None and known.shutdown_offset != NO_OFFSET

    def begin_controlled_shutdown(self, broker_id: int, offset: int) -> None:
        """Note the beginning of a controlled shutdown. offset: of the last record that takes leadership from the
        broker."""
        known = self._known.setdefault(broker_id, _Known())
        if known.shutdown_offset == NO_OFFSET:
            known.shutdown_offset = offset

    def states(self, image: MetadataImage, beat: Heartbeat) -> tuple[State, State]:
        """Return the state of the broker before and after this heartbeat."""
        broker_id = beat.broker_id
        is_caught_up = beat.metadata_offset >= image.registered_at[broker_id]
        if self.is_shutting_down(broker_id):
            shutdown_offset = self._known[broker_id].shutdown_offset
            may_go = not leads(image, broker_id) and shutdown_offset <= self._lowest_active_offset(image)
            return State.CONTROLLED_SHUTDOWN, State.SHUTDOWN_NOW if may_go else State.CONTROLLED_SHUTDOWN
        if image.brokers[broker_id].fenced:
            if beat.wants_shutdown:
                return State.FENCED, State.SHUTDOWN_NOW
            has_announced_shutdown = image.brokers[broker_id].in_controlled_shutdown
            may_serve = is_caught_up and not beat.wants_fence and not has_announced_shutdown
            return State.FENCED, State.UNFENCED if may_serve else State.FENCED
        if beat.wants_fence:
            return State.UNFENCED, State.SHUTDOWN_NOW if beat.wants_shutdown else State.FENCED
        if beat.wants_shutdown:
            return State.UNFENCED, State.CONTROLLED_SHUTDOWN if leads(image, broker_id) else State.SHUTDOWN_NOW
        return State.UNFENCED, State.UNFENCED

    def _lowest_active_offset(self, image: MetadataImage) -> int:
        """The lowest of the offsets of the last metadata records that have been replayed by the brokers that are
        neither fenced nor shutting down; OFFSET_MAX if there are none."""
        active = [each.id for each in image.brokers.values() if not each.fenced and not self.is_shutting_down(each.id)]
        return min((self._known.get(each, _Known()).metadata_offset for each in active), default=OFFSET_MAX)

    def fenced(self, broker_id: int) -> None:
        """End the broker's controlled shutdown, as the broker is fenced."""
        if broker_id in self._known:
            self._known[broker_id].shutdown_offset = NO_OFFSET

    def has_read(self, broker_id: int, offset: int) -> None:
        """Note the offset of the last metadata record that the broker has replayed."""
        self._known.setdefault(broker_id, _Known()).metadata_offset = offset


def heartbeat(
    image: MetadataImage, heartbeats: Heartbeats, beat: Heartbeat, broker_properties: Mapping[str, str], now_ms: float
) -> Result[HeartbeatAnswer]:
    """Return the records of the changes that a heartbeat leads to, and the answer to it. broker_properties: the
    properties of this controller, which set the defaults of topic configurations.

    If the answer is that the broker is in controlled shutdown, the caller must call `begin_controlled_shutdown` with
    the offset of the last record. Raises Refused(STALE_BROKER_EPOCH).
    """
    broker_id = beat.broker_id
    if broker_id not in image.brokers:
        reason = f"Receive a heartbeat from broker {broker_id} before registration"
        raise Refused(ErrorCode.STALE_BROKER_EPOCH, reason)
    registrations.check_epoch(image, broker_id, beat.broker_epoch)
    heartbeats.renew_session(broker_id, beat.broker_epoch, now_ms)
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
    if following is State.SHUTDOWN_NOW:
        # The broker's next incarnation can register at once; with Kafka only after this session has expired.
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
