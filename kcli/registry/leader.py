"""The election of a leader among registries, by the group protocol `sr` of Confluent's Schema Registry.

    JoinGroup   protocol type "sr", one protocol "v0"; its metadata is the member's identity as JSON
                {"version":1, "host":..., "port":8081, "master_eligibility":true, "scheme":"http", "leader":false}
    SyncGroup   the member whom Kafka's coordinator calls the group's leader gives all members one assignment
                {"version":1, "error":0, "master":<member id>, "master_identity":{...}}
    Heartbeat   every heartbeat_s; an error sends the member back to JoinGroup

The leader is the eligible member with the smallest URL; with leader.election.sticky the present leader stays. Error 1
means that two members have the same URL: then nobody leads. During a rebalance no leader is known, unless the election
is sticky. The election alone does not keep an earlier leader from writing; log.py fences it. Source:
SchemaRegistryCoordinator, SchemaRegistryProtocol and SchemaRegistryIdentity of Confluent's registry; Kafka's
AbstractCoordinator.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kcli.broker.network.peers import Unanswered
from kcli.protocol.error_code import ErrorCode
from kcli.service.cluster import GROUP, PASSING, Cluster, Refused, clock_s

log = logging.getLogger("kcli.registry")
PROTOCOL_TYPE, PROTOCOL = "sr", "v0"
DUPLICATE_URLS: Final = 1
BACKOFF_S: Final = 0.1
LOG_AGAIN_S: Final = 30.0
ANSWER_S: Final = 5.0
REJOIN: Final = frozenset({ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID})


class Identity(NamedTuple):
    """The address of a registry for the other registries, and whether it may lead."""

    host: str
    port: int
    scheme: str = "http"
    is_eligible: bool = True

    @property
    def url(self) -> str:
        """The URL of the registry."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def to_json(self, *, leads: bool = False) -> dict[str, Any]:
        """Return the JSON object of this identity. leads: whether this registry is the leader now."""
        return {
            "version": 1,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.is_eligible,
            "scheme": self.scheme,
            "leader": leads,
        }

    @classmethod
    def of_json(cls, found: Mapping[str, Any]) -> Identity:
        """Return the identity in a JSON object. Raises ValueError."""
        host, port = found.get("host"), found.get("port")
        scheme, eligible = found.get("scheme") or "http", found.get("master_eligibility", True)
        if not isinstance(host, str) or not isinstance(port, int) or scheme not in ("http", "https"):
            raise ValueError(f"no identity of a registry: {str(found)[:200]}")
        return cls(host, port, str(scheme), bool(eligible))


class GroupConfig(NamedTuple):
    """The group of the registries, and its times in seconds."""

    group_id: str = "schema-registry"
    session_s: float = 10.0
    heartbeat_s: float = 3.0
    rebalance_s: float = 300.0
    is_sticky: bool = False


class Assigned(NamedTuple):
    """The decision of the group. leader: None if nobody leads. is_self: whether this registry leads."""

    leader: Identity | None
    is_self: bool


NOBODY: Final = Assigned(None, is_self=False)


def elect(members: Mapping[str, bytes], *, is_sticky: bool) -> dict[str, Any]:
    """Return the assignment that all members get. members: member id -> the member's metadata; a member whose metadata
    cannot be read is not eligible."""
    eligible: list[tuple[str, str, Identity]] = []
    leading: list[tuple[str, str, Identity]] = []
    urls: list[str] = []
    for member_id, metadata in members.items():
        try:
            found = json.loads(metadata)
            identity = Identity.of_json(found)
        except (ValueError, AttributeError, RecursionError):
            log.warning("member %s of the group has no readable identity", member_id)
            continue
        urls.append(identity.url)
        if identity.is_eligible:
            eligible.append((identity.url, member_id, identity))
            if found.get("leader") is True:
                leading.append(eligible[-1])
    error = DUPLICATE_URLS if len(set(urls)) < len(urls) else 0
    if not eligible:
        return {"version": 1, "error": error}
    _, member_id, identity = leading[0] if is_sticky and len(leading) == 1 else min(eligible)
    return {"version": 1, "error": error, "master": member_id, "master_identity": identity.to_json()}


