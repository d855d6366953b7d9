"""Other nodes' requests to raft, read from Kafka's messages, and raft's responses as Kafka's messages.

A request for another partition than 0 of `__cluster_metadata` is refused with INVALID_REQUEST. Fields that an older
version lacks count as unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar
from uuid import UUID

from formats.message import uuid_text
from kcli.broker.metadata.raft_requests import TOPIC_ID
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import Message
from kcli.metadata.topic_names import CLUSTER_METADATA
from kcli.protocol.error_code import ErrorCode
from kcli.raft.messages import (
    AddRaftVoter,
    Answer,
    BeginQuorumEpoch,
    EndQuorumEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    FetchSnapshotAnswer,
    OffsetAndEpoch,
    RemoveRaftVoter,
    UpdateRaftVoter,
    Vote,
    VoteAnswer,
    VoterAnswer,
)
from kcli.raft.voters import Endpoint, Endpoints, ReplicaKey, address, replica_key

if TYPE_CHECKING:
    from kcli.broker.wire.types.add_raft_voter import AddRaftVoterCall
    from kcli.broker.wire.types.begin_quorum_epoch import BeginQuorumEpochCall
    from kcli.broker.wire.types.end_quorum_epoch import EndQuorumEpochCall
    from kcli.broker.wire.types.fetch import FetchCall
    from kcli.broker.wire.types.fetch_snapshot import FetchSnapshotCall
    from kcli.broker.wire.types.remove_raft_voter import RemoveRaftVoterCall
    from kcli.broker.wire.types.update_raft_voter import UpdateRaftVoterCall
    from kcli.broker.wire.types.vote import VoteCall

Partition_co = TypeVar("Partition_co", covariant=True)
NO_HIGH_WATERMARK: Final = (1 << 63) - 1
NO_EPOCH: Final = -1


class InvalidRaftRequest(Exception):
    """The request is for another partition than that of the metadata log, or for several partitions."""


def _key(node_id: int, directory: UUID | None) -> ReplicaKey:
    return replica_key(node_id, None if directory is None else uuid_text(directory.bytes))


# requests received


class _Listener(Protocol):
    """An endpoint in a request to raft."""

    @property
    def name(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class _Topic(Protocol[Partition_co]):
    """A topic of a request to raft."""

    @property
    def partitions(self) -> Sequence[Partition_co]: ...


def _only_partition(topics: Sequence[_Topic[Partition_co]], name: str, index: str) -> Partition_co:
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        raise InvalidRaftRequest
    partition = topics[0].partitions[0]
    if getattr(topics[0], name) not in (CLUSTER_METADATA, TOPIC_ID) or getattr(partition, index) != 0:
        raise InvalidRaftRequest
    return partition


def _voter(call: VoteCall | BeginQuorumEpochCall, partition: object) -> ReplicaKey | None:
    voter_id = call.get("voter_id", -1)
    return None if voter_id < 0 else _key(voter_id, getattr(partition, "voter_directory_id", None))


def _endpoints(listeners: Iterable[_Listener]) -> Endpoints:
    return tuple(Endpoint(each.name, each.host, each.port) for each in listeners)


def vote_of(call: VoteCall) -> Vote:
    """Return the message in `call` as raft's Vote request. Raises InvalidRaftRequest."""
    partition = _only_partition(call.request.topics, "topic_name", "partition_index")
    return Vote(
        cluster_id=call.request.cluster_id,
        voter=_voter(call, partition),
        replica=_key(partition.replica_id, getattr(partition, "replica_directory_id", None)),
        epoch=partition.replica_epoch,
        last=OffsetAndEpoch(partition.last_offset, partition.last_offset_epoch),
        pre_vote=getattr(partition, "pre_vote", False),
    )


