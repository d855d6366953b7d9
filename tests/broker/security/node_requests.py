"""The requests of nodes, sent by an attacker who has logged in as an ordinary user. Their epochs and ids are valid, so
that only the user's rights stand in their way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kcli.broker.wire.apis import APIS, BROKER_APIS, CONTROLLER_APIS
from tests.broker.running import Client, Closed, api_key
from tests.broker.security.access import compared
from tests.broker.security.access_cases import Question, questions
from tests.metadata.record_answers import resolved

METADATA = "__cluster_metadata"
METADATA_ID = "A" * 21 + "Q"
ZERO_ID = "A" * 22
ANY_ID = "MkU3OEVBNTcwNTJENDM2Qg"


class NodeRequest(NamedTuple):
    """A request. what: tells it apart where an API has several."""

    api: str
    version: int
    request: dict[str, Any]
    what: str = ""

    def __str__(self) -> str:
        return f"{self.api} {self.version} {self.what}".strip()


class Target(NamedTuple):
    """The subject of the requests. topic_id: of the topic whose partition 0 is led by `leader` in `leader_epoch`.
    broker: another broker, which the requests claim to come from, with its epoch. quorum_epoch: of the metadata log."""

    topic: str
    topic_id: UUID | str
    leader: int
    leader_epoch: int
    broker: int
    broker_epoch: int
    quorum_epoch: int


def node_requests(target: Target) -> Iterator[NodeRequest]:
    """Return the requests of all listeners, in the newest version, or in an older one with more fields."""
    requests: list[tuple[str, dict[str, Any]]] = [*_of_brokers(target), *_of_controllers(target)]
    for api, request in requests:
        yield NodeRequest(api, APIS[api_key(api)].most, request)
    yield from _fetches(target)
    named = {"name": target.topic, "partition_indexes": [0]}
    marker = {"producer_id": 1, "producer_epoch": 0, "transaction_result": True, "coordinator_epoch": 0}
    yield NodeRequest("write_txn_markers", 1, {"markers": [{**marker, "topics": [named]}]})


def _fetches(target: Target) -> Iterator[NodeRequest]:
    """Fetches that claim to be a follower's; an accepted one would move the high watermark."""
    limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": 1000, "isolation_level": 0, "rack_id": ""}
    limits |= {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": []}
    part = {"partition": 0, "fetch_offset": 1_000, "partition_max_bytes": 1000, "log_start_offset": -1}
    part |= {"current_leader_epoch": target.leader_epoch, "last_fetched_epoch": -1}
    named = [{"topic": target.topic, "partitions": [part]}]
    yield NodeRequest("fetch", 12, {**limits, "replica_id": target.broker, "topics": named}, "by name")
    follower = {"replica_id": target.broker, "replica_epoch": target.broker_epoch}
    by_id = [{"topic_id": target.topic_id, "partitions": [part]}]
    yield NodeRequest("fetch", 17, {**limits, "replica_state": follower, "topics": by_id}, "by id")
    log = {**part, "current_leader_epoch": target.quorum_epoch, "fetch_offset": 0, "last_fetched_epoch": 0}
    by_id = [{"topic_id": METADATA_ID, "partitions": [log]}]
    yield NodeRequest("fetch", 17, {**limits, "replica_state": follower, "topics": by_id}, "of the metadata log")


def _of_brokers(target: Target) -> Iterator[tuple[str, dict[str, Any]]]:
    """From a broker to the active controller."""
    broker = {"broker_id": target.broker, "broker_epoch": target.broker_epoch}
    alone = [{"broker_id": target.leader, "broker_epoch": target.broker_epoch}]
    isr = {"partition_index": 0, "leader_epoch": target.leader_epoch, "new_isr_with_epochs": alone}
    isr |= {"leader_recovery_state": 0, "partition_epoch": 0}
    topics = [{"topic_id": target.topic_id, "partitions": [isr]}]
    moved = [{"topic_id": target.topic_id, "partitions": [{"partition_index": 0}]}]
    yield "allocate_producer_ids", broker
    yield "alter_partition", {**broker, "topics": topics}
    yield "assign_replicas_to_dirs", {**broker, "directories": [{"id_": ANY_ID, "topics": moved}]}
    yield "broker_heartbeat", {**broker, "current_metadata_offset": 0, "want_fence": True, "want_shut_down": True}
    listed: dict[str, list[Any]] = {"listeners": [], "features": []}
    registered = {"broker_id": 9, "cluster_id": ANY_ID, "incarnation_id": ANY_ID, "rack": None, "log_dirs": []}
    yield "broker_registration", {**registered, **listed}
    yield "controller_registration", {
        "controller_id": 9, "incarnation_id": ANY_ID, "zk_migration_ready": False, **listed,
    }  # fmt: skip
    yield "envelope", {"request_data": b"", "request_principal": b"", "client_host_address": bytes(4)}


def _of_controllers(target: Target) -> Iterator[tuple[str, dict[str, Any]]]:
    """Requests between voters that would make the attacker's node leader of the metadata log in the next epoch."""
    epoch = target.quorum_epoch + 1

    def of_log(**partition: Any) -> list[dict[str, Any]]:
        return [{"topic_name": METADATA, "partitions": [{"partition_index": 0, **partition}]}]

    ballot = {"replica_epoch": epoch, "replica_id": target.broker, "replica_directory_id": ZERO_ID, "pre_vote": False}
    ballot |= {"voter_directory_id": ZERO_ID, "last_offset_epoch": epoch, "last_offset": 1 << 40}
    yield "vote", {"cluster_id": None, "voter_id": target.leader, "topics": of_log(**ballot)}
    led = {"leader_id": target.broker, "leader_epoch": epoch}
    begun = of_log(**led, voter_directory_id=ZERO_ID)
    yield "begin_quorum_epoch", {"cluster_id": None, "voter_id": 1, "topics": begun, "leader_endpoints": []}
    ended = of_log(**led, preferred_candidates=[])
    yield "end_quorum_epoch", {"cluster_id": None, "topics": ended, "leader_endpoints": []}
    snapshot: dict[str, Any] = {"partition": 0, "current_leader_epoch": target.quorum_epoch, "position": 0}
    snapshot |= {"snapshot_id": {"end_offset": 1, "epoch": 1}}
    topics = [{"name": METADATA, "partitions": [snapshot]}]
    yield "fetch_snapshot", {"cluster_id": None, "replica_id": target.broker, "max_bytes": 1, "topics": topics}
    voter = {"cluster_id": None, "current_leader_epoch": target.quorum_epoch, "voter_id": 9}
    features = {"k_raft_version_feature": {"min_supported_version": 0, "max_supported_version": 1}}
    yield "update_raft_voter", {**voter, "voter_directory_id": ANY_ID, "listeners": [], **features}


def answers(connect: Callable[[], Client], requests: Iterable[NodeRequest]) -> dict[str, Any]:
    """Return what a user is answered, without what differs between nodes; "closed" for a closed connection. connect:
    makes a connection that is logged in."""
    found: dict[str, Any] = {}
    client = connect()
    for each in requests:
        try:
            found[str(each)] = compared(client.call(each.api, each.version, **each.request), {})
        except (Closed, ConnectionError):
            found[str(each)] = "closed"
            client.socket.close()
            client = connect()
    client.socket.close()
    return found


def codes(found: Any) -> Iterator[int]:
    """All error codes in an answer."""
    if isinstance(found, dict):
        for name, value in found.items():
            if "error_code" in name:
                yield value
            else:
                yield from codes(value)
    elif isinstance(found, Sequence) and not isinstance(found, str):
        for value in found:
            yield from codes(value)


def of_listener(requests: Iterable[NodeRequest], listener: str) -> list[NodeRequest]:
    """Return the requests of the APIs that a listener has, and two of controllers' APIs that brokers' listeners
    lack."""
    if listener == "CONTROLLER":
        return [each for each in requests if api_key(each.api) in CONTROLLER_APIS]
    return [each for each in requests if api_key(each.api) in BROKER_APIS or each.api in ("envelope", "vote")]


def at_controllers() -> list[Question]:
    """Return the questions of access_cases.py that concern controllers too, and the requests of nodes."""
    both = {each.name for each in CONTROLLER_APIS.values()}
    ids = dict.fromkeys("mnptuvwxyz", ANY_ID)
    asked = [(api, version, resolved(request, ids)) for api, version, request in questions() if api in both]
    target = Target("a", ANY_ID, 1, 0, 2, 1, 1)
    return [*asked, *(each[:3] for each in of_listener(node_requests(target), "CONTROLLER"))]


def of_few_rights(topic: str) -> list[Question]:
    """Return requests to a controller of a user with all rights on that topic and on those with its first letter: first
    about other topics, then about both."""
    may, may_not, missing = topic, "t", f"{topic[0]}-missing"
    new = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    config = {"name": "retention.ms", "value": "5000"}
    found: list[Question] = []
    operations: dict[str, dict[str, int]] = {"alter_configs": {}, "incremental_alter_configs": {"config_operation": 0}}
    for names in ((may_not,), (may_not, may_not), (may_not, "__cluster_metadata"), (missing,), (may_not, may)):
        named = [{"name": each, "topic_id": None} for each in names]
        found.append(("delete_topics", 6, {"topics": named, "timeout": 1000}))
        wanted = [{"name": each, **new} for each in names]
        found.append(("create_topics", 7, {"topics": wanted, "timeout": 1000, "validate_only": True}))
        more = [{"name": each, "count": 9, "assignments": None} for each in names]
        found.append(("create_partitions", 3, {"topics": more, "timeout": 1000, "validate_only": True}))
        for api, operation in operations.items():
            changed = {"resource_type": 2, "configs": [{**config, **operation}]}
            resources = [{**changed, "resource_name": each} for each in dict.fromkeys(names)]
            found.append((api, APIS[api_key(api)].most, {"resources": resources, "validate_only": True}))
    return found
