"""UpdateFeatures: the finalized levels of a cluster's features.

    feature                            levels  initial   meaning
    metadata.version                   7..30   30        see metadata_version.py
    kraft.version                      0..1    0         1: the voters are in the metadata log
    transaction.version                0..2    2         1: flexible records; 2: an epoch for each transaction (KIP-890)
    group.version                      0..1    1         the consumer protocol (KIP-848)
    eligible.leader.replicas.version   0..1    1         ELR (KIP-966); needs metadata.version 23
    share.version                      0..1    0         share groups (KIP-932)
    streams.version                    0..1    0         streams groups (KIP-1071)

The levels are those that a node of Kafka 4.3 supports. The initial ones are what `kafka-storage format` gives a new
cluster, except for share.version and streams.version: Kafka begins with 1, but kcli does not serve these groups yet.
Both may be 1 in a log directory or a cluster that Kafka created. Source: Feature and the Version classes,
QuorumFeatures, FeatureControlManager; KIP-584, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kcli.metadata import metadata_version as levels
from kcli.metadata.image import BROKER_RESOURCE, KRAFT_VERSION, METADATA_VERSION, MetadataImage, Record
from kcli.metadata.registration import VersionRange
from kcli.metadata.result import Refused, Result
from kcli.metadata.snapshot import ELR_VERSION
from kcli.protocol.error_code import ErrorCode

MIN_ISR: Final = "min.insync.replicas"

SUPPORTED_FEATURES: Final[Mapping[str, VersionRange]] = {
    "group.version": VersionRange(0, 1),
    KRAFT_VERSION: VersionRange(0, 1),
    METADATA_VERSION: VersionRange(levels.MINIMUM, levels.LATEST),
    "share.version": VersionRange(0, 1),
    "streams.version": VersionRange(0, 1),
    "transaction.version": VersionRange(0, 2),
    ELR_VERSION: VersionRange(0, 1),
}
NEEDS_METADATA_VERSION: Final = {(ELR_VERSION, 1): levels.ELR}
FIRST_LEVELS: Final = {ELR_VERSION: (1, 26), "group.version": (1, 22), "transaction.version": (2, 24)}
"""By feature: its level in a new cluster, and the lowest metadata.version with which a new cluster has that level."""


class UpgradeType(IntEnum):
    """Whether an update may lower a level; the values are the numbers in UpdateFeatures."""

    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def first_levels(metadata_version: int = levels.LATEST) -> dict[str, int]:
    """Return the initial levels of the features in a new cluster with that metadata.version; metadata.version is the
    first key. Features at level 0 are included; kraft.version is not, as a control record of the metadata log has
    it."""
    first = {name: level if metadata_version >= since else 0 for name, (level, since) in FIRST_LEVELS.items()}
    return {METADATA_VERSION: metadata_version} | {
        name: first.get(name, 0) for name in sorted(SUPPORTED_FEATURES.keys() - {METADATA_VERSION, KRAFT_VERSION})
    }


@dataclass(frozen=True, slots=True)
class FeatureUpdate:
    """A feature's new level; 0 disables the feature."""

    name: str
    level: int
    upgrade_type: int = UpgradeType.UPGRADE


def update_features(
    image: MetadataImage,
    updates: Sequence[FeatureUpdate],
    *,
    node_id: int,
    upgrade_kraft: Callable[[int], None],
    kraft_version: int = 0,
    min_insync_replicas: int = 1,
    validate_only: bool = False,
) -> Result[None]:
    """Set the levels of features, all of them or none.

    node_id: of this controller. kraft_version: the current level of kraft.version. min_insync_replicas: from the
    controller's properties. upgrade_kraft(level): raises the quorum's kraft.version, and may raise Refused.
    validate_only: return no records. Raises Refused(INVALID_UPDATE_VERSION), whose message names the first feature that
    cannot be set.
    """
    requested = {update.name: update for update in updates}
    proposed = {**image.features, **{name: update.level for name, update in requested.items()}}
    records: list[Record] = []
    for update in requested.values():
        current = kraft_version if update.name == KRAFT_VERSION else image.features.get(update.name, 0)
        _check(image, update, current, node_id)
        if update.name == METADATA_VERSION:
            _check_metadata_version(update, current)
        elif update.name == KRAFT_VERSION:
            _check_kraft_version(update, current)
            continue
        elif update.name not in SUPPORTED_FEATURES:
            raise _invalid(update, f"Feature {update.name} not found.")
        else:
            _check_needs(update, proposed)
        records.append(("FeatureLevelRecord", 0, {"name": update.name, "featureLevel": update.level}))
    if KRAFT_VERSION in requested:
        upgrade_kraft(requested[KRAFT_VERSION].level)
    if validate_only:
        return Result([], None)
    if requested.get(ELR_VERSION, FeatureUpdate(ELR_VERSION, 0)).level > 0:
        records = [*_elr_safety(image, min_insync_replicas), *records]
    return Result(records, None)


