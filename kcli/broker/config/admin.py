"""What a broker does with requests to change configurations, before and after the controller.

    every resource    once in a request; known type; no name twice; no null
    broker            this one, or all; the values must do beside everything else it runs with, see dynamic.py
    broker logger     changed here and now: it is this process's alone, and in no log
    the others        for the controller, see kcli.metadata.config_control

Source: ConfigAdminManager, RuntimeLoggerManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from kcli.broker.config import loggers
from kcli.broker.config.broker_keys import BROKER_KEYS
from kcli.broker.config.dynamic import applicable, validate_dynamic
from kcli.broker.config.keys import LIST, to_text
from kcli.broker.config.loggers import BROKER_LOGGER_RESOURCE
from kcli.broker.config.schema import ConfigSchema
from kcli.broker.network.messages import Call, Entity
from kcli.broker.network.messages import ErrorCode as WireCode
from kcli.java_values import java_integer, java_split
from kcli.log.config import InvalidConfig
from kcli.metadata.config_control import (
    NewConfigs,
    Operation,
    ResourceChange,
    alter_configs,
    incremental_alter_configs,
)
from kcli.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from kcli.metadata.result import NO_ERROR, RECORDS_PER_REQUEST_MAX, TOO_MANY_RECORDS, Error, ErrorCode, Refused

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

CONTROLLED: Final = (TOPIC_RESOURCE, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


@dataclass(frozen=True, slots=True)
class Alteration:
    """What a request wants of one resource. configs: name, operation (None where all are replaced), value."""

    resource_type: int
    name: str
    configs: Sequence[tuple[str, int | None, str | None]]


async def alter(
    call: Call, alterations: Sequence[Alteration], *, incremental: bool, validate_only: bool
) -> list[Error]:
    """Change configurations, of this broker's loggers and in the metadata log. Returns each one's error, in order.

    What came through a controller's listener was looked at by the broker that forwarded it.

    Errors: INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION,
    BROKER_ID_NOT_REGISTERED, UNKNOWN_SERVER_ERROR.
    """
    broker = call.broker
    is_controllers = call.listener in broker.config.controller_listener_names
    seen = Counter((each.resource_type, each.name) for each in alterations)
    errors: dict[int, Error] = {}
    for number, each in enumerate(alterations):
        try:
            if seen[each.resource_type, each.name] > 1:
                raise _invalid("Each resource must appear at most once.")
            _check(each)
            if each.resource_type == BROKER_LOGGER_RESOURCE and incremental and not is_controllers:
                _alter_loggers(broker.node_id, each, validate_only=validate_only)
                errors[number] = NO_ERROR
            elif each.resource_type == BROKER_RESOURCE and not is_controllers:
                _check_broker(broker, each, incremental=incremental)
            elif each.resource_type not in CONTROLLED:
                raise _invalid(f"Unknown resource type {each.resource_type}")
        except Refused as refused:
            errors[number] = refused.error
    left = {number: each for number, each in enumerate(alterations) if number not in errors}
    if broker.is_alone or is_controllers:
        found = await _control(broker, list(left.values()), incremental=incremental, validate_only=validate_only)
    else:
        found = await _forward(call, list(left)) if left else []
    errors.update(zip(left, found, strict=True))
    return [errors[number] for number in range(len(alterations))]


async def _forward(call: Call, numbers: Sequence[int]) -> list[Error]:
    """What the active controller says of the resources with these numbers."""
    resources = tuple(call.request.resources[number] for number in numbers)
    listener = call.broker.config.controller_listener_names[0]
    response = await call.broker.controller.forward(
        replace(call, request=replace(call.request, resources=resources), listener=listener)
    )
    said = {(each.resource_type, each.resource_name): each for each in response.responses}
    errors = []
    for each in resources:
        answer = said[each.resource_type, each.resource_name]
        errors.append(Error(ErrorCode(answer.error_code.value), answer.error_message))
    return errors


def responses(call: Call, alterations: Sequence[Alteration], errors: Sequence[Error]) -> tuple[Entity, ...]:
    """What is answered of each resource, in both requests that change some."""
    return tuple(
        call.new(
            "AlterConfigsResourceResponse",
            error_code=WireCode(error.code),
            error_message=error.message,
            resource_type=each.resource_type,
            resource_name=each.name,
        )
        for each, error in zip(alterations, errors, strict=True)
    )


async def _control(
    broker: Broker, alterations: Sequence[Alteration], *, incremental: bool, validate_only: bool
) -> list[Error]:
    """The controller's part."""
    image, schema = broker.metadata.draft, ConfigSchema(broker.config)
    try:
        if incremental:
            changes = [ResourceChange(each.resource_type, each.name, _operations(each)) for each in alterations]
            result = incremental_alter_configs(image, schema, changes, validate_only=validate_only)
        else:
            new = [NewConfigs(each.resource_type, each.name, _values(each)) for each in alterations]
            result = alter_configs(image, schema, new, validate_only=validate_only)
    except Refused as refused:
        return [refused.error] * len(alterations)
    if result.records:
        await broker.metadata.append(result.records)
    return result.response


