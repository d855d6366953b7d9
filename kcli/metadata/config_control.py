"""Changes of the configurations of topics, brokers, groups and client metrics subscriptions.

Each resource of a request is changed or refused as a whole, independently of the request's other resources; its new
configuration is validated as a whole. The records of all are one batch: a ConfigRecord for each name, with a null value
if the configuration is deleted, and then, with ELR enabled, a ClearElrRecord for each new min.insync.replicas
(KIP-966).

A Schema knows the configurations and their valid values. Source: ConfigurationControlManager, QuorumController,
KIP-339.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from kcli.java.values import java_integer, java_split
from kcli.log.config import InvalidConfig
from kcli.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage, Record
from kcli.metadata.metadata_version import CORDONED_DIRECTORIES
from kcli.metadata.result import NO_ERROR, Error, Refused, Result
from kcli.metadata.snapshot import ELR_VERSION
from kcli.metadata.topic_names import utf16_length
from kcli.protocol.error_code import ErrorCode

VALUE_LENGTH_MAX: Final = 32_767
MIN_ISR: Final = "min.insync.replicas"
CORDONED: Final = "cordoned.log.dirs"


class Operation(IntEnum):
    """The operations of IncrementalAlterConfigs, by their numbers; APPEND and SUBTRACT are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """Changes of single configurations of one resource. operations: for each change the name of the configuration, the
    number of the Operation, and the value, None for DELETE."""

    resource_type: int
    name: str
    operations: Sequence[tuple[str, int, str | None]]


@dataclass(frozen=True, slots=True)
class NewConfigs:
    """All configurations that one resource is to have; all other configurations of the resource are deleted."""

    resource_type: int
    name: str
    configs: Mapping[str, str]


class Schema(Protocol):
    """Kafka's configurations, by resource type and name, and which values are valid for them."""

    def list_default(self, resource_type: int, name: str) -> Sequence[str] | None:
        """Return Kafka's default of a configuration of type LIST; None for another type or an unknown name."""

    def validate(self, resource_type: int, name: str, configs: Mapping[str, str], existing: Mapping[str, str]) -> None:
        """Validate `configs` as all configurations of a resource. existing: its current ones. Raises InvalidConfig, or
        Refused for an error other than INVALID_CONFIG."""


def incremental_alter_configs(
    image: MetadataImage, schema: Schema, changes: Iterable[ResourceChange], *, validate_only: bool = False
) -> Result[list[Error]]:
    """Change single configurations. Return an error, or NO_ERROR, for each resource, in their order. validate_only:
    return the same errors, but no records.

    Errors: INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION,
    BROKER_ID_NOT_REGISTERED. Raises Refused(UNKNOWN_SERVER_ERROR) for an unknown operation.
    """
    attempts = [
        _attempt(image, schema, each.resource_type, each.name, _altered(image, schema, each)) for each in changes
    ]
    return _result(image, attempts, validate_only=validate_only)


def alter_configs(
    image: MetadataImage, schema: Schema, changes: Iterable[NewConfigs], *, validate_only: bool = False
) -> Result[list[Error]]:
    """Replace all configurations of resources. Return an error, or NO_ERROR, for each resource, in their order. The
    errors and validate_only are those of `incremental_alter_configs`."""
    attempts = [_attempt(image, schema, each.resource_type, each.name, _replaced(image, each)) for each in changes]
    return _result(image, attempts, validate_only=validate_only)


Attempt = tuple[Error, list[Record]]


def _result(image: MetadataImage, attempts: Sequence[Attempt], *, validate_only: bool) -> Result[list[Error]]:
    records = [record for _, its_records in attempts for record in its_records]
    records += _clear_elr(image, records)
    return Result([] if validate_only else records, [error for error, _ in attempts])


def _clear_elr(image: MetadataImage, records: Iterable[Record]) -> list[Record]:
    if not _has_elr(image):
        return []
    values = [value for _, _, value in records if value["name"] == MIN_ISR]
    return [
        ("ClearElrRecord", 0, {"topicName": each["resourceName"] if each["resourceType"] == TOPIC_RESOURCE else ""})
        for each in values
    ]