def begin_of(call: BeginQuorumEpochCall) -> BeginQuorumEpoch:
    """Return the message in `call` as raft's BeginQuorumEpoch request. Raises InvalidRaftRequest."""
    partition = _only_partition(call.request.topics, "topic_name", "partition_index")
    return BeginQuorumEpoch(
        cluster_id=call.request.cluster_id,
        voter=_voter(call, partition),
        leader_id=partition.leader_id,
        epoch=partition.leader_epoch,
        endpoints=_endpoints(call.get("leader_endpoints", ())),
    )


def end_of(call: EndQuorumEpochCall) -> EndQuorumEpoch:
    """Return the message in `call` as raft's EndQuorumEpoch request. Raises InvalidRaftRequest."""
    partition = _only_partition(call.request.topics, "topic_name", "partition_index")
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


def fetch_of(call: FetchCall) -> Fetch:
    """Return the message in `call` as raft's Fetch request. Raises InvalidRaftRequest."""
    request = call.request
    name = "topic_id" if hasattr(request.topics[0] if request.topics else None, "topic_id") else "topic"
    partition = _only_partition(request.topics, name, "partition")
    state = getattr(request, "replica_state", None)
    replica_id = request.replica_id if state is None else state.replica_id
    high_watermark = getattr(partition, "high_watermark", NO_HIGH_WATERMARK)
    return Fetch(
        cluster_id=getattr(request, "cluster_id", None),
        replica=_key(replica_id, getattr(partition, "replica_directory_id", None)),
        epoch=getattr(partition, "current_leader_epoch", NO_EPOCH),
        offset=partition.fetch_offset,
        last_fetched_epoch=getattr(partition, "last_fetched_epoch", NO_EPOCH),
        high_watermark=high_watermark,
        max_wait_ms=round(request.max_wait.total_seconds() * 1000),
        max_bytes=request.max_bytes,
    )


def fetch_snapshot_of(call: FetchSnapshotCall) -> FetchSnapshot:
    """Return the message in `call` as raft's FetchSnapshot request. Raises InvalidRaftRequest."""
    partition = _only_partition(call.request.topics, "name", "partition")
    return FetchSnapshot(
        cluster_id=call.request.cluster_id,
        replica=_key(call.request.replica_id, getattr(partition, "replica_directory_id", None)),
        epoch=partition.current_leader_epoch,
        snapshot=OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch),
        position=partition.position,
        max_bytes=call.request.max_bytes,
    )


def add_of(call: AddRaftVoterCall) -> AddRaftVoter:
    """Return the message in `call` as raft's AddRaftVoter request."""
    request = call.request
    return AddRaftVoter(
        cluster_id=request.cluster_id,
        voter=_key(request.voter_id, request.voter_directory_id),
        endpoints=_endpoints(request.listeners),
        timeout_ms=round(request.timeout.total_seconds() * 1000),
        ack_when_committed=call.get("ack_when_committed", True),
    )


def remove_of(call: RemoveRaftVoterCall) -> RemoveRaftVoter:
    """Return the message in `call` as raft's RemoveRaftVoter request."""
    voter = _key(call.request.voter_id, call.request.voter_directory_id)
    return RemoveRaftVoter(cluster_id=call.request.cluster_id, voter=voter)


def update_of(call: UpdateRaftVoterCall) -> UpdateRaftVoter:
    """Return the message in `call` as raft's UpdateRaftVoter request."""
    request = call.request
    return UpdateRaftVoter(
        cluster_id=request.cluster_id,
        epoch=request.current_leader_epoch,
        voter=_key(request.voter_id, request.voter_directory_id),
        endpoints=_endpoints(request.listeners),
        min_version=request.k_raft_version_feature.min_supported_version,
        max_version=request.k_raft_version_feature.max_supported_version,
    )


# responses to these requests


def _nodes(call: Call, answer: Answer) -> tuple[Any, ...]:
    """Return the leader's endpoint for the listener of the request, as the only item, or an empty tuple if unknown."""
    found = address(answer.endpoints, call.listener)
    if found is None or answer.leader_id < 0 or not call.has(call.messages.response_name, "node_endpoints"):
        return ()
    return (call.new("NodeEndpoint", node_id=answer.leader_id, host=found.host, port=found.port),)