def _invalid(update: FeatureUpdate, reason: str) -> Refused:
    message = f"Invalid update version {update.level} for feature {update.name}. {reason}"
    return Refused(ErrorCode.INVALID_UPDATE_VERSION, message)


def _check(image: MetadataImage, update: FeatureUpdate, current: int, node_id: int) -> None:
    if update.upgrade_type not in tuple(UpgradeType) or update.upgrade_type == UpgradeType.UNKNOWN:
        raise _invalid(update, "The controller does not support the given upgrade type.")
    if update.level < 0:
        raise _invalid(update, "A feature version cannot be less than 0.")
    nodes = {f"Local controller {node_id}": SUPPORTED_FEATURES}
    nodes |= {f"Broker {broker.id}": broker.features for broker in image.brokers.values()}
    if image.metadata_version >= levels.CONTROLLER_REGISTRATION:
        others = (each for each in image.controllers.values() if each.id != node_id)
        nodes |= {f"Controller {each.id}": each.features for each in others}
    for node, supported in nodes.items():
        least, most = supported.get(update.name, (0, 0))
        if not least <= update.level <= most:
            versions = f"{least}-{most}" if least != most else str(least)
            reason = f"only supports versions {versions}" if most else "does not support this feature."
            raise _invalid(update, f"{node} {reason}")
    upgrade = update.upgrade_type == UpgradeType.UPGRADE
    if update.level < current and upgrade:
        reason = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
        raise _invalid(update, reason)
    if update.level > current and not upgrade:
        raise _invalid(update, "Can't downgrade to a newer version.")


def _check_metadata_version(update: FeatureUpdate, current: int) -> None:
    if update.level >= current or not levels.loses_metadata(current, update.level):
        return
    if update.upgrade_type == UpgradeType.UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    else:
        reason = "Refusing to perform the requested downgrade because it might delete metadata information."
    message = f"Unsupported metadata.version downgrade from {current} to {update.level}. {reason}"
    raise Refused(ErrorCode.INVALID_UPDATE_VERSION, message)


def _check_kraft_version(update: FeatureUpdate, current: int) -> None:
    if update.level < current:
        raise _invalid(update, "Can't downgrade the version of this feature.")


def _check_needs(update: FeatureUpdate, proposed: Mapping[str, int]) -> None:
    needed = NEEDS_METADATA_VERSION.get((update.name, update.level), 0)
    if proposed.get(METADATA_VERSION, 0) < needed:
        reason = (
            f"{update.name} could not be set to {update.level} because it depends on {METADATA_VERSION} level {needed}"
        )
        raise _invalid(update, reason)


def _elr_safety(image: MetadataImage, min_insync_replicas: int) -> list[Record]:
    """Return the records that leave one min.insync.replicas for all brokers, as ELR requires: they set the cluster-wide
    value if it is missing, and delete the values of single brokers."""
    records = []
    if MIN_ISR not in image.configs(BROKER_RESOURCE, ""):
        records.append(_min_isr("", str(min_insync_replicas)))
    for (kind, name), configs in image.configured.items():
        if kind == BROKER_RESOURCE and name and MIN_ISR in configs:
            records.append(_min_isr(name, None))
    return records


def _min_isr(broker: str, value: str | None) -> Record:
    resource = {"resourceType": BROKER_RESOURCE, "resourceName": broker}
    return "ConfigRecord", 0, {**resource, "name": MIN_ISR, "value": value}
