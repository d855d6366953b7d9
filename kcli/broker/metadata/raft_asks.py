"""What raft asks other nodes, in Kafka's messages, and what they answer.

Everything is about partition 0 of `__cluster_metadata`. The versions are those of 4.3, in WIRES: a node that does not
speak them cannot take part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kcli.broker.metadata.load import METADATA_TOPIC_ID
from kcli.broker.network.messages import Entity, ErrorCode
from kcli.metadata.image import KRAFT_VERSION
from kcli.metadata.partition import to_uuid
from kcli.metadata.topic_names import CLUSTER_METADATA
from kcli.raft.errors import ErrorCode as RaftCode
from kcli.raft.messages import (
    AddRaftVoter,
    Answer,
    ApiVersions,
    ApiVersionsAnswer,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    OffsetAndEpoch,
    RemoveRaftVoter,
    Request,
    UpdateRaftVoter,
    Vote,
    VoteAnswer,
    VoterAnswer,
)
from kcli.raft.voters import Endpoint, Endpoints, ReplicaKey

TOPIC_ID: Final = to_uuid(METADATA_TOPIC_ID)


class Wire(NamedTuple):
    """How one request goes out: API, version, fields; and how its response is read, with the listener's name."""

    api: str
    version: int
    fields: Callable[[Any], dict[str, Any]]
    answer: Callable[[Entity, str], Answer]


def _directory(replica: ReplicaKey | None) -> UUID | None:
    return None if replica is None or replica.directory_id is None else to_uuid(replica.directory_id)


def _topic(name: str, partition: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{name: CLUSTER_METADATA, "partitions": [partition]}]


def _named(endpoints: Endpoints) -> list[dict[str, Any]]:
    return [{"name": each.listener, "host": each.host, "port": each.port} for each in endpoints]


# requests to send


def _vote(request: Vote) -> dict[str, Any]:
    partition = {
        "partition_index": 0,
        "replica_epoch": request.epoch,
        "replica_id": request.replica.id,
        "replica_directory_id": _directory(request.replica),
        "voter_directory_id": _directory(request.voter),
        "last_offset_epoch": request.last.epoch,
        "last_offset": request.last.offset,
        "pre_vote": request.pre_vote,
    }
    voter_id = -1 if request.voter is None else request.voter.id
    return {"cluster_id": request.cluster_id, "voter_id": voter_id, "topics": _topic("topic_name", partition)}


def _begin(request: BeginQuorumEpoch) -> dict[str, Any]:
    partition = {
        "partition_index": 0,
        "voter_directory_id": _directory(request.voter),
        "leader_id": request.leader_id,
        "leader_epoch": request.epoch,
    }
    return {
        "cluster_id": request.cluster_id,
        "voter_id": -1 if request.voter is None else request.voter.id,
        "topics": _topic("topic_name", partition),
        "leader_endpoints": _named(request.endpoints),
    }


def _end(request: EndQuorumEpoch) -> dict[str, Any]:
    successors = [
        {"candidate_id": each.id, "candidate_directory_id": _directory(each)} for each in request.preferred_successors
    ]
    partition = {
        "partition_index": 0,
        "leader_id": request.leader_id,
        "leader_epoch": request.epoch,
        "preferred_candidates": successors,
    }
    topics, endpoints = _topic("topic_name", partition), _named(request.endpoints)
    return {"cluster_id": request.cluster_id, "topics": topics, "leader_endpoints": endpoints}


def _fetch(request: Fetch) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": request.epoch,
        "fetch_offset": request.offset,
        "last_fetched_epoch": request.last_fetched_epoch,
        "partition_max_bytes": 0,
        "replica_directory_id": _directory(request.replica),
        "high_watermark": request.high_watermark,
    }
    return {
        "cluster_id": request.cluster_id,
        "replica_state": {"replica_id": request.replica.id},
        "max_wait": request.max_wait_ms,
        "min_bytes": 0,
        "max_bytes": request.max_bytes,
        "topics": [{"topic_id": TOPIC_ID, "partitions": [partition]}],
    }


def _fetch_snapshot(request: FetchSnapshot) -> dict[str, Any]:
    partition = {
        "partition": 0,
        "current_leader_epoch": request.epoch,
        "snapshot_id": {"end_offset": request.snapshot.offset, "epoch": request.snapshot.epoch},
        "position": request.position,
        "replica_directory_id": _directory(request.replica),
    }
    return {
        "cluster_id": request.cluster_id,
        "replica_id": request.replica.id,
        "max_bytes": request.max_bytes,
        "topics": _topic("name", partition),
    }


def _add(request: AddRaftVoter) -> dict[str, Any]:
    return {
        "cluster_id": request.cluster_id,
        "timeout": request.timeout_ms,
        "voter_id": request.voter.id,
        "voter_directory_id": _directory(request.voter),
        "listeners": _named(request.endpoints),
        "ack_when_committed": request.ack_when_committed,
    }