class Election:
    """This registry's membership in the group. on_assigned: called with each decision, and with NOBODY when no decision
    holds any longer."""

    def __init__(
        self, cluster: Cluster, config: GroupConfig, identity: Identity, on_assigned: Callable[[Assigned], None]
    ) -> None:
        self.assigned = NOBODY
        self._cluster, self._config, self._identity = cluster, config, identity
        self._on_assigned = on_assigned
        self._coordinator = -1
        self._member_id, self._generation = "", -1
        self._confirmed_at = float("-inf")
        self._logged: tuple[str, float] = "", 0.0
        self._in_doubt = asyncio.Event()

    @property
    def is_confirmed(self) -> bool:
        """Whether the coordinator has confirmed this membership in the last session timeout: no other member can have
        been elected since, unless this one's clock is wrong."""
        return clock_s() - self._confirmed_at < self._config.session_s

    def doubt(self) -> None:
        """Ask the coordinator at once whether this registry is still a member: it may have missed an election."""
        self._confirmed_at = float("-inf")
        self._in_doubt.set()

    async def run(self) -> None:
        """Stay a member of the group until cancelled."""
        while True:
            try:
                await self._join()
                while True:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(self._config.heartbeat_s):
                            await self._in_doubt.wait()
                    self._in_doubt.clear()
                    await self._heartbeat()
            except Unanswered as error:
                self._lost(str(error))
            except Refused as error:
                if error.code == ErrorCode.UNKNOWN_MEMBER_ID:
                    self._member_id = ""
                if error.code not in REJOIN:
                    self._lost(str(error))
                elif not self._config.is_sticky or error.code != ErrorCode.REBALANCE_IN_PROGRESS:
                    self._assign(NOBODY)
                if error.code == ErrorCode.REBALANCE_IN_PROGRESS:
                    continue
            await asyncio.sleep(BACKOFF_S)

    async def leave(self) -> None:
        """Leave the group, so that the others elect a leader at once."""
        if not self._member_id:
            return
        try:
            await self._ask("leave_group", ANSWER_S, member_id=self._member_id)
        except (Unanswered, Refused) as error:
            log.info("the group is not left in order: %s", error)
        self._member_id = ""
        self._assign(NOBODY)

    async def _ask(self, api: str, timeout_s: float, **fields: Any) -> Any:
        answer = await self._cluster.ask(
            self._coordinator, "group", api, timeout_s, group_id=self._config.group_id, **fields
        )
        if answer.error_code != ErrorCode.NONE:
            if api == "join_group" and answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
            raise Refused(f"{api} of group {self._config.group_id}", answer.error_code)
        return answer

    async def _join(self) -> None:
        config = self._config
        if self._coordinator < 0:
            self._coordinator = await self._cluster.coordinator(GROUP, config.group_id)
        leads = self.assigned.is_self
        metadata = json.dumps(self._identity.to_json(leads=leads), separators=(",", ":")).encode()
        joined: Any = None
        while joined is None:
            try:
                joined = await self._ask(
                    "join_group",
                    config.rebalance_s + ANSWER_S,
                    session_timeout=int(config.session_s * 1000),
                    rebalance_timeout=int(config.rebalance_s * 1000),
                    member_id=self._member_id,
                    group_instance_id=None,
                    protocol_type=PROTOCOL_TYPE,
                    protocols=[{"name": PROTOCOL, "metadata": metadata}],
                )
            except Refused as error:
                if error.code != ErrorCode.MEMBER_ID_REQUIRED:
                    raise
        self._member_id, self._generation = joined.member_id, joined.generation_id
        assignments: list[dict[str, Any]] = []
        if joined.leader == joined.member_id:
            decided = elect({each.member_id: each.metadata for each in joined.members}, is_sticky=config.is_sticky)
            text = json.dumps(decided, separators=(",", ":")).encode()
            assignments = [{"member_id": each.member_id, "assignment": text} for each in joined.members]
        started = clock_s()
        synced = await self._ask(
            "sync_group",
            config.rebalance_s + ANSWER_S,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=None,
            assignments=assignments,
        )
        self._confirmed_at = started
        self._assign(self._read(bytes(synced.assignment)))

    def _read(self, assignment: bytes) -> Assigned:
        try:
            found = json.loads(assignment)
            if found.get("error"):
                log.error(
                    "group %s has two registries with one URL: give each a host.name or listener of its own",
                    self._config.group_id,
                )
                return NOBODY
            identity = found.get("master_identity")
            if identity is None:
                log.warning("group %s has no member that may lead: it serves reads only", self._config.group_id)
                return NOBODY
            return Assigned(Identity.of_json(identity), is_self=found.get("master") == self._member_id)
        except (ValueError, AttributeError, RecursionError):
            log.warning("group %s: the assignment cannot be read: %r", self._config.group_id, assignment[:200])
            return NOBODY

    async def _heartbeat(self) -> None:
        started = clock_s()
        await self._ask(
            "heartbeat",
            self._config.session_s,
            generation_id=self._generation,
            member_id=self._member_id,
            group_instance_id=None,
        )
        self._confirmed_at = started
        self._on_assigned(self.assigned)

    def _assign(self, assigned: Assigned) -> None:
        if assigned != self.assigned:
            where = "nobody" if assigned.leader is None else assigned.leader.url
            log.info("group %s: %s leads%s", self._config.group_id, where, ", this one" if assigned.is_self else "")
        self.assigned = assigned
        self._on_assigned(assigned)

    def _lost(self, reason: str) -> None:
        """Look up the coordinator again before the next request, and log the reason. The leader stays known as long as
        this membership is confirmed."""
        self._coordinator = -1
        if not self.is_confirmed:
            self._assign(NOBODY)
        known, logged_at = self._logged
        now = time.monotonic()
        passes = any(code.name in reason for code in PASSING)
        if not passes and (reason != known or now - logged_at > LOG_AGAIN_S):
            self._logged = reason, now
            log.warning("group %s: %s", self._config.group_id, reason)
