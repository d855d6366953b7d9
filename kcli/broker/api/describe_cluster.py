"""DescribeCluster (60): the nodes of the cluster. On a listener for clients, the nodes are the brokers, and the
controller id is that of a broker, which forwards requests to the active controller. On a controller listener, the nodes
are the controllers, and the controller id is that of the active controller.

v1 the endpoint type, brokers or controllers, which must be that of the listener (KIP-919). v2 fenced brokers too
(KIP-1073). All versions are flexible. KIP-700.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.client_view.nodes import NO_NODE, OPERATIONS_OMITTED
from kcli.broker.dispatch.inputs import Inputs
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import describe_cluster as types

BROKERS, CONTROLLERS = 1, 2
NAMES = {BROKERS: "BROKER", CONTROLLERS: "CONTROLLER"}


def describe_cluster(broker: Broker, call: types.DescribeClusterCall) -> types.DescribeClusterResponse:
    """Errors: MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE."""
    endpoint_type = call.get("endpoint_type", BROKERS)
    here = CONTROLLERS if call.listener in broker.config.controller_listener_names else BROKERS
    if here == CONTROLLERS:
        broker.access.require(call, Operation.ALTER, ResourceType.CLUSTER)
    if endpoint_type not in NAMES:
        return _refused(call, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE, f"Unsupported endpoint type {endpoint_type}")
    if endpoint_type != here:
        message = f"The request was sent to an endpoint of type {NAMES[here]}, "
        message += f"but we wanted an endpoint of type {NAMES[endpoint_type]}"
        return _refused(call, ErrorCode.MISMATCHED_ENDPOINT_TYPE, message)
    return _controllers(broker, call) if here == CONTROLLERS else _brokers(broker, call)


def kept_state(broker: Broker, listener: str) -> tuple[int, int | None]:
    """Return the state of the node on which a cached response (dispatch/kept.py) depends: the version of the metadata
    image and, for a controller listener, the id of the active controller."""
    is_controllers = listener in broker.config.controller_listener_names
    return broker.image.version, broker.metadata.leader_id if is_controllers else None


def inputs(broker: Broker, call: types.DescribeClusterCall) -> Inputs:
    """Return what the response depends on: the request, and the state that `kept_state` returns."""
    return Inputs(call.request, kept_state(broker, call.listener))


def _controllers(broker: Broker, call: types.DescribeClusterCall) -> types.DescribeClusterResponse:
    leader_id = broker.metadata.leader_id
    return call.respond(
        error_code=ErrorCode.NONE,
        error_message=None,
        endpoint_type=CONTROLLERS,
        cluster_id=broker.cluster_id,
        controller_id=NO_NODE if leader_id is None else leader_id,
        brokers=tuple(
            call.new(
                "DescribeClusterBroker",
                broker_id=each.id,
                host=found.host,
                port=found.port,
                rack=None,
                is_fenced=False,
            )
            for each in broker.image.controllers.values()
            if (found := each.endpoints.get(call.listener)) is not None
        ),
        cluster_authorized_operations=_operations(broker, call),
    )


def _operations(broker: Broker, call: types.DescribeClusterCall) -> int:
    if not call.request.include_cluster_authorized_operations:
        return OPERATIONS_OMITTED
    if not broker.access.allows(call, Operation.DESCRIBE, ResourceType.CLUSTER):
        return 0
    return broker.access.operations(call, ResourceType.CLUSTER)


def _brokers(broker: Broker, call: types.DescribeClusterCall) -> types.DescribeClusterResponse:
    include_fenced, view = call.get("include_fenced_brokers", False), broker.view(call.listener)
    return call.respond(
        error_code=ErrorCode.NONE,
        error_message=None,
        endpoint_type=BROKERS,
        cluster_id=broker.cluster_id,
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
        cluster_authorized_operations=_operations(broker, call),
    )


def _refused(call: types.DescribeClusterCall, code: ErrorCode, message: str) -> types.DescribeClusterResponse:
    return call.respond(
        error_code=code,
        error_message=message,
        endpoint_type=BROKERS,
        cluster_id="",
        controller_id=NO_NODE,
        brokers=(),
        cluster_authorized_operations=OPERATIONS_OMITTED,
    )