def _remove(request: RemoveRaftVoter) -> dict[str, Any]:
    directory = _directory(request.voter)
    return {"cluster_id": request.cluster_id, "voter_id": request.voter.id, "voter_directory_id": directory}


def _update(request: UpdateRaftVoter) -> dict[str, Any]:
    versions = {"min_supported_version": request.min_version, "max_supported_version": request.max_version}
    return {
        "cluster_id": request.cluster_id,
        "current_leader_epoch": request.epoch,
        "voter_id": request.voter.id,
        "voter_directory_id": _directory(request.voter),
        "listeners": _named(request.endpoints),
        "k_raft_version_feature": versions,
    }


def _versions(_: ApiVersions) -> dict[str, Any]:
    return {"client_software_name": "kcli", "client_software_version": "4.3"}


# the answers to them


def _code(code: ErrorCode) -> RaftCode:
    return RaftCode(code.value)


def _partition(response: Entity, items: str = "topics") -> Any:
    for topic in getattr(response, items):
        for partition in topic.partitions:
            return partition
    return None


def _common(response: Entity, partition: Any, leader: Any, listener: str) -> dict[str, Any]:
    """Fields that all answers have. leader: what has leader_id and leader_epoch."""
    endpoints = tuple(
        Endpoint(listener, each.host, each.port)
        for each in getattr(response, "node_endpoints", ())
        if each.node_id == leader.leader_id
    )
    error = _code(partition.error_code)
    return {"error": error, "leader_id": leader.leader_id, "epoch": leader.leader_epoch, "endpoints": endpoints}


def _answer(make: Callable[..., Answer], fields: Callable[[Any], dict[str, Any]]) -> Callable[[Entity, str], Answer]:
    """An answer with its leader in the partition, and more `fields` of that."""

    def read(response: Entity, listener: str) -> Answer:
        partition = _partition(response)
        if response.error_code.value or partition is None:
            return make(top_error=_code(response.error_code))
        return make(**_common(response, partition, partition, listener), **fields(partition))

    return read


def _fetched(response: Entity, listener: str) -> Answer:
    partition = _partition(response, "responses")
    if response.error_code.value or partition is None:
        return FetchAnswer(top_error=_code(response.error_code))
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return FetchAnswer(
        **_common(response, partition, partition.current_leader, listener),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging=OffsetAndEpoch(diverging.end_offset, diverging.epoch) if diverging.epoch >= 0 else None,
        snapshot=OffsetAndEpoch(snapshot.end_offset, snapshot.epoch) if snapshot.epoch >= 0 else None,
        records=b"" if partition.records is None else partition.records,
    )


def _snapshot_fetched(response: Entity, listener: str) -> Answer:
    partition = _partition(response)
    if response.error_code.value or partition is None:
        return FetchSnapshotAnswer(top_error=_code(response.error_code))
    snapshot = partition.snapshot_id
    return FetchSnapshotAnswer(
        **_common(response, partition, partition.current_leader, listener),
        snapshot=OffsetAndEpoch(snapshot.end_offset, snapshot.epoch),
        size=partition.size,
        position=partition.position,
        data=partition.unaligned_records or b"",
    )


def _voter_changed(response: Entity, _: str) -> Answer:
    return VoterAnswer(top_error=_code(response.error_code), message=response.error_message)


def _updated(response: Entity, listener: str) -> Answer:
    leader = response.current_leader
    endpoints = (Endpoint(listener, leader.host, leader.port),) if leader.host else ()
    error = _code(response.error_code)
    return Answer(error=error, leader_id=leader.leader_id, epoch=leader.leader_epoch, endpoints=endpoints)


def _versions_told(response: Entity, _: str) -> Answer:
    found = {each.name: (each.min_version, each.max_version) for each in response.supported_features}
    return ApiVersionsAnswer(top_error=_code(response.error_code), kraft_versions=found.get(KRAFT_VERSION))


WIRES: Final[dict[type[Request], Wire]] = {
    Vote: Wire("vote", 2, _vote, _answer(VoteAnswer, lambda each: {"granted": each.vote_granted})),
    BeginQuorumEpoch: Wire("begin_quorum_epoch", 1, _begin, _answer(Answer, lambda _: {})),
    EndQuorumEpoch: Wire("end_quorum_epoch", 1, _end, _answer(Answer, lambda _: {})),
    Fetch: Wire("fetch", 18, _fetch, _fetched),
    FetchSnapshot: Wire("fetch_snapshot", 1, _fetch_snapshot, _snapshot_fetched),
    AddRaftVoter: Wire("add_raft_voter", 1, _add, _voter_changed),
    RemoveRaftVoter: Wire("remove_raft_voter", 0, _remove, _voter_changed),
    UpdateRaftVoter: Wire("update_raft_voter", 0, _update, _updated),
    ApiVersions: Wire("api_versions", 4, _versions, _versions_told),
}
