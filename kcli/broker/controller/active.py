"""The active controller's broker sessions and periodic elections. The functions of kcli.metadata decide which records
the active controller writes.

    becomes active   the session of each unfenced broker begins; brokers whose process has ended are fenced
    sessions         a broker without heartbeat for broker.session.timeout.ms is fenced; one broker at a time
    elections        preferred leaders every leader.imbalance.check.interval.seconds (auto.leader.rebalance.enable);
                     unclean leaders, if topics allow them, every unclean.leader.election.interval.ms
    resigns          the sessions are dropped, and the timers stopped

The broker in the controller's own process is not fenced for an expired session, as it is alive as long as the
controller is. Source: QuorumController, PeriodicTaskControlManager, ClusterControlManager.activate.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kcli.broker.metadata.errors import NotController
from kcli.broker.process.clock import Clock
from kcli.errors import KcliError
from kcli.metadata import registration_control as registrations
from kcli.metadata.directory_control import Answers, Assignments, assign_replicas
from kcli.metadata.election import ELECTIONS_MAX, balance_leaders, elect_unclean_leaders
from kcli.metadata.heartbeats import Heartbeat, HeartbeatAnswer, Heartbeats, heartbeat
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.result import Refused
from kcli.metadata.token_control import SWEPT_MAX, sweep_tokens

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.metadata.log import MetadataLog
    from kcli.metadata.registration import Broker as BrokerState
    from kcli.metadata.registration import Controller

log = logging.getLogger("kcli.broker")

AGAIN_S: Final = 0.01
FAILED_S: Final = 300.0
LATE_MS: Final = 1
STALLED_MS: Final = 500
"""The delay, in ms, above which a late session timer shows that this process or its host was suspended. Heartbeats that
have arrived meanwhile are then handled before sessions expire."""

Properties = Mapping[str, str]


@dataclass(slots=True)
class _Death:
    """The end of a node's process, which the launcher (the process of `kcli serve --nodes`, which starts the nodes of a
    cluster) has reported. epoch: the node's broker epoch in the metadata image when its process ended. was_started:
    whether the launcher has started the node's next process."""

    epoch: int
    was_started: bool = False


