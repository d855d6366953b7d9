"""DescribeCluster (60): the brokers, and which of them takes requests for the controller.

v1 brokers or controllers (KIP-919): those whose listener the request came through. v2 fenced brokers too (KIP-1073).
All flexible. KIP-700.
"""

from __future__ import annotations

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.nodes import CLUSTER_OPERATIONS, NO_NODE, NOT_ASKED, View

BROKERS, CONTROLLERS = 1, 2
NAMES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def describe_cluster(call: Call) -> Entity:
    """Errors: MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE."""
    wanted = call.get("endpoint_type", BROKERS)
    here = CONTROLLERS if call.listener in call.broker.config.controller_listener_names else BROKERS
    if wanted not in NAMES:
        return _refused(call, ErrorCode.unsupported_endpoint_type, f"Unsupported endpoint type {wanted}")
    if wanted != here:
        message = f"The request was sent to an endpoint of type {NAMES[here]}, "
        message += f"but we wanted an endpoint of type {NAMES[wanted]}"
        return _refused(call, ErrorCode.mismatched_endpoint_type, message)
    return _controllers(call) if here == CONTROLLERS else _brokers(call)


def _controllers(call: Call) -> Entity:
    broker = call.broker
    leader_id = broker.metadata.leader_id
    return call.respond(
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=CONTROLLERS,
        cluster_id=broker.cluster_id,
        controller_id=NO_NODE if leader_id is None else leader_id,
        brokers=tuple(
            call.new(
                "DescribeClusterBroker", broker_id=each.id, host=found.host, port=found.port, rack=None, is_fenced=False
            )
            for each in broker.image.controllers.values()
            if (found := each.endpoints.get(call.listener)) is not None
        ),
        cluster_authorized_operations=_operations(call),
    )


def _operations(call: Call) -> int:
    return CLUSTER_OPERATIONS if call.request.include_cluster_authorized_operations else NOT_ASKED


def _brokers(call: Call) -> Entity:
    include_fenced, view = call.get("include_fenced_brokers", False), View(call)
    return call.respond(
        error_code=ErrorCode.none,
        error_message=None,
        endpoint_type=BROKERS,
        cluster_id=call.broker.cluster_id,
        controller_id=view.controller_id,
        brokers=tuple(
            call.new(
                "DescribeClusterBroker",
                broker_id=node.id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=node.is_fenced,
            )
            for node in view.nodes
            if include_fenced or not node.is_fenced
        ),
        cluster_authorized_operations=_operations(call),
    )


def _refused(call: Call, code: ErrorCode, message: str) -> Entity:
    return call.respond(
        error_code=code,
        error_message=message,
        endpoint_type=BROKERS,
        cluster_id="",
        controller_id=NO_NODE,
        brokers=(),
        cluster_authorized_operations=NOT_ASKED,
    )
