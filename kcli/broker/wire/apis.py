"""Every API that a node speaks, with its versions: exactly those of Kafka 4.3.

    on        which listeners accept its requests: those of brokers, of controllers, or both
    forwards  only the active controller handles its requests; a broker forwards them to that node (Envelope)

The handler of an API is the function with the API's name in kcli/broker/api, in a module of the same name. Source:
ApiKeys, the `validVersions` and `listeners` of Kafka's messages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

BROKERS, CONTROLLERS, BOTH = "brokers", "controllers", "both"


@dataclass(frozen=True, slots=True)
class Api:
    """An API key, with its versions from `least` to `most`, of which those from `flexible` on are flexible. name: the
    name of its handler. on, forwards: see the module's docstring."""

    key: int
    name: str
    least: int
    most: int
    flexible: int
    writes: bool = False  # whether a read-only broker refuses its requests
    on: str = BROKERS
    forwards: bool = False

    @property
    def advertised_least(self) -> int:
        """The lowest version in an ApiVersions response. This is 0 for Produce, although only versions from 3 on are
        served: librdkafka up to 2.3 does not work with brokers that do not offer Produce 0 (KIP-896)."""
        return 0 if self.key == 0 else self.least


_APIS = (
    Api(0, "produce", 3, 13, 9, writes=True),
    Api(1, "fetch", 4, 18, 12, on=BOTH),
    Api(2, "list_offsets", 1, 11, 6),
    Api(3, "metadata", 0, 13, 9),
    Api(8, "offset_commit", 2, 10, 8, writes=True),
    Api(9, "offset_fetch", 1, 10, 6),
    Api(10, "find_coordinator", 0, 6, 3),
    Api(11, "join_group", 0, 9, 6, writes=True),
    Api(12, "heartbeat", 0, 4, 4, writes=True),
    Api(13, "leave_group", 0, 5, 4, writes=True),
    Api(14, "sync_group", 0, 5, 4, writes=True),
    Api(15, "describe_groups", 0, 6, 5),
    Api(16, "list_groups", 0, 5, 3),
    Api(17, "sasl_handshake", 0, 1, 2, on=BOTH),
    Api(18, "api_versions", 0, 4, 3, on=BOTH),
    Api(19, "create_topics", 2, 7, 5, writes=True, on=BOTH, forwards=True),
    Api(20, "delete_topics", 1, 6, 4, writes=True, on=BOTH, forwards=True),
    Api(21, "delete_records", 0, 2, 2, writes=True),
    Api(22, "init_producer_id", 0, 5, 2, writes=True),
    Api(23, "offset_for_leader_epoch", 2, 4, 4),
    Api(24, "add_partitions_to_txn", 0, 5, 3),
    Api(25, "add_offsets_to_txn", 0, 4, 3),
    Api(26, "end_txn", 0, 5, 3),
    Api(27, "write_txn_markers", 1, 2, 1, writes=True),
    Api(28, "txn_offset_commit", 0, 5, 3),
    Api(29, "describe_acls", 1, 3, 2, on=BOTH),
    Api(30, "create_acls", 1, 3, 2, on=BOTH, forwards=True),
    Api(31, "delete_acls", 1, 3, 2, on=BOTH, forwards=True),
    Api(32, "describe_configs", 1, 4, 4, on=BOTH),
    Api(33, "alter_configs", 0, 2, 2, writes=True, on=BOTH, forwards=True),
    Api(34, "alter_replica_log_dirs", 1, 2, 2, writes=True),
    Api(35, "describe_log_dirs", 1, 5, 2),
    Api(36, "sasl_authenticate", 0, 2, 2, on=BOTH),
    Api(37, "create_partitions", 0, 3, 2, writes=True, on=BOTH, forwards=True),
    Api(38, "create_delegation_token", 1, 3, 2, writes=True, on=BOTH, forwards=True),
    Api(39, "renew_delegation_token", 1, 2, 2, writes=True, on=BOTH, forwards=True),
    Api(40, "expire_delegation_token", 1, 2, 2, writes=True, on=BOTH, forwards=True),
    Api(41, "describe_delegation_token", 1, 3, 2),
    Api(42, "delete_groups", 0, 2, 2, writes=True),
    Api(43, "elect_leaders", 0, 2, 2, writes=True, on=BOTH, forwards=True),
    Api(44, "incremental_alter_configs", 0, 1, 1, writes=True, on=BOTH, forwards=True),
    Api(45, "alter_partition_reassignments", 0, 1, 0, writes=True, on=BOTH, forwards=True),
    Api(46, "list_partition_reassignments", 0, 0, 0, on=BOTH, forwards=True),
    Api(47, "offset_delete", 0, 0, 1, writes=True),
    Api(48, "describe_client_quotas", 0, 1, 1),
    Api(49, "alter_client_quotas", 0, 1, 1, writes=True, on=BOTH, forwards=True),
    Api(50, "describe_user_scram_credentials", 0, 0, 0, on=BOTH),
    Api(51, "alter_user_scram_credentials", 0, 0, 0, writes=True, on=BOTH, forwards=True),
    Api(52, "vote", 0, 2, 0, on=CONTROLLERS),
    Api(53, "begin_quorum_epoch", 0, 1, 1, on=CONTROLLERS),
    Api(54, "end_quorum_epoch", 0, 1, 1, on=CONTROLLERS),
    Api(55, "describe_quorum", 0, 2, 0, on=BOTH, forwards=True),
    Api(56, "alter_partition", 2, 3, 0, writes=True, on=CONTROLLERS),
    Api(57, "update_features", 0, 2, 0, writes=True, on=BOTH, forwards=True),
    Api(58, "envelope", 0, 0, 0, on=CONTROLLERS),
    Api(59, "fetch_snapshot", 0, 1, 0, on=CONTROLLERS),
    Api(60, "describe_cluster", 0, 2, 0, on=BOTH),
    Api(61, "describe_producers", 0, 0, 0),
    Api(62, "broker_registration", 0, 4, 0, writes=True, on=CONTROLLERS),
    Api(63, "broker_heartbeat", 0, 2, 0, writes=True, on=CONTROLLERS),
    Api(64, "unregister_broker", 0, 0, 0, writes=True, on=BOTH, forwards=True),
    Api(65, "describe_transactions", 0, 0, 0),
    Api(66, "list_transactions", 0, 2, 0),
    Api(67, "allocate_producer_ids", 0, 0, 0, writes=True, on=CONTROLLERS),
    Api(68, "consumer_group_heartbeat", 0, 1, 0, writes=True),
    Api(69, "consumer_group_describe", 0, 1, 0),
    Api(70, "controller_registration", 0, 0, 0, writes=True, on=CONTROLLERS),
    Api(73, "assign_replicas_to_dirs", 0, 0, 0, writes=True, on=CONTROLLERS),
    Api(74, "list_config_resources", 0, 1, 0),
    Api(75, "describe_topic_partitions", 0, 0, 0),
    Api(80, "add_raft_voter", 0, 1, 0, writes=True, on=BOTH, forwards=True),
    Api(81, "remove_raft_voter", 0, 0, 0, writes=True, on=BOTH, forwards=True),
    Api(82, "update_raft_voter", 0, 0, 0, on=CONTROLLERS),
)
APIS = {api.key: api for api in _APIS}
BROKER_APIS = {api.key: api for api in _APIS if api.on != CONTROLLERS}
"""The APIs whose requests a broker's listeners accept, by key."""
CONTROLLER_APIS = {api.key: replace(api, on=CONTROLLERS) for api in _APIS if api.on != BROKERS}
"""The APIs whose requests a controller's listeners accept, by key."""
LOOKED_AT_FIRST = frozenset((33, 38, 39, 40, 44))
"""The API keys of requests that the receiving broker handles before it forwards them: AlterConfigs and
IncrementalAlterConfigs, as each broker changes its own loggers (controller/config_admin.py); CreateDelegationToken,
RenewDelegationToken and ExpireDelegationToken, as not every connection may send them (controller/token_admin.py)."""


def is_flexible(api_key: int, version: int) -> bool:
    """Whether requests of that version have tagged fields, also in their header; False for an unknown key."""
    api = APIS.get(api_key)
    return api is not None and version >= api.flexible
