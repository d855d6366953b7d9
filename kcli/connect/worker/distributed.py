"""A worker's membership in the group of a distributed Connect cluster.

    JoinGroup   protocol type "connect"; what the worker has, and up to which offset it has replayed connect-configs
    SyncGroup   the member whom Kafka's coordinator calls the group's leader says who gets what
    revoked     a member stops what is taken from it, and joins again, so that another one can get it
    behind      a member that has not yet replayed the configurations of the assignment does so before it begins
    again       when there are other connectors or tasks, when a delay of the leader is over, and when the coordinator
                says so

Heartbeats have a task of their own, and a connection: they go on while the member waits for an answer to JoinGroup, or
for tasks to stop. A member that has not reached the coordinator for session.timeout.ms stops everything, as others have
it by then. The leader of the group leads the workers: it writes configurations. Source: WorkerCoordinator,
DistributedHerder, AbstractCoordinator; KIP-415.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.network.peers import Unanswered
from kcli.connect.membership.assignor import CooperativeAssignor, assign_eagerly
from kcli.connect.membership.protocol import (
    COMPATIBLE,
    CONFIG_MISMATCH,
    EAGER,
    PROTOCOL_TYPE,
    SESSIONED,
    VERSIONS,
    Assignment,
    BadProtocol,
    Share,
    WorkerState,
    assignment_bytes,
    metadata,
    read_assignment,
    read_metadata,
)
from kcli.connect.plugins import TaskId
from kcli.connect.worker.settings import Settings
from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode
from kcli.service.cluster import GROUP, PASSING, Cluster, Refused, clock_s

if TYPE_CHECKING:
    from kcli.connect.worker.herder import Herder
    from kcli.connect.worker.internal import InternalRequests
    from kcli.connect.worker.kafka_stores import KafkaStores
    from kcli.connect.worker.work import Work

log = logging.getLogger("kcli.connect")
ANSWER_S: Final = 5.0
ANSWER_MIN_S: Final = 0.1
BACKOFF_S: Final = 0.1
LOG_AGAIN_S: Final = 30.0
SETTLED_S: Final = 30.0
REJOIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})
OFFERED: Final = {"eager": [EAGER], "compatible": [COMPATIBLE, EAGER], "sessioned": [SESSIONED, COMPATIBLE, EAGER]}
"""connect.protocol -> the protocols that a member offers, the preferred one first."""


class DistributedGroup:
    """A membership. url: the worker's REST address."""

    def __init__(self, cluster: Cluster, settings: Settings, stores: KafkaStores, url: str) -> None:
        values = settings.values
        self.generation = self.lost_generation = -1
        self._cluster, self._settings, self._stores, self._url = cluster, settings, stores, url
        self._session_s = values["session.timeout.ms"] / 1000
        self._heartbeat_s = values["heartbeat.interval.ms"] / 1000
        self._rebalance_s = values["rebalance.timeout.ms"] / 1000
        self._offered = OFFERED[values["connect.protocol"].lower()]
        self._protocol = self._offered[0]
        self._assignor = CooperativeAssignor(values["scheduled.rebalance.max.delay.ms"])
        self._coordinator = -1
        self._member_id = ""
        self._completed = -1
        self._assignment: Assignment | None = None
        self._share = Share()
        self._is_rebalancing = True
        self._joined_for = Share()
        self._owners: dict[str | TaskId, str] = {}
        self._due_s = float("inf")
        self._confirmed_s = float("-inf")
        self._reported: frozenset[TaskId] = frozenset()
        self._failure: KcliError | None = None
        self._wake = asyncio.Event()
        self._changed = asyncio.Condition()
        self._logged: tuple[str, float] = "", 0.0
        self._tasks: list[asyncio.Task[None]] = []
        self._herder: Herder | None = None
        self._work: Work | None = None
        self._internal: InternalRequests | None = None

    # what the herder asks

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads."""
        assignment = self._assignment
        return assignment is not None and not self._is_rebalancing and assignment.leader == self._member_id

    @property
    def signs_requests(self) -> bool:
        """Whether requests between the workers are signed."""
        return self._protocol == SESSIONED

    @property
    def leader_url(self) -> str | None:
        """The REST address of the leader; None while a rebalance is underway."""
        return None if self._assignment is None or self._is_rebalancing else self._assignment.leader_url

    def connectors(self) -> Collection[str]:
        """Return the connectors that this worker has."""
        return self._share.connectors

    def tasks(self) -> Collection[TaskId]:
        """Return the tasks that this worker has."""
        return self._share.tasks

    def owner_url(self, what: str | TaskId) -> str | None:
        """Return the REST address of the worker that has a connector or a task."""
        return self._owners.get(what)

    async def settled(self) -> None:
        """Wait for the end of a rebalance, but not for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLED_S), self._changed:
                await self._changed.wait_for(lambda: not self._is_rebalancing and not self._wake.is_set())

    async def released(self, connector: str) -> bool:
        """As the leader, wait until no member has tasks of a connector that is stopped, but not for ever; return
        whether none has: a member joins again once it has stopped what is taken from it."""

        def is_released() -> bool:
            return all(each.connector != connector for each in self._reported)

        await self.settled()
        if is_released():
            return True
        self._wake.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLED_S), self._changed:
                await self._changed.wait_for(is_released)
        return is_released()

    def work_changed(self) -> None:
        """Join again if there are other connectors or tasks than at the last time."""
        if self._configured() != self._joined_for:
            self._wake.set()

    def _configured(self) -> Share:
        configs = self._stores.configs
        tasks = {task for name in configs.connectors for task in configs.task_ids(name)}
        return Share(frozenset(configs.connectors), frozenset(tasks))

    # membership

    async def start(self, herder: Herder, work: Work, internal: InternalRequests) -> None:
        """Begin to be a member."""
        self._herder, self._work, self._internal = herder, work, internal
        self._tasks = [asyncio.create_task(each) for each in (self._run(), self._send_heartbeats())]

    async def leave(self) -> None:
        """Leave the group, so that the others get this worker's connectors and tasks."""
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._member_id:
            try:
                await self._ask("leave_group", ANSWER_S, member_id=self._member_id)
            except (Unanswered, Refused) as error:
                log.info("the group is not left in order: %s", error)

    async def _run(self) -> None:
        while True:
            try:
                await self._join()
                await self._stay()
            except (Unanswered, TimeoutError) as error:
                self._lost(str(error) or "no answer in time")
            except Refused as error:
                if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._member_id = ""
                if error.code in REJOIN:
                    self._is_rebalancing = True
                    continue
                self._lost(str(error))
            except KcliError as error:
                self._lost(str(error))
            except BadProtocol as error:
                self._lost(f"the group's metadata cannot be read: {error}")
            except Exception as error:
                log.exception("group %s", self._settings.group_id)
                self._lost(repr(error))
            await asyncio.sleep(BACKOFF_S)

    async def _stay(self) -> None:
        """Return when it is time to join again. Raises the error of a heartbeat."""
        while not self._wake.is_set() and clock_s() < self._due_s:
            wait_s = min(self._heartbeat_s, self._due_s - clock_s())
            with suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, wait_s)):
                    await self._wake.wait()
            if self.is_leader:
                await self._claim()
            await self._renew_key()
        self._wake.clear()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    async def _send_heartbeats(self) -> None:
        """Send heartbeats for ever, and stop everything once the coordinator has answered none for a session."""
        while True:
            left_s = self._confirmed_s + self._session_s - clock_s()
            await asyncio.sleep(min(self._heartbeat_s, max(0.0, left_s)) if self._share else self._heartbeat_s)
            generation = self.generation
            if self._coordinator >= 0 and self._member_id:
                try:
                    await self._send_heartbeat()
                except KcliError as error:
                    if not self._is_rebalancing and generation == self.generation:
                        self._failure = error
                        self._wake.set()
                except Exception:
                    log.exception("heartbeats of group %s", self._settings.group_id)
            if self._share and clock_s() - self._confirmed_s > self._session_s:
                self._stop_everything()

    async def _send_heartbeat(self) -> None:
        started = clock_s()
        left_s = max(ANSWER_MIN_S, self._confirmed_s + self._session_s - started)
        fields = {"generation_id": self.generation, "member_id": self._member_id, "group_instance_id": None}
        try:
            await self._ask("heartbeat", min(left_s, self._session_s), **fields)
        except Refused as error:
            if error.code == ErrorCode.REBALANCE_IN_PROGRESS:  # the member is one
                self._confirmed_s = started
            raise
        self._confirmed_s = started

    def _stop_everything(self) -> None:
        log.warning("group %s: not confirmed for a session: all connectors and tasks stop", self._settings.group_id)
        self._share, self._assignment, self._is_rebalancing = Share(), None, True
        self.lost_generation = self.generation
        self._stores.give_up()
        self._wake.set()
        if self._work is not None:
            self._work.mark_all_stale()

    async def _claim(self) -> None:
        """As the leader, be the only one that writes as the leader. A worker that has failed to write claims that anew
        once a heartbeat has told that it is a member still."""
        unclaimed_s = self._stores.unclaimed_s
        if unclaimed_s is None or self._confirmed_s <= unclaimed_s:
            return
        try:
            await self._stores.claim()
        except KcliError as error:
            log.warning("topic %s is not claimed yet: %s", self._settings.values["config.storage.topic"], error)

    async def _renew_key(self) -> None:
        if self._internal is not None and self._stores.unclaimed_s is None:
            await self._internal.renew_key()

    async def _ask(self, api: str, timeout_s: float, **fields: Any) -> Any:
        connection = "heartbeats" if api == "heartbeat" else "group"
        answer = await self._cluster.ask(
            self._coordinator, connection, api, timeout_s, group_id=self._settings.group_id, **fields
        )
        if answer.error_code != ErrorCode.NONE:
            if api == "join_group" and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
            raise Refused(f"{api} of group {self._settings.group_id}", answer.error_code)
        return answer

    async def _join(self) -> None:
        if self._coordinator < 0:
            self._coordinator = await self._cluster.coordinator(GROUP, self._settings.group_id or "")
        self._is_rebalancing, self._due_s = True, float("inf")
        if self._protocol == EAGER:
            await self._switch_to(Share())
        self._wake.clear()
        self._failure = None
        self._joined_for = self._configured()
        had = None if self._assignment is None else self._assignment._replace(assigned=self._share, revoked=Share())
        state = WorkerState(self._url, self._stores.configs.end_offset, had)
        offered = [{"name": each, "metadata": metadata(state, VERSIONS[each])} for each in self._offered]
        joined: Any = None
        while joined is None:
            with suppress(_MemberIdRequired):
                joined = await self._join_once(offered)
        self._member_id, self.generation, self._protocol = joined.member_id, joined.generation_id, joined.protocol_name
        assignments: list[dict[str, Any]] = []
        if joined.leader == joined.member_id:
            given = await self._assign({each.member_id: read_metadata(bytes(each.metadata)) for each in joined.members})
            version = VERSIONS[self._protocol]
            assignments = [
                {"member_id": member, "assignment": assignment_bytes(each, version)} for member, each in given.items()
            ]
        started = clock_s()
        synced = await self._ask(
            "sync_group",
            self._rebalance_s + ANSWER_S,
            generation_id=self.generation,
            member_id=self._member_id,
            group_instance_id=None,
            assignments=assignments,
        )
        self._confirmed_s = started
        await self._assigned(read_assignment(bytes(synced.assignment)))

    async def _join_once(self, offered: Sequence[Mapping[str, Any]]) -> Any:
        try:
            return await self._ask(
                "join_group",
                self._rebalance_s + ANSWER_S,
                session_timeout=int(self._session_s * 1000),
                rebalance_timeout=int(self._rebalance_s * 1000),
                member_id=self._member_id,
                group_instance_id=None,
                protocol_type=PROTOCOL_TYPE,
                protocols=offered,
            )
        except Refused as error:
            if error.code == ErrorCode.MEMBER_ID_REQUIRED:
                raise _MemberIdRequired from None
            raise

    async def _assign(self, members: Mapping[str, WorkerState]) -> dict[str, Assignment]:
        """As the leader, return what each member gets."""
        newest = max(each.config_offset for each in members.values())
        self._reported = frozenset(task for each in members.values() for task in each.share.tasks)
        if self._stores.configs.end_offset < newest:
            await self._stores.refresh(with_open=False)
        if self._stores.configs.end_offset < newest:
            log.warning("this worker leads, and has not replayed the configurations that others have")
            none = Assignment(self._member_id, self._url, newest, error=CONFIG_MISMATCH)
            return dict.fromkeys(members, none)
        self._joined_for = configured = self._configured()
        offset = self._stores.configs.end_offset
        if self._protocol == EAGER:
            held: Mapping[str, Share] = assign_eagerly(configured, members.keys())
            given = {member: Assignment(self._member_id, self._url, offset, share) for member, share in held.items()}
        else:
            shares = {member: state.share for member, state in members.items()}
            decision = self._assignor.assign(
                configured, shares, self.generation, self._completed, int(time.monotonic() * 1000)
            )
            held = decision.held
            given = {
                member: Assignment(
                    self._member_id,
                    self._url,
                    offset,
                    decision.assigned[member],
                    decision.revoked[member],
                    decision.delay_ms,
                )
                for member in members
            }
        self._owners = {}
        for member, share in held.items():
            self._owners |= dict.fromkeys(share.connectors, members[member].url)
            self._owners |= dict.fromkeys(share.tasks, members[member].url)
        return given

    async def _assigned(self, assignment: Assignment) -> None:
        """Begin what was assigned, and end what was revoked."""
        self._completed = self.generation
        if assignment.error == CONFIG_MISMATCH:
            await self._stores.refresh(with_open=False)
            self._wake.set()
            return
        if self._stores.configs.end_offset < assignment.config_offset:
            await self._stores.refresh(with_open=False)
        if assignment.leader == self._member_id:
            await self._claim()
        else:
            self._stores.give_up()
        self._assignment, self._is_rebalancing = assignment, False
        is_eager = self._protocol == EAGER
        kept = Share() if is_eager else self._share - assignment.revoked
        log.info(
            "group %s, generation %d: %s leads%s",
            self._settings.group_id,
            self.generation,
            assignment.leader_url,
            ", this one" if self.is_leader else "",
        )
        await self._switch_to(kept | assignment.assigned, waits_for=assignment.revoked)
        if assignment.delay_ms:
            self._due_s = clock_s() + assignment.delay_ms / 1000
        if assignment.revoked:
            self._wake.set()
        if self._herder is not None:
            self._herder.forget()
        await self._renew_key()
        self.work_changed()
        async with self._changed:
            self._changed.notify_all()

    async def _switch_to(self, share: Share, waits_for: Share | None = None) -> None:
        """Run a share, and return once what it has no longer is stopped."""
        assert self._work is not None, "started"
        gone = self._share - share if waits_for is None else waits_for
        self._share = share
        self._work.mark_all_stale()
        for name in {*gone.connectors, *(each.connector for each in gone.tasks)}:
            await self._work.settled(name)

    def _lost(self, reason: str) -> None:
        """Look up the coordinator again."""
        self._coordinator = -1
        self._is_rebalancing = True
        known, logged_at = self._logged
        now = time.monotonic()
        if not any(code.name in reason for code in PASSING) and (reason != known or now - logged_at > LOG_AGAIN_S):
            self._logged = reason, now
            log.warning("group %s: %s", self._settings.group_id, reason)


class _MemberIdRequired(Exception):
    """The coordinator has given a member id, with which the member joins."""
