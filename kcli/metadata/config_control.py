"""Changing configurations: of topics, brokers, groups, client metrics subscriptions.

A resource's configuration is checked as a whole, as it would be, and refused as a whole; others of the same request are
changed all the same, in one batch: a ConfigRecord for each name, without a value where it is taken back, and behind
them a ClearElrRecord for each new min.insync.replicas where replicas are eligible by it (KIP-966).

What values may be is not known here: see Schema. Source: ConfigurationControlManager, QuorumController, KIP-339.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from kcli.java_values import java_integer, java_split
from kcli.log.config import InvalidConfig
from kcli.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage, Record
from kcli.metadata.metadata_version import CORDONED_DIRECTORIES
from kcli.metadata.result import NO_ERROR, Error, ErrorCode, Refused, Result
from kcli.metadata.snapshot import ELR_VERSION
from kcli.metadata.topic_names import utf16_length

VALUE_LENGTH_MAX: Final = 32_767
MIN_ISR: Final = "min.insync.replicas"
CORDONED: Final = "cordoned.log.dirs"


class Operation(IntEnum):
    """What is done with one configuration; the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class ResourceChange:
    """Changes of some configurations of one resource. operation: as the request numbers it."""

    resource_type: int
    name: str
    operations: Sequence[tuple[str, int, str | None]]


@dataclass(frozen=True, slots=True)
class NewConfigs:
    """All configurations of one resource: those that it has besides are taken back."""

    resource_type: int
    name: str
    configs: Mapping[str, str]


class Schema(Protocol):
    """What configurations there are, of which values."""

    def list_default(self, resource_type: int, name: str) -> Sequence[str] | None:
        """Kafka's default of a configuration that is a list; None where it is none, or not known."""

    def validate(self, resource_type: int, name: str, configs: Mapping[str, str], existing: Mapping[str, str]) -> None:
        """Could these be all configurations of a resource? Raises InvalidConfig, or Refused for another code."""


def incremental_alter_configs(
    image: MetadataImage, schema: Schema, changes: Iterable[ResourceChange], *, validate_only: bool = False
) -> Result[list[Error]]:
    """Change single configurations. Returns an error for each resource, in their order.

    Errors: INVALID_CONFIG, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION,
    BROKER_ID_NOT_REGISTERED. Raises Refused(UNKNOWN_SERVER_ERROR) for an operation that is none.
    """
    attempts = [
        _attempt(image, schema, each.resource_type, each.name, _altered(image, schema, each)) for each in changes
    ]
    return _result(image, attempts, validate_only=validate_only)


def alter_configs(
    image: MetadataImage, schema: Schema, changes: Iterable[NewConfigs], *, validate_only: bool = False
) -> Result[list[Error]]:
    """Replace all configurations. Returns an error for each resource, in their order. Errors: as above."""
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
    """What the single changes come to: name -> new value."""
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
    """The words, and those of the others that are not among them; or without the first of each of the others."""
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
