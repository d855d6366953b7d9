"""BrokerRegistration (62): a broker has come up, and gets its epoch.

v1 brokers that migrate (KIP-866). v2 log directories (KIP-858). v3 the epoch before a clean shutdown (KIP-966). v4
features from level 0 on (KIP-1022). All flexible.
"""

from __future__ import annotations

from uuid import UUID

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.registration import Broker, Endpoint, VersionRange
from kcli.metadata.registration_control import NO_EPOCH
from kcli.metadata.result import ErrorCode as Code
from kcli.metadata.result import Refused

NONE = UUID(int=0)
PREVIOUS_EPOCH_SINCE = 3


async def broker_registration(call: Call) -> Entity:
    """Errors: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION, BROKER_ID_NOT_REGISTERED (of ZooKeeper's),
    INVALID_REGISTRATION, UNSUPPORTED_VERSION."""
    broker, request = call.broker, call.request
    assert broker.active is not None, "controllers are asked"
    previous_epoch = request.previous_broker_epoch if call.version >= PREVIOUS_EPOCH_SINCE else None
    try:
        _check(call)
        epoch = await broker.active.register_broker(_state(call), previous_epoch)
    except Refused as refused:
        broker.active.refused(f"the registration of broker {request.broker_id}", refused)
        return call.respond(error_code=ErrorCode(refused.error.code), broker_epoch=NO_EPOCH)
    return call.respond(error_code=ErrorCode.none, broker_epoch=epoch)


def _check(call: Call) -> None:
    known, given = call.broker.cluster_id, call.request.cluster_id
    if given != known:
        raise Refused(Code.INCONSISTENT_CLUSTER_ID, f"Expected cluster ID {known}, but got cluster ID {given}")
    if call.get("is_migrating_zk_broker", default=False):
        raise Refused(Code.BROKER_ID_NOT_REGISTERED, "Controller does not support registering ZK brokers.")


def _state(call: Call) -> Broker:
    request = call.request
    return Broker(
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
