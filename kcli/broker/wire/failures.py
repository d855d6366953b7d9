"""The response to a request that failed as a whole, with the error code in the fields that clients of that API read.

Most responses have a top-level error code. Others, which PLACES lists, have an error code for each item of the request,
such as a topic. All other fields of the response are empty. Source: AbstractRequest.getErrorResponse.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import typing
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import Message, Messages
from kcli.broker.wire.plain_values import hints, item_of, without_none
from kcli.java.hashing import java_order
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.wire.types.alter_client_quotas import AlterClientQuotasCall
    from kcli.broker.wire.types.alter_configs import AlterConfigsCall
    from kcli.broker.wire.types.alter_partition_reassignments import AlterPartitionReassignmentsCall
    from kcli.broker.wire.types.alter_replica_log_dirs import AlterReplicaLogDirsCall
    from kcli.broker.wire.types.alter_user_scram_credentials import AlterUserScramCredentialsCall
    from kcli.broker.wire.types.delete_topics import DeleteTopicsCall
    from kcli.broker.wire.types.elect_leaders import ElectLeadersCall
    from kcli.broker.wire.types.incremental_alter_configs import IncrementalAlterConfigsCall
    from kcli.broker.wire.types.write_txn_markers import WriteTxnMarkersCall

Items = Iterable[dict[str, Any]]


def failed(call: Call, code: ErrorCode, reason: str | None = None) -> Message:
    """Return the response to a request that failed as a whole with that error. reason: the error message, None for
    none."""
    cls, name = call.messages.response_type, call.messages.request_type.__name__
    if reason is None and name in GENERAL:
        reason = MESSAGES.get(code)
    values = empty(cls, error_code=code, error_message=reason, **ABSENT.get(name, {}))
    place = PLACES.get(name)
    if place is not None:
        field, items = place
        item = item_of(hints(cls)[field])
        nothing = empty(item, error_code=code, error_message=reason)
        known = hints(item).keys()
        values[field] = tuple(
            item(**nothing | {name: value for name, value in each.items() if name in known})
            for each in items(call, code, reason)
        )
    response: Message = cls(**values)
    return response


def tells_reason(kind: Messages) -> bool:
    """Whether Kafka's response to a request of this kind contains the message of an exception with which the request
    has failed."""
    return kind.request_type.__name__ in TELLING


def empty(cls: type, **given: Any) -> dict[str, Any]:
    """Return field name -> value for the constructor of a class of kio's. A field without a default gets null, zero or
    an empty value; a field that `given` names gets the value in `given`. Names in `given` that the class lacks are left
    out."""
    types = hints(cls)
    required = [each.name for each in dataclasses.fields(cls) if each.default is dataclasses.MISSING]
    return {name: _nothing(types[name]) for name in required} | _known(cls, given)


def _known(cls: type, given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name in hints(cls)}


def _nothing(hint: Any) -> Any:
    inner = without_none(hint)
    if inner is not hint and typing.get_origin(inner) is not tuple:
        return None
    if typing.get_origin(inner) is tuple:
        return ()
    if inner is bool:
        return False
    if isinstance(inner, type) and issubclass(inner, IntEnum):  # kio's type for error codes
        return ErrorCode.NONE
    if "Timedelta" in getattr(inner, "__name__", "") or inner is dt.timedelta:
        return dt.timedelta(0)
    if isinstance(inner, type) and issubclass(inner, dt.datetime):
        return dt.datetime.fromtimestamp(0, dt.UTC)
    if isinstance(inner, type) and dataclasses.is_dataclass(inner):
        return inner(**empty(inner))
    if isinstance(inner, type) and issubclass(inner, str | bytes):
        return "" if issubclass(inner, str) else b""  # also for kio's subclasses of str
    return 0


def _named(field: str) -> Callable[..., Items]:
    def items(call: Call, *_: object) -> Items:
        return ({"name": each.name} for each in getattr(call.request, field))

    return items


def _deleted(call: DeleteTopicsCall, *_: object) -> Items:
    yield from ({"name": name} for name in call.get("topic_names", ()))
    yield from ({"name": each.name, "topic_id": each.topic_id} for each in call.get("topics", ()))


def _resources(call: AlterConfigsCall | IncrementalAlterConfigsCall, *_: object) -> Items:
    return (
        {"resource_type": each.resource_type, "resource_name": each.resource_name} for each in call.request.resources
    )


def _elections(call: ElectLeadersCall, code: ErrorCode, reason: str | None) -> Items:
    for topic in call.request.topic_partitions or ():
        results = [
            call.new("PartitionResult", partition_id=each, error_code=code, error_message=reason)
            for each in topic.partitions
        ]
        yield {"topic": topic.topic, "partition_result": tuple(results)}


def _quotas(call: AlterClientQuotasCall, *_: object) -> Items:
    for each in call.request.entries:
        yield {
            "entity": tuple(
                call.new("EntityData", entity_type=part.entity_type, entity_name=part.entity_name)
                for part in each.entity
            ),
        }


def _reassignments(call: AlterPartitionReassignmentsCall, code: ErrorCode, reason: str | None) -> Items:
    for topic in call.request.topics:
        responses = [
            call.new(
                "ReassignablePartitionResponse",
                partition_index=each.partition_index,
                error_code=code,
                error_message=reason,
            )
            for each in topic.partitions
        ]
        yield {"name": topic.name, "partitions": tuple(responses)}


def _moves(call: AlterReplicaLogDirsCall, code: ErrorCode, _: object) -> Items:
    for topic in (topic for directory in call.request.dirs for topic in directory.topics):
        results = [
            call.new("AlterReplicaLogDirPartitionResult", partition_index=each, error_code=code)
            for each in topic.partitions
        ]
        yield {"topic_name": topic.name, "partitions": tuple(results)}


def _markers(call: WriteTxnMarkersCall, code: ErrorCode, _: object) -> Items:
    for marker in call.request.markers:
        topics = [
            call.new(
                "WritableTxnMarkerTopicResult",
                name=topic.name,
                partitions=tuple(
                    call.new("WritableTxnMarkerPartitionResult", partition_index=each, error_code=code)
                    for each in topic.partition_indexes
                ),
            )
            for topic in marker.topics
        ]
        yield {"producer_id": marker.producer_id, "topics": tuple(topics)}


def _users(call: AlterUserScramCredentialsCall, *_: object) -> Items:
    names = {each.name for each in call.request.deletions} | {each.name for each in call.request.upsertions}
    return ({"user": name} for name in sorted(names, key=java_order))


def _each(field: str) -> Callable[..., Items]:
    return lambda call, *_: ({} for _ in getattr(call.request, field) or ())


MESSAGES: Final = {
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.NOT_CONTROLLER: "This is not the correct controller for this cluster.",
    ErrorCode.ILLEGAL_SASL_STATE: "Request is not valid given the current SASL state.",
}
"""Error code -> Kafka's general message for it."""
GENERAL: Final = frozenset(
    (
        "AddRaftVoterRequest",
        "AlterClientQuotasRequest",
        "ControllerRegistrationRequest",
        "DescribeQuorumRequest",
        "RemoveRaftVoterRequest",
    )
)
"""Request classes whose error responses have the general message of MESSAGES if the error has no message."""
TELLING: Final = frozenset(
    (
        "AlterPartitionReassignmentsRequest",
        "DescribeClientQuotasRequest",
        "DescribeClusterRequest",
        "DescribeUserScramCredentialsRequest",
        "ListPartitionReassignmentsRequest",
        "UnregisterBrokerRequest",
        "UpdateFeaturesRequest",
    )
)
"""Request classes whose error responses have the message of the exception by which the request failed."""
ABSENT: Final[dict[str, dict[str, Any]]] = {
    "DescribeClientQuotasRequest": {"entries": None},
    "FindCoordinatorRequest": {"node_id": -1, "port": -1},
    "InitProducerIdRequest": {"producer_epoch": -1},
}
"""Request class -> those fields of its error response that are null or -1, in place of the empty or 0 that `empty`
returns."""
PLACES: dict[str, tuple[str, Callable[..., Items]]] = {
    "AlterPartitionReassignmentsRequest": ("responses", _reassignments),
    "AlterReplicaLogDirsRequest": ("results", _moves),
    "CreateAclsRequest": ("results", _each("creations")),
    "CreateTopicsRequest": ("topics", _named("topics")),
    "CreatePartitionsRequest": ("results", _named("topics")),
    "DeleteAclsRequest": ("filter_results", _each("filters")),
    "DeleteTopicsRequest": ("responses", _deleted),
    "AlterConfigsRequest": ("responses", _resources),
    "IncrementalAlterConfigsRequest": ("responses", _resources),
    "DescribeUserScramCredentialsRequest": ("results", _each("users")),
    "ElectLeadersRequest": ("replica_election_results", _elections),
    "AlterClientQuotasRequest": ("entries", _quotas),
    "AlterUserScramCredentialsRequest": ("results", _users),
    "WriteTxnMarkersRequest": ("markers", _markers),
}
"""Request class -> the name of the response's list that has one result for each item of the request, and the function
that yields the fields of each result that identify the item."""
