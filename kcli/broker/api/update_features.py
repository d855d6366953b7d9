"""UpdateFeatures (57): finalize levels of features, all of the request's or none.

v1 upgrade types instead of a flag, validate only (KIP-584, KIP-778). v2 one error for all (KIP-1022). All flexible.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.turns import STEPS_AT_ONCE, apart_if
from kcli.metadata.features import FeatureUpdate, UpgradeType
from kcli.metadata.features import update_features as decide
from kcli.metadata.result import Refused

FAILED = "The update failed for all features since the following feature had an error: "


async def update_features(call: Call) -> Entity:
    """Errors: INVALID_UPDATE_VERSION."""
    broker, metadata = call.broker, call.broker.metadata
    asked = call.request.feature_updates
    updates = await apart_if(len(asked) > STEPS_AT_ONCE, _updates, asked)
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
        return call.respond(error_code=ErrorCode(code), error_message=f"{FAILED}{message}", results=())
    await metadata.append(result.records)
    results = tuple(
        call.new("UpdatableFeatureResult", feature=name, error_code=ErrorCode.none, error_message="NONE")
        for name in (updates if call.has("UpdateFeaturesResponse", "results") else ())
    )
    return call.respond(error_code=ErrorCode.none, error_message=None, results=results)


def _updates(asked: Iterable[Entity]) -> dict[str, FeatureUpdate]:
    """By name: of what is asked for twice the last counts."""
    return {each.feature: _update(each) for each in asked}


def _update(update: Entity) -> FeatureUpdate:
    """Version 0 has a flag to go down instead, which Kafka does not look at."""
    return FeatureUpdate(update.feature, update.max_version_level, getattr(update, "upgrade_type", UpgradeType.UPGRADE))
