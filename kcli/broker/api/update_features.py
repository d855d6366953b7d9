"""UpdateFeatures (57): finalize the feature levels of the request, either all of them or none.

v1 upgrade types instead of a flag, validate only (KIP-584, KIP-778). v2 one error code for all features (KIP-1022). All
versions are flexible.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.process.turns import STEPS_AT_ONCE, apart_if
from kcli.metadata.features import SUPPORTED_FEATURES, FeatureUpdate, UpgradeType
from kcli.metadata.features import update_features as decide
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import update_features as types

FAILED = "The update failed for all features since the following feature had an error: "


async def update_features(broker: Broker, call: types.UpdateFeaturesCall) -> types.UpdateFeaturesResponse:
    """Errors: INVALID_UPDATE_VERSION."""
    broker.access.require(call, Operation.ALTER, ResourceType.CLUSTER)
    metadata = broker.metadata
    requested = call.request.feature_updates
    updates = await apart_if(len(requested) > STEPS_AT_ONCE, _updates, requested)
    validate_only = call.get("validate_only", False)
    try:
        result = decide(
            metadata.draft,
            list(updates.values()),
            node_id=broker.node_id,
            kraft_version=metadata.kraft_version,
            min_insync_replicas=broker.config.min_insync_replicas,
            validate_only=validate_only,
            upgrade_kraft=metadata.kraft_upgrade(validate_only=validate_only),
        )
    except Refused as refused:
        code, message = refused.error
        return call.respond(error_code=code, error_message=f"{FAILED}{message}", results=())
    await metadata.append(result.records)
    results = tuple(
        call.new("UpdatableFeatureResult", feature=name, error_code=ErrorCode.NONE, error_message="NONE")
        for name in (updates if call.has("UpdateFeaturesResponse", "results") else ())
    )
    return call.respond(error_code=ErrorCode.NONE, error_message=None, results=results)


def _updates(requested: Iterable[types.FeatureUpdateKey]) -> dict[str, FeatureUpdate]:
    """Return feature -> its update; if the request names a feature twice, the last update. Of the features that do not
    exist only the first one is returned, since one such feature suffices to refuse the whole request."""
    found: dict[str, FeatureUpdate] = {}
    unknown: str | None = None
    for each in requested:
        if each.feature not in SUPPORTED_FEATURES:
            unknown = each.feature if unknown is None else unknown
            if each.feature != unknown:
                continue
        found[each.feature] = _update(each)
    return found


def _update(update: types.FeatureUpdateKey) -> FeatureUpdate:
    """Return one feature's update. Version 0 has a downgrade flag in place of the upgrade type; as in Kafka, the flag
    is ignored, and the update counts as an upgrade."""
    return FeatureUpdate(update.feature, update.max_version_level, getattr(update, "upgrade_type", UpgradeType.UPGRADE))
