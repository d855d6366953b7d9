"""FindCoordinator (10): the broker that coordinates a group, or a transactional id.

v1 key types, error messages. v3 flexible. v4 many keys at once (KIP-699). v5 as v4 (KIP-890). v6 share groups
(KIP-932).

The coordinator is the leader of a partition of __consumer_offsets or __transaction_state, chosen by the key's hash. The
topic is created at the first FindCoordinator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.client_view.nodes import NO_NODE, Node, View
from kcli.group.records import TOPIC as GROUPS
from kcli.java.hashing import partition_of
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType
from kcli.txn.records import TOPIC as TRANSACTIONS

if TYPE_CHECKING:
    from kcli.broker.wire.types import find_coordinator as types

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: GROUPS, TRANSACTION: TRANSACTIONS}
READ_ONLY = {
    GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    TRANSACTION: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}
BATCHED_SINCE = 4
SHARE_SINCE = 6
NO_COORDINATOR = Node(NO_NODE, "", -1, None, is_fenced=False)
MESSAGES = {
    ErrorCode.NONE: "NONE",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "The coordinator is not available.",
    ErrorCode.INVALID_REQUEST: "This most likely occurs because of a request being malformed by the client library or"
    " the message was sent to an incompatible broker. See the broker logs for more details.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Group authorization failed.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Transactional Id authorization failed.",
    ErrorCode.UNKNOWN_SERVER_ERROR: "The server experienced an unexpected error when processing the request.",
}


def find_coordinator(broker: Broker, call: types.FindCoordinatorCall) -> types.FindCoordinatorResponse:
    """Errors: COORDINATOR_NOT_AVAILABLE while the coordinator's topic does not exist, or the key's partition has no
    leader that the client can reach, and for every share partition; INVALID_REQUEST. A read-only broker without
    the key's partition of the coordinator's topic returns GROUP_AUTHORIZATION_FAILED or
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED, since clients retry for ever after any other error.
    """
    key_type, view = call.get("key_type", GROUP), broker.view(call.listener)
    keys = call.request.coordinator_keys if call.version >= BATCHED_SINCE else (call.request.key,)
    found = [(key, *_find(broker, call, view, key_type, key)) for key in keys]
    if any(code is ErrorCode.COORDINATOR_NOT_AVAILABLE for _, code, _ in found):
        _create_missing(broker, call, key_type)
    if call.version < BATCHED_SINCE:
        _, code, node = found[0]
        return call.respond(
            error_code=code, error_message=MESSAGES[code], node_id=node.id, host=node.host, port=node.port
        )
    return call.respond(coordinators=tuple(_coordinator(call, *each) for each in found))


def _create_missing(broker: Broker, call: types.FindCoordinatorCall, key_type: int) -> None:
    """Begin to create the topic of the coordinators of this key type (__consumer_offsets or __transaction_state) if it
    does not exist yet. Do nothing for a key type without such a topic."""
    name = TOPICS.get(key_type)
    if name is not None and broker.image.topic(name) is None:
        broker.topics.create_missing(call, [name])


def _coordinator(call: types.FindCoordinatorCall, key: str, code: ErrorCode, node: Node) -> types.Coordinator:
    return call.new(
        "Coordinator", key=key, node_id=node.id, host=node.host, port=node.port, error_code=code, error_message=""
    )


def _find(
    broker: Broker, call: types.FindCoordinatorCall, view: View, key_type: int, key: str
) -> tuple[ErrorCode, Node]:
    if key_type not in (GROUP, TRANSACTION, SHARE):
        return ErrorCode.INVALID_REQUEST, NO_COORDINATOR
    if key_type == GROUP and not broker.access.allows(call, Operation.DESCRIBE, ResourceType.GROUP, key):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED, NO_COORDINATOR
    if key_type == TRANSACTION and not broker.access.allows(
        call, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key
    ):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_COORDINATOR
    if key_type == SHARE and (call.version < SHARE_SINCE or not _is_share_key(key)):
        return ErrorCode.INVALID_REQUEST, NO_COORDINATOR
    name = TOPICS.get(key_type)
    if name is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, NO_COORDINATOR
    if broker.is_read_only:
        return _find_read_only(broker, view, key_type, key)
    topic = broker.image.topic(name)
    if topic is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, NO_COORDINATOR
    leader = topic.partitions[partition_of(key, len(topic.partitions))].leader
    node = next((node for node in view.nodes if node.id == leader and not node.is_fenced), None)
    if node is None:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE, NO_COORDINATOR
    return ErrorCode.NONE, node


def _find_read_only(broker: Broker, view: View, key_type: int, key: str) -> tuple[ErrorCode, Node]:
    coordinator = broker.groups if key_type == GROUP else broker.transactions
    if coordinator.partition_count and coordinator.partition_of(key) not in coordinator.led():
        return READ_ONLY[key_type], NO_COORDINATOR
    return ErrorCode.NONE, next(node for node in view.nodes if node.id == broker.node_id)


def _is_share_key(key: str) -> bool:
    """Whether the key of a share partition has the form `group:id:0`: a group, a topic id and a partition number."""
    parts = key.rsplit(":", 2)
    return len(parts) == 3 and all(parts) and parts[2].isdecimal()
