"""The active controller, beside its decisions (kcli.metadata) and its log: who lives, and what is due.

    becomes active   every broker that is not fenced is taken as heard of now; those known to be dead are fenced
    sessions         a broker not heard of for broker.session.timeout.ms is fenced, one after the other
    elections        preferred leaders every leader.imbalance.check.interval.seconds (auto.leader.rebalance.enable),
                     unclean ones, where topics allow them, every unclean.leader.election.interval.ms
    resigns          all of it is forgotten

The broker within the controller's own process is never taken for dead: who would look at it is as dead as it is.
Source: QuorumController, PeriodicTaskControlManager, ClusterControlManager.activate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kcli.broker.metadata.errors import NotController
from kcli.errors import KcliError
from kcli.metadata import registration_control as registrations
from kcli.metadata.directory_control import Answers, Assignments, assign_replicas
from kcli.metadata.election import ELECTIONS_MAX, balance_leaders, elect_unclean_leaders
from kcli.metadata.heartbeats import Heartbeat, HeartbeatAnswer, Heartbeats, heartbeat
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.result import Refused

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.metadata.registration import Broker as BrokerState
    from kcli.metadata.registration import Controller

log = logging.getLogger("kcli.broker")

AGAIN_S: Final = 0.01
FAILED_S: Final = 300.0
LATE_MS: Final = 1
STALLED_MS: Final = 500
"""So late is a timer only where this process, or its machine, stood still."""

Properties = Mapping[str, str]


@dataclass(slots=True)
class _Death:
    """Of a node's process. epoch: of its broker then, as far as it was known here."""

    epoch: int
    was_started: bool = False


