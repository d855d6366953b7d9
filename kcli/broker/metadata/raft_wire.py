"""What raft says, in Kafka's messages: requests to send and the answers to them; requests received and their answers.

Everything is about partition 0 of `__cluster_metadata`; a request about anything else is INVALID_REQUEST. Between nodes
of 4.3 the versions are those in VERSIONS; what older ones lack is as if it were not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from formats.message import uuid_text
from kcli.broker.metadata.load import METADATA_TOPIC_ID
from kcli.broker.network.messages import Call, Entity, ErrorCode
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
from kcli.raft.voters import Endpoint, Endpoints, ReplicaKey, address, replica_key

TOPIC_ID: Final = to_uuid(METADATA_TOPIC_ID)
KRAFT_VERSION: Final = "kraft.version"


class InvalidRaftRequest(Exception):
    """About another partition than that of the metadata log, or about more than one."""


class Wire(NamedTuple):
    """How one request goes out: API, version, fields; and how its response is read."""

    api: str
    version: int
    fields: Callable[[Any], dict[str, Any]]
    answer: Callable[[Entity, str], Answer]


def _directory(replica: ReplicaKey | None) -> UUID | None:
    return None if replica is None or replica.directory_id is None else to_uuid(replica.directory_id)


def _key(node_id: int, directory: UUID | None) -> ReplicaKey:
    return replica_key(node_id, None if directory is None else uuid_text(directory.bytes))


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
    ApiVersions: Wire("api_versions", 3, _versions, _versions_told),
}


# requests received


def _only_partition(request: Entity, name: str, index: str) -> Any:
    topics = request.topics
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise InvalidRaftRequest
    partition = topics[0].partitions[0]
    if getattr(topics[0], name) not in (CLUSTER_METADATA, TOPIC_ID) or getattr(partition, index) != 0:
        raise InvalidRaftRequest
    return partition


def _voter(call: Call, partition: Any) -> ReplicaKey | None:
    voter_id = call.get("voter_id", -1)
    return None if voter_id < 0 else _key(voter_id, getattr(partition, "voter_directory_id", None))


def _endpoints(listeners: Any) -> Endpoints:
    return tuple(Endpoint(each.name, each.host, each.port) for each in listeners)


def vote_of(call: Call) -> Vote:
    """Raises InvalidRaftRequest, as the others do."""
    partition = _only_partition(call.request, "topic_name", "partition_index")
    # version 2 has new names for two fields
    epoch = partition.replica_epoch if call.version >= 2 else partition.candidate_epoch
    node_id = partition.replica_id if call.version >= 2 else partition.candidate_id
    directory = getattr(partition, "replica_directory_id", getattr(partition, "candidate_directory_id", None))
    return Vote(
        cluster_id=call.request.cluster_id,
        voter=_voter(call, partition),
        replica=_key(node_id, directory),
        epoch=epoch,
        last=OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch),
        pre_vote=getattr(partition, "pre_vote", False),
    )


def begin_of(call: Call) -> BeginQuorumEpoch:
    """See vote_of."""
    partition = _only_partition(call.request, "topic_name", "partition_index")
    return BeginQuorumEpoch(
        cluster_id=call.request.cluster_id,
        voter=_voter(call, partition),
        leader_id=partition.leader_id,
        epoch=partition.leader_epoch,
        endpoints=_endpoints(call.get("leader_endpoints", ())),
    )


def end_of(call: Call) -> EndQuorumEpoch:
    """See vote_of."""
    partition = _only_partition(call.request, "topic_name", "partition_index")
    if call.version:
        successors = [_key(each.candidate_id, each.candidate_directory_id) for each in partition.preferred_candidates]
    else:
        successors = [ReplicaKey(each) for each in partition.preferred_successors]
    return EndQuorumEpoch(
        cluster_id=call.request.cluster_id,
        leader_id=partition.leader_id,
        epoch=partition.leader_epoch,
        preferred_successors=successors,
        endpoints=_endpoints(call.get("leader_endpoints", ())),
    )


NO_HIGH_WATERMARK: Final = (1 << 63) - 1


def fetch_of(call: Call) -> Fetch:
    """See vote_of."""
    request = call.request
    name = "topic_id" if hasattr(request.topics[0] if request.topics else None, "topic_id") else "topic"
    partition = _only_partition(request, name, "partition")
    state = getattr(request, "replica_state", None)
    replica_id = request.replica_id if state is None else state.replica_id
    high_watermark = getattr(partition, "high_watermark", NO_HIGH_WATERMARK)
    return Fetch(
        cluster_id=getattr(request, "cluster_id", None),
        replica=_key(replica_id, getattr(partition, "replica_directory_id", None)),
        epoch=partition.current_leader_epoch,
        offset=partition.fetch_offset,
        last_fetched_epoch=partition.last_fetched_epoch,
        high_watermark=high_watermark,
        max_wait_ms=round(request.max_wait.total_seconds() * 1000),
        max_bytes=request.max_bytes,
    )


def fetch_snapshot_of(call: Call) -> FetchSnapshot:
    """See vote_of."""
    partition = _only_partition(call.request, "name", "partition")
    return FetchSnapshot(
        cluster_id=call.request.cluster_id,
        replica=_key(call.request.replica_id, getattr(partition, "replica_directory_id", None)),
        epoch=partition.current_leader_epoch,
        snapshot=OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=call.request.max_bytes,
    )


def add_of(call: Call) -> AddRaftVoter:
    """AddRaftVoter as it came."""
    request = call.request
    return AddRaftVoter(
        cluster_id=request.cluster_id,
        voter=_key(request.voter_id, request.voter_directory_id),
        endpoints=_endpoints(request.listeners),
        timeout_ms=round(request.timeout.total_seconds() * 1000),
        ack_when_committed=call.get("ack_when_committed", True),
    )


def remove_of(call: Call) -> RemoveRaftVoter:
    """RemoveRaftVoter as it came."""
    voter = _key(call.request.voter_id, call.request.voter_directory_id)
    return RemoveRaftVoter(cluster_id=call.request.cluster_id, voter=voter)


def update_of(call: Call) -> UpdateRaftVoter:
    """UpdateRaftVoter as it came."""
    request = call.request
    return UpdateRaftVoter(
        cluster_id=request.cluster_id,
        epoch=request.current_leader_epoch,
        voter=_key(request.voter_id, request.voter_directory_id),
        endpoints=_endpoints(request.listeners),
        min_version=request.k_raft_version_feature.min_supported_version,
        max_version=request.k_raft_version_feature.max_supported_version,
    )


# the answers to these


def _wire(code: RaftCode) -> ErrorCode:
    return ErrorCode(code.value)


def _nodes(call: Call, answer: Answer) -> tuple[Entity, ...]:
    """Where the leader is reached, by the listener through which the request came."""
    found = address(answer.endpoints, call.listener)
    if found is None or answer.leader_id < 0 or not call.has(call.messages.response_name, "node_endpoints"):
        return ()
    return (call.new("NodeEndpoint", node_id=answer.leader_id, host=found.host, port=found.port),)


def _respond(call: Call, answer: Answer, **partition: Any) -> Entity:
    if answer.top_error is not RaftCode.NONE:
        return call.respond(error_code=_wire(answer.top_error), topics=(), node_endpoints=())
    found = call.new(
        "PartitionData",
        partition_index=0,
        error_code=_wire(answer.error),
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
        **partition,
    )
    topics = (call.new("TopicData", topic_name=CLUSTER_METADATA, partitions=(found,)),)
    return call.respond(error_code=ErrorCode.none, topics=topics, node_endpoints=_nodes(call, answer))


def vote_response(call: Call, answer: Answer) -> Entity:
    """The response to Vote."""
    return _respond(call, answer, vote_granted=isinstance(answer, VoteAnswer) and answer.granted)


def epoch_response(call: Call, answer: Answer) -> Entity:
    """The response to BeginQuorumEpoch and EndQuorumEpoch."""
    return _respond(call, answer)


def fetch_response(call: Call, answer: Answer) -> Entity:
    """The response to Fetch."""
    assert isinstance(answer, FetchAnswer), "of Fetch"
    if answer.top_error is not RaftCode.NONE:
        return call.respond(error_code=_wire(answer.top_error), session_id=0, responses=())
    tagged: dict[str, Any] = {}
    if answer.diverging is not None:
        epoch, end_offset = answer.diverging.epoch, answer.diverging.offset
        tagged["diverging_epoch"] = call.new("EpochEndOffset", epoch=epoch, end_offset=end_offset)
    if answer.snapshot is not None:
        epoch, end_offset = answer.snapshot.epoch, answer.snapshot.offset
        tagged["snapshot_id"] = call.new("SnapshotId", epoch=epoch, end_offset=end_offset)
    leader = call.new("LeaderIdAndEpoch", leader_id=answer.leader_id, leader_epoch=answer.epoch)
    partition = call.new(
        "PartitionData",
        partition_index=0,
        error_code=_wire(answer.error),
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        current_leader=leader,
        aborted_transactions=None,
        records=bytes(answer.records),
        **tagged,
    )
    topic = call.new("FetchableTopicResponse", topic_id=TOPIC_ID, topic=CLUSTER_METADATA, partitions=(partition,))
    nodes = _nodes(call, answer)
    return call.respond(error_code=ErrorCode.none, session_id=0, responses=(topic,), node_endpoints=nodes)


def fetch_snapshot_response(call: Call, answer: Answer) -> Entity:
    """The response to FetchSnapshot."""
    assert isinstance(answer, FetchSnapshotAnswer), "of FetchSnapshot"
    if answer.top_error is not RaftCode.NONE:
        return call.respond(error_code=_wire(answer.top_error), topics=())
    snapshot = answer.snapshot or OffsetAndEpoch(-1, -1)
    partition = call.new(
        "PartitionSnapshot",
        index=0,
        error_code=_wire(answer.error),
        snapshot_id=call.new("SnapshotId", end_offset=snapshot.offset, epoch=snapshot.epoch),
        current_leader=call.new("LeaderIdAndEpoch", leader_id=answer.leader_id, leader_epoch=answer.epoch),
        size=answer.size,
        position=answer.position,
        unaligned_records=bytes(answer.data),
    )
    topics = (call.new("TopicSnapshot", name=CLUSTER_METADATA, partitions=(partition,)),)
    return call.respond(error_code=ErrorCode.none, topics=topics, node_endpoints=_nodes(call, answer))


def voter_response(call: Call, answer: Answer) -> Entity:
    """The response to AddRaftVoter and RemoveRaftVoter."""
    message = answer.message if isinstance(answer, VoterAnswer) else None
    return call.respond(error_code=_wire(answer.top_error), error_message=message)


def update_response(call: Call, answer: Answer) -> Entity:
    """The response to UpdateRaftVoter."""
    found = address(answer.endpoints, call.listener)
    host, port = ("", 0) if found is None else (found.host, found.port)
    leader = call.new("CurrentLeader", leader_id=answer.leader_id, leader_epoch=answer.epoch, host=host, port=port)
    return call.respond(error_code=_wire(answer.error), current_leader=leader)
