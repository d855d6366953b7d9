"""What a node's configuration says of its quorum: whether it is alone, who votes, where this node is reached.

    alone     broker and controller, the only one of controller.quorum.voters: then its controller listener is not
              opened, and nobody can join it
    static    controller.quorum.voters: ids and addresses
    dynamic   controller.quorum.bootstrap.servers: addresses only; the voters are in the metadata log (KIP-853)

Source: QuorumConfig, KafkaRaftServer.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from kcli.broker.config.listeners import parse_bootstrap_server, parse_voter
from kcli.metadata.partition import from_uuid
from kcli.raft.config import RaftConfig
from kcli.raft.voters import Endpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcli.broker.config import BrokerConfig
    from kcli.broker.logs.directories import LogDirs

VOTERS = "controller.quorum.voters"
BOOTSTRAP = "controller.quorum.bootstrap.servers"


def is_alone(config: BrokerConfig) -> bool:
    """Is the node all of its cluster, and will it stay so?"""
    voters = {parse_voter(word)[0] for word in config.words(VOTERS)}
    return config.is_broker and config.is_controller and voters == {config.node_id} and not config.words(BOOTSTRAP)


def raft_config(config: BrokerConfig, dirs: LogDirs, bound: Mapping[str, tuple[str, int]]) -> RaftConfig:
    """bound: controller listener -> where other nodes reach it."""
    voters = {voter: (host, port) for voter, host, port in map(parse_voter, config.words(VOTERS))}
    return RaftConfig(
        node_id=config.node_id,
        directory_id=from_uuid(dirs.metadata.id),
        cluster_id=dirs.cluster_id,
        listener=config.controller_listener_names[0],
        endpoints=tuple(Endpoint(name, host, port) for name, (host, port) in bound.items()),
        can_become_voter=config.is_controller,
        voters=voters,
        bootstrap_servers=tuple(map(parse_bootstrap_server, config.words(BOOTSTRAP))),
        election_timeout_ms=config.number("controller.quorum.election.timeout.ms"),
        fetch_timeout_ms=config.number("controller.quorum.fetch.timeout.ms"),
        election_backoff_max_ms=config.number("controller.quorum.election.backoff.max.ms"),
        request_timeout_ms=config.number("controller.quorum.request.timeout.ms"),
        retry_backoff_ms=config.number("controller.quorum.retry.backoff.ms"),
        auto_join_enable=bool(config.get("controller.quorum.auto.join.enable")),
        fetch_max_bytes=config.number("controller.quorum.fetch.max.bytes"),
        fetch_snapshot_max_bytes=config.number("controller.quorum.fetch.snapshot.max.bytes"),
    )


def own_name(bound_host: str) -> str:
    """What others are told where all addresses are listened on."""
    return socket.getfqdn() if bound_host in ("0.0.0.0", "::", "") else bound_host  # noqa: S104  (compared, not bound)