class ActiveController:
    """See above. On every node that is a controller; all of it on the event loop's thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._loop = asyncio.get_running_loop()
        self._heartbeats: Heartbeats | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._deaths: dict[int, _Death] = {}
        self._last_refusal = ""
        self._watch_due_ms = 0.0

    def start(self) -> None:
        """Follow the leadership of the metadata log, from now on."""
        self._broker.metadata.on_leadership.append(self._leadership)
        self._leadership()

    def stop(self) -> None:
        """Do nothing more by itself."""
        self._stop_timers()

    @property
    def now_ms(self) -> float:
        """The time of sessions: it only goes forward."""
        return self._loop.time() * 1000

    @property
    def heartbeats(self) -> Heartbeats:
        """Who lives. Raises NotController."""
        if self._heartbeats is None or not self._broker.metadata.is_leader:
            raise NotController("not the active controller")
        return self._heartbeats

    def refused(self, what: str, refused: Refused) -> None:
        """Say why, once as long as it is the same: the other side tries again and again."""
        line = f"{what} is refused: {refused.error.message}"
        if line != self._last_refusal:
            log.warning("%s", line)
        self._last_refusal = line

    # what brokers want of it

    async def register_controller(self, controller: Controller) -> None:
        """A controller has come up. Raises NotController."""
        _ = self.heartbeats
        metadata = self._broker.metadata
        await metadata.append(registrations.register_controller(metadata.draft, controller))

    async def register_broker(self, state: BrokerState, previous_epoch: int | None) -> int:
        """A broker has come up, or tells of itself anew. Returns its epoch. Raises NotController, and Refused as
        register_broker does."""
        heartbeats, metadata = self.heartbeats, self._broker.metadata
        known = metadata.draft.brokers.get(state.id)
        if known is not None and known.epoch == previous_epoch and known.incarnation_id != state.incarnation_id:
            heartbeats.end_session(state.id)  # that process has shut down cleanly, though no controller heard of it
            if not known.fenced:
                self._fence(state.id, "it has shut down")
        records = registrations.register_broker(
            metadata.draft,
            replace(state, epoch=metadata.next_offset),
            previous_epoch,
            self._broker.config.properties,
            kraft_version=metadata.kraft_version,
            has_session=heartbeats.has_session(known, self.now_ms) and not self._was_here(known),
        )
        if known is None or known.incarnation_id != state.incarnation_id:
            heartbeats.registered(state.id)
        epoch: int = records[-1][2]["brokerEpoch"]
        await metadata.append(records)
        return epoch

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """A broker says that it lives. Raises Refused(STALE_BROKER_EPOCH), NotController."""
        heartbeats, metadata = self.heartbeats, self._broker.metadata
        records, answer = heartbeat(metadata.draft, heartbeats, beat, self._broker.config.properties, self.now_ms)
        done = metadata.append(records)
        if answer.is_in_controlled_shutdown:
            heartbeats.told_to_shut_down(beat.broker_id, metadata.next_offset - 1)
        self._watch_sessions()
        await done
        return answer

    async def assign_replicas(self, broker_id: int, broker_epoch: int, assignments: Assignments) -> Answers:
        """A broker has put replicas into directories. Raises NotController, and Refused as assign_replicas does."""
        _ = self.heartbeats
        metadata = self._broker.metadata
        records, answers = assign_replicas(
            metadata.draft, broker_id, broker_epoch, assignments, self._broker.config.properties
        )
        await metadata.append(records)
        return answers

    # becoming active, and no more

    def _leadership(self) -> None:
        if not self._broker.metadata.is_leader:
            self._heartbeats = None
            self._stop_timers()
        elif self._heartbeats is None:
            self._activate()

    def _activate(self) -> None:
        config, brokers = self._broker.config, self._broker.metadata.draft.brokers
        self._heartbeats = Heartbeats(config.number("broker.session.timeout.ms"), brokers.values(), self.now_ms)
        self._watch_sessions()
        self._repeat("unclean", config.number("unclean.leader.election.interval.ms") / 1000, elect_unclean_leaders)
        if config.get("auto.leader.rebalance.enable"):
            seconds = config.number("leader.imbalance.check.interval.seconds")
            self._repeat("preferred", seconds, balance_leaders)
        for node_id in list(self._deaths):
            self._fence_dead(node_id)

    def _stop_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _again(self, name: str, delay_s: float, call: Callable[[], None]) -> None:
        def run() -> None:
            del self._timers[name]
            if self._heartbeats is None or not self._broker.metadata.is_leader:
                return
            try:
                call()
            except Exception:  # a bug in one round does not end sessions or elections
                log.exception("%s: tried again in %g s", name, FAILED_S)
                self._again(name, FAILED_S, call)

        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = self._loop.call_later(delay_s, run)

    def _append(self, records: Sequence[Record]) -> bool:
        """Append what nobody waits for."""
        try:
            self._broker.metadata.append(records).add_done_callback(lambda done: done.cancelled() or done.exception())
        except KcliError as error:
            log.error("not written to the metadata log: %s", error)  # noqa: TRY400
            return False
        return True

    # sessions

    def _watch_sessions(self) -> None:
        """Look again when the session that ends first would."""
        if self._heartbeats is None or "sessions" in self._timers:
            return
        expiry_ms = self._heartbeats.next_expiry_ms()
        if expiry_ms is not None:
            self._watch_in(max(expiry_ms - self.now_ms, 0) + LATE_MS)

    def _watch_in(self, delay_ms: float) -> None:
        self._watch_due_ms = self.now_ms + delay_ms
        self._again("sessions", delay_ms / 1000, self._end_session)

    def _end_session(self) -> None:
        assert self._heartbeats is not None, "only while it is active"
        if self.now_ms - self._watch_due_ms > STALLED_MS:  # heartbeats may have come meanwhile: look at them first
            self._watch_in(STALLED_MS)
            return
        expired = self._heartbeats.take_expired(self.now_ms)
        if expired is not None:
            broker_id, epoch = expired
            known = self._broker.metadata.draft.brokers.get(broker_id)
            if known is not None and known.epoch == epoch and not known.fenced and not self._is_here(known):
                self._fence(broker_id, "its session has timed out")
        self._watch_sessions()

    def _is_here(self, state: BrokerState) -> bool:
        """Is it the broker in this process, not one before it?"""
        lifecycle = self._broker.lifecycle
        return state.id == self._broker.node_id and lifecycle is not None and lifecycle.epoch == state.epoch

    def _was_here(self, state: BrokerState | None) -> bool:
        """Is it the broker of a process before this one? It cannot live any more, whatever its session says."""
        is_own = state is not None and state.id == self._broker.node_id and self._broker.lifecycle is not None
        return state is not None and is_own and not self._is_here(state)

    def _fence(self, broker_id: int, reason: str) -> None:
        assert self._heartbeats is not None, "only while it is active"
        log.info("fencing broker %d: %s", broker_id, reason)
        draft, properties = self._broker.metadata.draft, self._broker.config.properties
        if self._append(registrations.fence_broker(draft, broker_id, properties)):
            self._heartbeats.fenced(broker_id)

    # processes whose end somebody saw

    def report_death(self, node_id: int) -> None:
        """A node's process has ended. Who starts the processes sees it at once and tells every controller: the active
        one does not wait for the session to end, and one that becomes active a moment later neither."""
        known = self._broker.image.brokers.get(node_id)
        if node_id != self._broker.node_id and known is not None:
            self._deaths[node_id] = _Death(known.epoch)
            if self._heartbeats is not None and self._broker.metadata.is_leader:
                self._fence_dead(node_id)

    def report_start(self, node_id: int) -> None:
        """Its next process was started."""
        if node_id in self._deaths:
            self._deaths[node_id].was_started = True

    def _fence_dead(self, node_id: int) -> None:
        assert self._heartbeats is not None, "only while it is active"
        death, known = self._deaths[node_id], self._broker.metadata.draft.brokers.get(node_id)
        if known is None or (death.was_started and known.epoch != death.epoch):
            del self._deaths[node_id]
            return
        self._heartbeats.end_session(node_id)
        if not known.fenced:
            self._fence(node_id, "its process has ended")

    # elections that nobody asked for

    def _repeat(self, name: str, seconds: float, decide: Callable[[MetadataImage, Properties], list[Record]]) -> None:
        def run() -> None:
            metadata = self._broker.metadata
            records = decide(metadata.draft, self._broker.config.properties)
            delay_s = AGAIN_S if len(records) >= ELECTIONS_MAX else seconds
            if records:
                log.info("elected leaders of %d partitions (%s)", len(records), name)
                if not self._append(records):
                    delay_s = FAILED_S
            self._again(name, delay_s, run)

        self._again(name, seconds, run)