class ActiveController:
    """The sessions and elections of a controller while it is the active one. Every node that is a controller has this
    object, and uses it on the event loop's thread. own_epoch: a function that returns the broker epoch
    of the broker in this process, None if this node is not a broker."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataLog,
        own_epoch: Callable[[], int | None],
        clock: Clock | None = None,
    ) -> None:
        self._config, self._metadata = config, metadata
        self._own_epoch = own_epoch
        self._clock = clock or Clock()
        self._loop = asyncio.get_running_loop()
        self._heartbeats: Heartbeats | None = None
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._deaths: dict[int, _Death] = {}
        self._last_refusal = ""
        self._watch_due_ms = 0.0

    def start(self) -> None:
        """From now on become active or resign when the leadership of the metadata log changes."""
        self._metadata.on_leadership.append(self._leadership)
        self._leadership()

    def stop(self) -> None:
        """Stop the timers of sessions and elections."""
        self._stop_timers()

    @property
    def now_ms(self) -> float:
        """The current time for sessions, in ms, by a monotonic clock."""
        return self._loop.time() * 1000

    @property
    def heartbeats(self) -> Heartbeats:
        """The sessions of the brokers. Raises NotController if this node is not the active controller."""
        if self._heartbeats is None or not self._metadata.is_leader:
            raise NotController("not the active controller")
        return self._heartbeats

    def refused(self, what: str, refused: Refused) -> None:
        """Log why a request was refused. what: the request, in words. The same line is not logged twice in a row, as
        the sender retries."""
        line = f"{what} is refused: {refused.error.message}"
        if line != self._last_refusal:
            log.warning("%s", line)
        self._last_refusal = line

    # requests of nodes

    async def register_controller(self, controller: Controller) -> None:
        """Register a controller. Raises NotController."""
        _ = self.heartbeats
        metadata = self._metadata
        await metadata.append(registrations.register_controller(metadata.draft, controller))

    async def register_broker(self, state: BrokerState, previous_epoch: int | None) -> int:
        """Register a broker, for the first time or again, and return its new broker epoch. previous_epoch: the broker
        epoch at the broker's last clean shutdown, from the request; None if the request's version has no such field.
        Raises NotController, and Refused as kcli.metadata.registration_control.register_broker does."""
        heartbeats, metadata = self.heartbeats, self._metadata
        known = metadata.draft.brokers.get(state.id)
        if known is not None and known.epoch == previous_epoch and known.incarnation_id != state.incarnation_id:
            # the broker's previous process has shut down cleanly, but maybe without a controlled shutdown, so that the
            # broker is not fenced yet
            heartbeats.end_session(state.id)
            if not known.fenced:
                self._fence(state.id, "it has shut down")
        records = registrations.register_broker(
            metadata.draft,
            replace(state, epoch=metadata.next_offset),
            previous_epoch,
            self._config.properties,
            kraft_version=metadata.kraft_version,
            has_session=heartbeats.has_session(known, self.now_ms) and not self._was_here(known),
        )
        if known is None or known.incarnation_id != state.incarnation_id:
            heartbeats.registered(state.id)
        epoch: int = records[-1][2]["brokerEpoch"]
        await metadata.append(records)
        return epoch

    async def heartbeat(self, beat: Heartbeat) -> HeartbeatAnswer:
        """Renew a broker's session, append the records that follow from its heartbeat (fencing, unfencing, controlled
        shutdown, offline or cordoned directories), and return the response once they are committed. Raises
        Refused(STALE_BROKER_EPOCH), NotController."""
        heartbeats, metadata = self.heartbeats, self._metadata
        records, answer = heartbeat(metadata.draft, heartbeats, beat, self._config.properties, self.now_ms)
        done = metadata.append(records)
        if answer.is_in_controlled_shutdown:
            heartbeats.begin_controlled_shutdown(beat.broker_id, metadata.next_offset - 1)
        self._watch_sessions()
        await done
        return answer

    async def assign_replicas(self, broker_id: int, broker_epoch: int, assignments: Assignments) -> Answers:
        """Record the log directories of a broker's replicas. Return the result of each replica. Raises
        NotController, and Refused as kcli.metadata.directory_control.assign_replicas does."""
        _ = self.heartbeats
        metadata = self._metadata
        records, answers = assign_replicas(
            metadata.draft, broker_id, broker_epoch, assignments, self._config.properties
        )
        await metadata.append(records)
        return answers

    # becoming active, and resigning

    def _leadership(self) -> None:
        if not self._metadata.is_leader:
            self._heartbeats = None
            self._stop_timers()
        elif self._heartbeats is None:
            self._activate()

    def _activate(self) -> None:
        config, brokers = self._config, self._metadata.draft.brokers
        self._heartbeats = Heartbeats(config.number("broker.session.timeout.ms"), brokers.values(), self.now_ms)
        self._watch_sessions()
        self._repeat("unclean", config.number("unclean.leader.election.interval.ms") / 1000, elect_unclean_leaders)
        if config.get("auto.leader.rebalance.enable"):
            seconds = config.number("leader.imbalance.check.interval.seconds")
            self._repeat("preferred", seconds, balance_leaders)
        if config.get("delegation.token.secret.key"):
            self._sweep_in(config.number("delegation.token.expiry.check.interval.ms") / 1000)
        for node_id in list(self._deaths):
            self._fence_dead(node_id)

    def _sweep_in(self, seconds: float) -> None:
        """Remove the expired delegation tokens after `seconds`, and then again at this interval, or after AGAIN_S if so
        many have expired that some may be left."""

        def run() -> None:
            records = sweep_tokens(self._metadata.draft, self._clock.now_ms())
            if records:
                log.info("%d delegation tokens have expired", len(records))
                self._append(records)
            self._sweep_in(AGAIN_S if len(records) >= SWEPT_MAX else seconds)

        self._again("tokens", seconds, run)

    def _stop_timers(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _again(self, name: str, delay_s: float, call: Callable[[], None]) -> None:
        def run() -> None:
            del self._timers[name]
            if self._heartbeats is None or not self._metadata.is_leader:
                return
            try:
                call()
            except Exception:  # a bug in one run must not end the checks of sessions or the elections
                log.exception("%s: tried again in %g s", name, FAILED_S)
                self._again(name, FAILED_S, call)

        if name in self._timers:
            self._timers[name].cancel()
        self._timers[name] = self._loop.call_later(delay_s, run)

    def _append(self, records: Sequence[Record]) -> bool:
        """Append records without waiting for their commit. Return whether they were appended."""
        try:
            self._metadata.append(records).add_done_callback(lambda done: done.cancelled() or done.exception())
        except KcliError as error:
            log.error("not written to the metadata log: %s", error)  # noqa: TRY400  (the message names the reason)
            return False
        return True

    # sessions

    def _watch_sessions(self) -> None:
        """Set the timer for the session that expires first."""
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
        if self.now_ms - self._watch_due_ms > STALLED_MS:  # heartbeats may be unread in the sockets: handle them first
            self._watch_in(STALLED_MS)
            return
        expired = self._heartbeats.take_expired(self.now_ms)
        if expired is not None:
            broker_id, epoch = expired
            known = self._metadata.draft.brokers.get(broker_id)
            if known is not None and known.epoch == epoch and not known.fenced and not self._is_here(known):
                self._fence(broker_id, "its session has timed out")
        self._watch_sessions()

    def _is_here(self, state: BrokerState) -> bool:
        """Whether a registration is that of the broker in this process, not of an earlier process of this node."""
        return state.id == self._config.node_id and self._own_epoch() == state.epoch

    def _was_here(self, state: BrokerState | None) -> bool:
        """Whether a registration is that of an earlier process of this node. That process has ended, even if its
        session has not expired."""
        is_own = state is not None and state.id == self._config.node_id and self._own_epoch() is not None
        return state is not None and is_own and not self._is_here(state)

    def _fence(self, broker_id: int, reason: str) -> None:
        assert self._heartbeats is not None, "only while it is active"
        log.info("fencing broker %d: %s", broker_id, reason)
        draft, properties = self._metadata.draft, self._config.properties
        if self._append(registrations.fence_broker(draft, broker_id, properties)):
            self._heartbeats.fenced(broker_id)

    # processes whose end the launcher has reported

    def report_death(self, node_id: int) -> None:
        """Note that a node's process has ended. The launcher calls this method on every controller: the active
        controller, or a controller that becomes active later, fences the node's broker without waiting for its session
        to expire."""
        known = self._metadata.image.brokers.get(node_id)
        if node_id != self._config.node_id and known is not None:
            self._deaths[node_id] = _Death(known.epoch)
            if self._heartbeats is not None and self._metadata.is_leader:
                self._fence_dead(node_id)

    def report_start(self, node_id: int) -> None:
        """Note that the launcher has started the node again. The controller has fenced the node because its process
        died, and lets it be unfenced once the new process has registered."""
        if node_id in self._deaths:
            self._deaths[node_id].was_started = True

    def _fence_dead(self, node_id: int) -> None:
        assert self._heartbeats is not None, "only while it is active"
        death, known = self._deaths[node_id], self._metadata.draft.brokers.get(node_id)
        if known is None or (death.was_started and known.epoch != death.epoch):
            del self._deaths[node_id]
            return
        self._heartbeats.end_session(node_id)
        if not known.fenced:
            self._fence(node_id, "its process has ended")

    # periodic elections

    def _repeat(self, name: str, seconds: float, decide: Callable[[MetadataImage, Properties], list[Record]]) -> None:
        def run() -> None:
            metadata = self._metadata
            records = decide(metadata.draft, self._config.properties)
            delay_s = AGAIN_S if len(records) >= ELECTIONS_MAX else seconds
            if records:
                log.info("elected leaders of %d partitions (%s)", len(records), name)
                if not self._append(records):
                    delay_s = FAILED_S
            self._again(name, delay_s, run)

        self._again(name, seconds, run)