def _operations(alteration: Alteration) -> list[tuple[str, int, str | None]]:
    return [(name, -1 if operation is None else operation, value) for name, operation, value in alteration.configs]


def _values(alteration: Alteration) -> dict[str, str]:
    return {name: value for name, _, value in alteration.configs if value is not None}


def _invalid(reason: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, reason)


def _check(alteration: Alteration) -> None:
    if len(alteration.configs) > RECORDS_PER_REQUEST_MAX:
        raise Refused(ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS)
    names = [name for name, _, _ in alteration.configs]
    if len(set(names)) != len(names):
        raise _invalid("Error due to duplicate config keys")
    nulls = [name for name, operation, value in alteration.configs if value is None and operation != Operation.DELETE]
    if nulls:
        raise _invalid(f"Null value not supported for : {', '.join(nulls)}")


def _check_broker(broker: Broker, alteration: Alteration, *, incremental: bool) -> None:
    if alteration.name and _node_id(alteration.name) != broker.node_id:
        raise _invalid(f"Unexpected broker id, expected {broker.node_id}, but received {alteration.name}")
    per_broker = bool(alteration.name)
    properties = _values(alteration)
    if incremental:
        image = broker.metadata.draft if broker.is_alone else broker.image
        stored = image.configs(BROKER_RESOURCE, alteration.name)
        properties = _changed(alteration, applicable(stored, [], per_broker=per_broker))
    try:
        validate_dynamic(broker.config, properties, per_broker=per_broker)
    except InvalidConfig as invalid:
        raise _invalid(str(invalid)) from None


def _node_id(name: str) -> int:
    found = java_integer(name)
    if found is None:
        raise _invalid(f"Node id must be an integer, but it is: {name}")
    return found


def _changed(alteration: Alteration, stored: Mapping[str, str]) -> dict[str, str]:
    """The stored properties, changed as the operations say."""
    properties = dict(stored)
    for _, number, _ in alteration.configs:
        if number not in tuple(Operation):
            raise _invalid(f"Unknown operations type {number}")
    for name, number, value in alteration.configs:
        operation = Operation(number or 0)
        if operation is Operation.SET:
            properties[name] = value or ""
        elif operation is Operation.DELETE:
            properties.pop(name, None)
        else:
            _check_list(name, operation)
            current = properties.get(name, to_text(BROKER_KEYS[name].default) or "")
            properties[name] = _combined(operation, current, value or "")
    return properties


def _check_list(name: str, operation: Operation) -> None:
    if name not in BROKER_KEYS:
        raise Refused(ErrorCode.INVALID_CONFIG, f"Unknown config name: {name}")
    if BROKER_KEYS[name].type is not LIST:
        reason = f"Config value {operation.name.lower()} is not allowed for config key: {name}"
        raise Refused(ErrorCode.INVALID_CONFIG, reason)


def _combined(operation: Operation, current: str, text: str) -> str:
    words, others = java_split(current) if current else [], java_split(text)
    if operation is Operation.APPEND:
        known = set(words)
        return ",".join(words + [word for word in others if word not in known])
    rest = Counter(words) - Counter(others)
    return ",".join(word for word in rest.elements())


def _alter_loggers(own_id: int, alteration: Alteration, *, validate_only: bool) -> None:
    wanted = _node_id(alteration.name)
    if wanted != own_id:
        raise _invalid(f"Unexpected node id. Expected {own_id}, but received {wanted}")
    for name, operation, level in alteration.configs:
        _check_logger(name, operation, level)
    if not validate_only:
        for name, _, level in alteration.configs:
            loggers.set_level(name, level)


def _check_logger(name: str, operation: int | None, level: str | None) -> None:
    if operation in (Operation.APPEND, Operation.SUBTRACT):
        raise _invalid(f"{Operation(operation).name} operation is not allowed for the BROKER_LOGGER resource")
    if operation not in (Operation.SET, Operation.DELETE):
        raise _invalid(f"Unknown operation type {operation} is not allowed for the BROKER_LOGGER resource")
    if not loggers.exists(name):
        raise Refused(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation == Operation.DELETE and name == loggers.ROOT:
        raise _invalid("Removing the log level of the root logger is not allowed")
    if operation == Operation.SET and level not in loggers.LEVELS:
        raise Refused(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {level} as it is not a supported log level. Valid log levels are "
            f"{', '.join(loggers.LEVELS)}",
        )
