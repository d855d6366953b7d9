"""BrokerRegistration (62): a broker that has started registers, and gets its broker epoch.

v1 brokers that migrate from ZooKeeper (KIP-866). v2 log directories (KIP-858). v3 the broker epoch before the last
clean shutdown (KIP-966). v4 features whose lowest level is 0 (KIP-1022). All versions are flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from kcli.broker.broker import Broker
from kcli.metadata.registration import Broker as BrokerState
from kcli.metadata.registration import Endpoint, VersionRange
from kcli.metadata.registration_control import NO_EPOCH
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import broker_registration as types

NONE = UUID(int=0)
PREVIOUS_EPOCH_SINCE = 3


async def broker_registration(broker: Broker, call: types.BrokerRegistrationCall) -> types.BrokerRegistrationResponse:
    """Errors: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, BROKER_ID_NOT_REGISTERED (migration
    from ZooKeeper), INVALID_REGISTRATION, UNSUPPORTED_VERSION, UNKNOWN_SERVER_ERROR (unknown security protocol)."""
    broker.access.require(call, Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
    request = call.request
    assert broker.active is not None, "only controllers get this request"
    previous_epoch = request.previous_broker_epoch if call.version >= PREVIOUS_EPOCH_SINCE else None
    try:
        _check(broker, call)
        epoch = await broker.active.register_broker(_state(call), previous_epoch)
    except Refused as refused:
        broker.active.refused(f"the registration of broker {request.broker_id}", refused)
        return call.respond(error_code=refused.error.code, broker_epoch=NO_EPOCH)
    return call.respond(error_code=ErrorCode.NONE, broker_epoch=epoch)


def _check(broker: Broker, call: types.BrokerRegistrationCall) -> None:
    known, given = broker.cluster_id, call.request.cluster_id
    if given != known:
        raise Refused(ErrorCode.INCONSISTENT_CLUSTER_ID, f"Expected cluster ID {known}, but got cluster ID {given}")
    if call.get("is_migrating_zk_broker", default=False):
        raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")


def _state(call: types.BrokerRegistrationCall) -> BrokerState:
    request = call.request
    return BrokerState(
        id=request.broker_id,
        epoch=NO_EPOCH,
        incarnation_id=request.incarnation_id or NONE,
        endpoints={
            each.name: Endpoint(each.name, each.host, each.port, each.security_protocol) for each in request.listeners
        },
        features={
            each.name: VersionRange(each.min_supported_version, each.max_supported_version) for each in request.features
        },
        rack=request.rack,
        directories=tuple(each or NONE for each in call.get("log_dirs", default=())),
    )
