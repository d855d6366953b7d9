"""The configuration of a raft node: Kafka's names without `controller.quorum.`, and Kafka's defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kcli.raft.voters import Endpoints

FETCH_WAIT_MAX_MS: Final = 500
"""The longest time, in ms, for which a leader lets a Fetch at the log end wait; half a fetch timeout if that is less
(Kafka always waits up to 500 ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RaftConfig:
    """The configuration of one node; times in ms, sizes in bytes.

    voters: the static voters, host and port by id; empty with dynamic voters. bootstrap_servers: the nodes from which
    to learn the leader; if empty, the static voters. listener: the first of controller.listener.names. endpoints: this
    node's controller listeners, for the VotersRecord and for BeginQuorumEpoch. can_become_voter: whether the node has
    the role controller.
    """

    node_id: int
    directory_id: str
    cluster_id: str
    listener: str = "CONTROLLER"
    endpoints: Endpoints = ()
    can_become_voter: bool = True
    voters: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    bootstrap_servers: Sequence[tuple[str, int]] = ()
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    auto_join_enable: bool = False
    fetch_max_bytes: int = 1 << 20
    fetch_snapshot_max_bytes: int = 1 << 20
