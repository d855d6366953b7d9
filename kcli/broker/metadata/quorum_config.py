"""The quorum in a node's configuration: whether the node is the only voter, the voters, this node's endpoints.

    alone     the node is the only voter in controller.quorum.voters; if it is a broker too, its controller listener is
              not opened, and no other node can join its cluster, unless Node is called with joinable=True
    static    controller.quorum.voters: ids and addresses
    dynamic   controller.quorum.bootstrap.servers: addresses only; the voters are in the metadata log (KIP-853)

Source: QuorumConfig, KafkaRaftServer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.config.listeners import parse_bootstrap_server, parse_voter
from kcli.broker.metadata.config import MetadataLogConfig
from kcli.metadata.partition import from_uuid
from kcli.raft.voters import Endpoint

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.broker.config import BrokerConfig
    from kcli.broker.network.addresses import Addresses
    from kcli.raft.config import RaftConfig
    from kcli.raft.voters import Endpoints

VOTERS = "controller.quorum.voters"
BOOTSTRAP = "controller.quorum.bootstrap.servers"


def is_only_voter(config: BrokerConfig) -> bool:
    """Whether the node is the only voter of its quorum, and no voter can be added."""
    voters = {parse_voter(word)[0] for word in config.words(VOTERS)}
    return config.is_controller and voters == {config.node_id} and not config.words(BOOTSTRAP)


def own_endpoints(config: BrokerConfig) -> Endpoints:
    """Return this node's endpoints in controller.quorum.voters; empty if this node is none of these voters."""
    voters = map(parse_voter, config.words(VOTERS))
    listener = config.controller_listener_names[0]
    return tuple(Endpoint(listener, host, port) for voter, host, port in voters if voter == config.node_id)


def raft_config(config: BrokerConfig, directory_id: UUID, cluster_id: str, bound: Addresses) -> RaftConfig:
    """Return raft's configuration. directory_id: the directory id of metadata.log.dir. bound: controller listener ->
    the host and port for other nodes."""
    from kcli.raft.config import RaftConfig

    voters = {voter: (host, port) for voter, host, port in map(parse_voter, config.words(VOTERS))}
    return RaftConfig(
        node_id=config.node_id,
        directory_id=from_uuid(directory_id),
        cluster_id=cluster_id,
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


def metadata_config(config: BrokerConfig) -> MetadataLogConfig:
    """Return the configuration of the metadata log, taken from the node's."""
    internal = config.get("internal.metadata.log.segment.bytes")
    return MetadataLogConfig(
        segment_bytes=internal if isinstance(internal, int) else config.metadata_log_segment_bytes,
        segment_ms=config.metadata_log_segment_ms,
        max_record_bytes_between_snapshots=config.metadata_log_max_record_bytes_between_snapshots,
        max_snapshot_interval_ms=config.metadata_log_max_snapshot_interval_ms,
        max_retention_bytes=config.metadata_max_retention_bytes,
        max_retention_ms=config.metadata_max_retention_ms,
        max_idle_interval_ms=config.metadata_max_idle_interval_ms,
        min_insync_replicas=config.min_insync_replicas,
    )
