"""FindCoordinator (10): which broker coordinates a group, or a transactional id.

v1 key types, error messages. v3 flexible. v4 many keys at once (KIP-699). v5 the same (KIP-890). v6 share groups
(KIP-932).

A coordinator leads the partition of its topic that the key's hash names; the topic is made when it is first asked for.
"""

from __future__ import annotations

from kcli.broker.coordinators.runtime import partition_of
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.nodes import NO_NODE, Node, View
from kcli.broker.topic_changes import create_missing
from kcli.group.records import TOPIC as GROUPS
from kcli.txn.records import TOPIC as TRANSACTIONS

GROUP, TRANSACTION, SHARE = 0, 1, 2
TOPICS = {GROUP: GROUPS, TRANSACTION: TRANSACTIONS}
READ_ONLY = {
    GROUP: ErrorCode.group_authorization_failed,
    TRANSACTION: ErrorCode.transactional_id_authorization_failed,
}
BATCHED_SINCE = 4
SHARE_SINCE = 6
NOBODY = Node(NO_NODE, "", -1, None, is_fenced=False)
MESSAGES = {
    ErrorCode.none: "NONE",
    ErrorCode.coordinator_not_available: "The coordinator is not available.",
    ErrorCode.invalid_request: "This most likely occurs because of a request being malformed by the client library or"
    " the message was sent to an incompatible broker. See the broker logs for more details.",
    ErrorCode.group_authorization_failed: "Not authorized to access group: Group authorization failed.",
    ErrorCode.transactional_id_authorization_failed: "The transactional id authorization failed.",
    ErrorCode.unknown_server_error: "The server experienced an unexpected error when processing the request.",
}


def find_coordinator(call: Call) -> Entity:
    """Errors: COORDINATOR_NOT_AVAILABLE while there is none, INVALID_REQUEST; from a broker that only reads and has
    other partitions of the coordinator's topic GROUP_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
    nothing else keeps clients from asking for ever.
    """
    key_type, view = call.get("key_type", GROUP), View(call)
    if call.version < BATCHED_SINCE:
        code, node = _find(call, view, key_type, call.request.key)
        return call.respond(
            error_code=code, error_message=MESSAGES[code], node_id=node.id, host=node.host, port=node.port
        )
    return call.respond(coordinators=tuple(_found(call, view, key_type, key) for key in call.request.coordinator_keys))


def _found(call: Call, view: View, key_type: int, key: str) -> Entity:
    code, node = _find(call, view, key_type, key)
    return call.new(
        "Coordinator", key=key, node_id=node.id, host=node.host, port=node.port, error_code=code, error_message=""
    )


def _find(call: Call, view: View, key_type: int, key: str) -> tuple[ErrorCode, Node]:
    if key_type not in (GROUP, TRANSACTION, SHARE):
        return ErrorCode.unknown_server_error, NOBODY
    if key_type == SHARE and (call.version < SHARE_SINCE or not _is_share_key(key)):
        return ErrorCode.invalid_request, NOBODY
    name = TOPICS.get(key_type)
    if name is None:
        return ErrorCode.coordinator_not_available, NOBODY
    if call.broker.is_read_only:
        return _find_read_only(call, view, key_type, key)
    topic = call.broker.image.topic(name)
    if topic is None:
        create_missing(call, [name])
        return ErrorCode.coordinator_not_available, NOBODY
    leader = topic.partitions[partition_of(key, len(topic.partitions))].leader
    node = next((node for node in view.nodes if node.id == leader and not node.is_fenced), None)
    if node is None:
        return ErrorCode.coordinator_not_available, NOBODY
    return ErrorCode.none, node


def _find_read_only(call: Call, view: View, key_type: int, key: str) -> tuple[ErrorCode, Node]:
    coordinator = call.broker.groups if key_type == GROUP else call.broker.transactions
    if coordinator.partition_count and coordinator.partition_of(key) not in coordinator.led():
        return READ_ONLY[key_type], NOBODY
    return ErrorCode.none, next(node for node in view.nodes if node.id == call.broker.node_id)


def _is_share_key(key: str) -> bool:
    """A group, a topic's id and a partition: `group:id:0`."""
    parts = key.rsplit(":", 2)
    return len(parts) == 3 and all(parts) and parts[2].isdecimal()