def _altered(image: MetadataImage, schema: Schema, change: ResourceChange) -> dict[str, str | None] | Error:
    """Return the configurations that the operations change: the new value by name, None for a deleted one; for brokers
    also those whose value stays the same. Returns the error INVALID_CONFIG for an invalid change. Raises Refused for an
    unknown operation."""
    existing = image.configs(change.resource_type, change.name)
    altered: dict[str, str | None] = {}
    for name, number, value in change.operations:
        current = existing.get(name)
        if number not in tuple(Operation):
            raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
        operation = Operation(number)
        if operation in (Operation.SET, Operation.DELETE):
            new = value if operation is Operation.SET else None
        else:
            default = schema.list_default(change.resource_type, name)
            if default is None:
                reason = f"Can't {operation.name} to key {name} because its type is not LIST."
                return Error(ErrorCode.INVALID_CONFIG, reason)
            words = [*default] if current is None else [word for word in current.split(",") if word]
            new = ",".join(combined(operation, words, java_split(value or "")))
        if new != current or change.resource_type == BROKER_RESOURCE:
            altered[name] = new
    return altered


def combined(operation: Operation, words: list[str], others: Sequence[str]) -> list[str]:
    """APPEND: return `words`, followed by the items of `others` that `words` lacks. SUBTRACT: return `words` without
    the first occurrence of each of `others`."""
    if operation is Operation.APPEND:
        known = set(words)
        return words + [word for word in dict.fromkeys(others) if word not in known]
    left = Counter(others)
    kept = []
    for word in words:
        if left[word] > 0:
            left[word] -= 1
        else:
            kept.append(word)
    return kept


def _replaced(image: MetadataImage, change: NewConfigs) -> dict[str, str | None]:
    existing = image.configs(change.resource_type, change.name)
    is_broker = change.resource_type == BROKER_RESOURCE
    given = {name: value for name, value in change.configs.items() if is_broker or existing.get(name) != value}
    return {**given, **{name: None for name in existing if name not in change.configs}}


def _attempt(
    image: MetadataImage,
    schema: Schema,
    resource_type: int,
    name: str,
    altered: Mapping[str, str | None] | Error,
) -> Attempt:
    if isinstance(altered, Error):
        return altered, []
    existing = image.configs(resource_type, name)
    configs = dict(existing)
    try:
        for key, value in altered.items():
            _check_allowed(image, resource_type, name, key, value)
            if value is None:
                configs.pop(key, None)
            else:
                configs[key] = value
        schema.validate(resource_type, name, configs, existing)
        _check_exists(image, resource_type, name)
    except InvalidConfig as invalid:
        return Error(ErrorCode.INVALID_CONFIG, str(invalid)), []
    except Refused as refused:
        return refused.error, []
    records: list[Record] = [
        ("ConfigRecord", 0, {"resourceType": resource_type, "resourceName": name, "name": key, "value": value})
        for key, value in altered.items()
    ]
    return NO_ERROR, records


def _check_allowed(image: MetadataImage, resource_type: int, resource: str, name: str, value: str | None) -> None:
    if resource_type == BROKER_RESOURCE and name == MIN_ISR and _has_elr(image):
        if resource:
            raise InvalidConfig("Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
        if value is None:
            raise InvalidConfig("Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
    if resource_type == BROKER_RESOURCE and name == CORDONED and image.metadata_version < CORDONED_DIRECTORIES:
        raise InvalidConfig(
            "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >= 4.3-IV0"
        )
    if value is not None and utf16_length(value) > VALUE_LENGTH_MAX:
        raise InvalidConfig(
            "The configuration value cannot be added because it exceeds the maximum value size of "
            f"{VALUE_LENGTH_MAX} bytes."
        )


def _check_exists(image: MetadataImage, resource_type: int, name: str) -> None:
    if resource_type == TOPIC_RESOURCE and image.topic(name) is None:
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if resource_type == BROKER_RESOURCE and name:
        node = java_integer(name)
        if node not in image.brokers and node not in image.controllers:
            raise Refused(ErrorCode.BROKER_ID_NOT_REGISTERED, f"No node with id {node} found.")


def _has_elr(image: MetadataImage) -> bool:
    return image.features.get(ELR_VERSION, 0) > 0
