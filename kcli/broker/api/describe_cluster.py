"""DescribeCluster (60): the brokers, and which of them takes requests for the controller.

v1 brokers or controllers (KIP-919): here only brokers. v2 fenced brokers too (KIP-1073). All flexible. KIP-700.
"""

from __future__ import annotations

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.nodes import CLUSTER_OPERATIONS, NO_NODE, NOT_ASKED, View

BROKERS, CONTROLLERS = 1, 2


def describe_cluster(call: Call) -> Entity:
    """Errors: MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE."""
    kind = call.get("endpoint_type", BROKERS)
    if kind == CONTROLLERS:
        message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
        return _refused(call, ErrorCode.mismatched_endpoint_type, message)
    if kind != BROKERS:
        return _refused(call, ErrorCode.unsupported_endpoint_type, f"Unsupported endpoint type {kind}")
    asked = call.request.include_cluster_authorized_operations
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
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
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
