"""ElectLeaders (43): elect the preferred or any leader of some partitions, or of all.

v1 the type of the election (KIP-460); a code for the whole. v2 flexible.
"""

from __future__ import annotations

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.election import ElectionType, PartitionAnswer
from kcli.metadata.election import elect_leaders as decide
from kcli.metadata.result import Refused


async def elect_leaders(call: Call) -> Entity:
    """Errors: ELECTION_NOT_NEEDED, UNKNOWN_TOPIC_OR_PARTITION, PREFERRED_LEADER_NOT_AVAILABLE,
    ELIGIBLE_LEADERS_NOT_AVAILABLE, INVALID_REQUEST."""
    asked = call.request.topic_partitions
    topics = None if asked is None else [(each.topic, each.partitions) for each in asked]
    kind = call.get("election_type", int(ElectionType.PREFERRED))
    metadata = call.broker.metadata
    try:
        result = decide(metadata.draft, kind, topics, call.broker.config.properties)
    except Refused as refused:
        every = [(name, [PartitionAnswer(each, refused.error) for each in numbers]) for name, numbers in topics or ()]
        return _respond(call, ErrorCode(refused.error.code), every)
    await metadata.append(result.records)
    return _respond(call, ErrorCode.none, result.response)


def _respond(call: Call, code: ErrorCode, topics: list[tuple[str, list[PartitionAnswer]]]) -> Entity:
    return call.respond(
        error_code=code,
        replica_election_results=tuple(
            call.new(
                "ReplicaElectionResult", topic=name, partition_result=tuple(_answer(call, each) for each in answers)
            )
            for name, answers in topics
        ),
    )


def _answer(call: Call, answer: PartitionAnswer) -> Entity:
    return call.new(
        "PartitionResult",
        partition_id=answer.partition,
        error_code=ErrorCode(answer.error.code),
        error_message=answer.error.message,
    )
