"""Raft's requests to other nodes as Kafka's messages, and the responses to them.

All requests are for partition 0 of `__cluster_metadata`. WIRES has their versions, which are those of Kafka 4.3: a node
without these versions cannot take part in the quorum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from kcli.log.partition_directory import METADATA_TOPIC_ID
from kcli.metadata.image import KRAFT_VERSION
from kcli.metadata.partition import to_uuid
from kcli.metadata.topic_names import CLUSTER_METADATA
from kcli.protocol.error_code import ErrorCode
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

if TYPE_CHECKING:
    from kcli.broker.wire.fetch_response import FetchResponse
    from kcli.broker.wire.types.add_raft_voter import AddRaftVoterResponse
    from kcli.broker.wire.types.api_versions import ApiVersionsResponse
    from kcli.broker.wire.types.fetch_snapshot import FetchSnapshotResponse
    from kcli.broker.wire.types.remove_raft_voter import RemoveRaftVoterResponse
    from kcli.broker.wire.types.update_raft_voter import UpdateRaftVoterResponse

Partition_co = TypeVar("Partition_co", covariant=True)
TOPIC_ID: Final = to_uuid(METADATA_TOPIC_ID)


class Wire(NamedTuple):
    """One kind of request to other nodes. api, version: those of Kafka's message. fields(request): returns the fields
    of the message for raft's request. answer(response, listener): returns raft's answer for Kafka's response; listener:
    the name of the listener of the leader's endpoints in the response."""

    api: str
    version: int
    fields: Callable[[Any], dict[str, Any]]
    answer: Callable[[Any, str], Answer]


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


# responses of the other nodes


class _Topic(Protocol[Partition_co]):
    @property
    def partitions(self) -> Sequence[Partition_co]: ...


class _Leader(Protocol):
    @property
    def leader_id(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...


class _LedPartition(_Leader, Protocol):
    @property
    def error_code(self) -> ErrorCode: ...


class _Led(Protocol):
    """The response to Vote, BeginQuorumEpoch or EndQuorumEpoch."""

    @property
    def error_code(self) -> ErrorCode: ...
    @property
    def topics(self) -> Sequence[_Topic[_LedPartition]]: ...


def _partition(topics: Iterable[_Topic[Partition_co]]) -> Partition_co | None:
    """Return the first partition; None if the response has none."""
    return next((partition for topic in topics for partition in topic.partitions), None)


def _common(response: object, code: ErrorCode, leader: _Leader, listener: str) -> dict[str, Any]:
    """Return the fields that a response and raft's answer (kcli.raft.messages.Answer) have in common. code: the error
    code of the response's partition. leader: the part of the response with leader_id and leader_epoch. listener: the
    name of the listener of the leader's endpoints."""
    endpoints = tuple(
        Endpoint(listener, each.host, each.port)
        for each in getattr(response, "node_endpoints", ())
        if each.node_id == leader.leader_id
    )
    error = ErrorCode(code)
    return {"error": error, "leader_id": leader.leader_id, "epoch": leader.leader_epoch, "endpoints": endpoints}


def _answer(make: Callable[..., Answer], fields: Callable[[Any], dict[str, Any]]) -> Callable[[_Led, str], Answer]:
    """Return a function that converts a response to raft's answer. make: the class of raft's answer. fields: a function
    that returns the answer's further fields, given the response's entry for the partition, which names the leader."""

    def read(response: _Led, listener: str) -> Answer:
        partition = _partition(response.topics)
        if response.error_code != ErrorCode.NONE or partition is None:
            return make(top_error=ErrorCode(response.error_code))
        return make(**_common(response, partition.error_code, partition, listener), **fields(partition))

    return read


def _fetched(response: FetchResponse, listener: str) -> Answer:
    partition = _partition(response.responses)
    if response.error_code != ErrorCode.NONE or partition is None:
        return FetchAnswer(top_error=ErrorCode(response.error_code))
    diverging, snapshot = partition.diverging_epoch, partition.snapshot_id
    return FetchAnswer(
        **_common(response, partition.error_code, partition.current_leader, listener),
        high_watermark=partition.high_watermark,
        log_start_offset=partition.log_start_offset,
        diverging=OffsetAndEpoch(diverging.end_offset, diverging.epoch) if diverging.epoch >= 0 else None,
        snapshot=OffsetAndEpoch(snapshot.end_offset, snapshot.epoch) if snapshot.epoch >= 0 else None,
        records=b"" if partition.records is None else partition.records,
    )


def _snapshot_fetched(response: FetchSnapshotResponse, listener: str) -> Answer:
    partition = _partition(response.topics)
    if response.error_code != ErrorCode.NONE or partition is None:
        return FetchSnapshotAnswer(top_error=ErrorCode(response.error_code))
    snapshot = partition.snapshot_id
    return FetchSnapshotAnswer(
        **_common(response, partition.error_code, partition.current_leader, listener),
        snapshot=OffsetAndEpoch(snapshot.end_offset, snapshot.epoch),
        size=partition.size,
        position=partition.position,
        data=partition.unaligned_records or b"",
    )


def _voter_changed(response: AddRaftVoterResponse | RemoveRaftVoterResponse, _: str) -> Answer:
    return VoterAnswer(top_error=ErrorCode(response.error_code), message=response.error_message)


def _updated(response: UpdateRaftVoterResponse, listener: str) -> Answer:
    leader = response.current_leader
    endpoints = (Endpoint(listener, leader.host, leader.port),) if leader.host else ()
    error = ErrorCode(response.error_code)
    return Answer(error=error, leader_id=leader.leader_id, epoch=leader.leader_epoch, endpoints=endpoints)


def _versions_answer(response: ApiVersionsResponse, _: str) -> Answer:
    found = {each.name: (each.min_version, each.max_version) for each in response.supported_features}
    return ApiVersionsAnswer(top_error=ErrorCode(response.error_code), kraft_versions=found.get(KRAFT_VERSION))


WIRES: Final[dict[type[Request], Wire]] = {
    Vote: Wire("vote", 2, _vote, _answer(VoteAnswer, lambda each: {"granted": each.vote_granted})),
    BeginQuorumEpoch: Wire("begin_quorum_epoch", 1, _begin, _answer(Answer, lambda _: {})),
    EndQuorumEpoch: Wire("end_quorum_epoch", 1, _end, _answer(Answer, lambda _: {})),
    Fetch: Wire("fetch", 18, _fetch, _fetched),
    FetchSnapshot: Wire("fetch_snapshot", 1, _fetch_snapshot, _snapshot_fetched),
    AddRaftVoter: Wire("add_raft_voter", 1, _add, _voter_changed),
    RemoveRaftVoter: Wire("remove_raft_voter", 0, _remove, _voter_changed),
    UpdateRaftVoter: Wire("update_raft_voter", 0, _update, _updated),
    ApiVersions: Wire("api_versions", 4, _versions, _versions_answer),
}
