"""ElectLeaders (43): elect preferred leaders, or unclean leaders, of some partitions or of all.

v1 the type of the election (KIP-460); a top-level error code. v2 flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.metadata.election import ElectionType, PartitionAnswer
from kcli.metadata.election import elect_leaders as decide
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import elect_leaders as types


async def elect_leaders(broker: Broker, call: types.ElectLeadersCall) -> types.ElectLeadersResponse:
    """Errors: ELECTION_NOT_NEEDED, UNKNOWN_TOPIC_OR_PARTITION, PREFERRED_LEADER_NOT_AVAILABLE,
    ELIGIBLE_LEADERS_NOT_AVAILABLE, INVALID_REQUEST."""
    broker.access.require(call, Operation.ALTER, ResourceType.CLUSTER)
    requested = call.request.topic_partitions
    topics = None if requested is None else [(each.topic, each.partitions) for each in requested]
    kind = call.get("election_type", int(ElectionType.PREFERRED))
    metadata = broker.metadata
    try:
        result = decide(metadata.draft, kind, topics, broker.config.properties)
    except Refused as refused:
        every = [(name, [PartitionAnswer(each, refused.error) for each in numbers]) for name, numbers in topics or ()]
        return _respond(call, refused.error.code, every)
    await metadata.append(result.records)
    return _respond(call, ErrorCode.NONE, result.response)


def _respond(
    call: types.ElectLeadersCall, code: ErrorCode, topics: list[tuple[str, list[PartitionAnswer]]]
) -> types.ElectLeadersResponse:
    return call.respond(
        error_code=code,
        replica_election_results=tuple(
            call.new(
                "ReplicaElectionResult", topic=name, partition_result=tuple(_answer(call, each) for each in answers)
            )
            for name, answers in topics
        ),
    )


def _answer(call: types.ElectLeadersCall, answer: PartitionAnswer) -> types.PartitionResult:
    return call.new(
        "PartitionResult",
        partition_id=answer.partition,
        error_code=answer.error.code,
        error_message=answer.error.message,
    )