def _respond(call: Call, answer: Answer, **partition: Any) -> Message:
    if answer.top_error != ErrorCode.NONE:
        return call.respond(error_code=answer.top_error, topics=(), node_endpoints=())
    found = call.new(
        "PartitionData",
        partition_index=0,
        error_code=answer.error,
        leader_id=answer.leader_id,
        leader_epoch=answer.epoch,
        **partition,
    )
    topics = (call.new("TopicData", topic_name=CLUSTER_METADATA, partitions=(found,)),)
    return call.respond(error_code=ErrorCode.NONE, topics=topics, node_endpoints=_nodes(call, answer))


def vote_response(call: VoteCall, answer: Answer) -> Message:
    """Return the response to Vote, made from raft's answer."""
    return _respond(call, answer, vote_granted=isinstance(answer, VoteAnswer) and answer.granted)


def epoch_response(call: BeginQuorumEpochCall | EndQuorumEpochCall, answer: Answer) -> Message:
    """Return the response to BeginQuorumEpoch or EndQuorumEpoch, made from raft's answer."""
    return _respond(call, answer)


def fetch_response(call: FetchCall, answer: Answer) -> Message:
    """Return the response to Fetch, made from raft's answer."""
    assert isinstance(answer, FetchAnswer), "of Fetch"
    if answer.top_error != ErrorCode.NONE:
        return call.respond(error_code=answer.top_error, session_id=0, responses=())
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
        error_code=answer.error,
        high_watermark=answer.high_watermark,
        log_start_offset=answer.log_start_offset,
        current_leader=leader,
        aborted_transactions=None,
        records=bytes(answer.records),
        **tagged,
    )
    topic = call.new("FetchableTopicResponse", topic_id=TOPIC_ID, topic=CLUSTER_METADATA, partitions=(partition,))
    nodes = _nodes(call, answer)
    return call.respond(error_code=ErrorCode.NONE, session_id=0, responses=(topic,), node_endpoints=nodes)


def fetch_snapshot_response(call: FetchSnapshotCall, answer: Answer) -> Message:
    """Return the response to FetchSnapshot, made from raft's answer."""
    assert isinstance(answer, FetchSnapshotAnswer), "of FetchSnapshot"
    if answer.top_error != ErrorCode.NONE:
        return call.respond(error_code=answer.top_error, topics=())
    snapshot = answer.snapshot or OffsetAndEpoch(-1, -1)
    partition = call.new(
        "PartitionSnapshot",
        index=0,
        error_code=answer.error,
        snapshot_id=call.new("SnapshotId", end_offset=snapshot.offset, epoch=snapshot.epoch),
        current_leader=call.new("LeaderIdAndEpoch", leader_id=answer.leader_id, leader_epoch=answer.epoch),
        size=answer.size,
        position=answer.position,
        unaligned_records=bytes(answer.data),
    )
    topics = (call.new("TopicSnapshot", name=CLUSTER_METADATA, partitions=(partition,)),)
    return call.respond(error_code=ErrorCode.NONE, topics=topics, node_endpoints=_nodes(call, answer))


def voter_response(call: AddRaftVoterCall | RemoveRaftVoterCall, answer: Answer) -> Message:
    """Return the response to AddRaftVoter or RemoveRaftVoter, made from raft's answer."""
    message = answer.message if isinstance(answer, VoterAnswer) else None
    return call.respond(error_code=answer.top_error, error_message=message)


def update_response(call: UpdateRaftVoterCall, answer: Answer) -> Message:
    """Return the response to UpdateRaftVoter, made from raft's answer."""
    found = address(answer.endpoints, call.listener)
    host, port = ("", 0) if found is None else (found.host, found.port)
    leader = call.new("CurrentLeader", leader_id=answer.leader_id, leader_epoch=answer.epoch, host=host, port=port)
    return call.respond(error_code=answer.error, current_leader=leader)
