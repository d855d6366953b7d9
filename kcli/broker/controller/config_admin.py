"""A broker's part of AlterConfigs and IncrementalAlterConfigs: checks, loggers, forwarding to the active controller.

    every resource    at most once in a request; of a known type; no configuration twice; no null as a value
    broker            only this broker, or the default of all; the new values must agree with its other configurations
                      (config/dynamic.py)
    broker logger     changed by this broker at once: loggers belong to its process, and are not in the metadata log
    other types       changed by the controller, see kcli.metadata.config_control

Source: ConfigAdminManager, RuntimeLoggerManager.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, overload

from kcli.broker.authorization import DENIED, FAILED, Authorization, configured
from kcli.broker.config import loggers
from kcli.broker.config.broker_keys import BROKER_KEYS
from kcli.broker.config.dynamic import validate_dynamic
from kcli.broker.config.dynamic_names import applicable
from kcli.broker.config.keys import LIST, to_text
from kcli.broker.config.loggers import BROKER_LOGGER_RESOURCE
from kcli.broker.config.schema import ConfigSchema
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import Message
from kcli.java.values import java_integer, java_split
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
from kcli.metadata.result import NO_ERROR, RECORDS_PER_REQUEST_MAX, TOO_MANY_RECORDS, Error, Refused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation as AclOperation

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.controller.channel import ControllerChannel
    from kcli.broker.metadata.log import MetadataLog
    from kcli.broker.network.certificates import Certificates
    from kcli.broker.wire.types import alter_configs as absolute
    from kcli.broker.wire.types import incremental_alter_configs as incremental

    Alter = absolute.AlterConfigsCall | incremental.IncrementalAlterConfigsCall

CONTROLLED: Final = (TOPIC_RESOURCE, BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE)


@dataclass(frozen=True, slots=True)
class Alteration:
    """The change of one resource. configs: for each configuration its name, the operation (None in AlterConfigs, which
    replaces all values) and the value."""

    resource_type: int
    name: str
    configs: Sequence[tuple[str, int | None, str | None]]


class ConfigAdmin:
    """Changes the configurations that clients of one node request. controller: the channel to the active controller.
    is_alone: whether this node is the only node of its cluster. certificates: the keys and trusted certificates of its
    listeners."""

    def __init__(
        self,
        config: BrokerConfig,
        metadata: MetadataLog,
        controller: ControllerChannel,
        access: Authorization,
        *,
        is_alone: bool,
        certificates: Certificates | None = None,
    ) -> None:
        self._config, self._metadata, self._controller = config, metadata, controller
        self._access = access
        self._is_alone = is_alone
        self._certificates = certificates

    async def alter(
        self, call: Alter, alterations: Sequence[Alteration], *, incremental: bool, validate_only: bool
    ) -> list[Error]:
        """Change the levels of this broker's loggers, and configurations in the metadata log. Return the error of each
        alteration, in order; NO_ERROR for an alteration that has succeeded.

        A request on a controller listener was forwarded by a broker, which has checked the values of its own
        configurations and changed its loggers already: this node does neither for such a request.

        Errors: INVALID_REQUEST, INVALID_CONFIG, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION,
        BROKER_ID_NOT_REGISTERED, POLICY_VIOLATION, UNKNOWN_SERVER_ERROR.
        """
        is_controllers = call.listener in self._config.controller_listener_names
        counts = Counter((each.resource_type, each.name) for each in alterations)
        errors: dict[int, Error] = {}
        for number, each in enumerate(alterations):
            try:
                if counts[each.resource_type, each.name] > 1:
                    raise _invalid("Each resource must appear at most once.")
                _check(each)
                if each.resource_type == BROKER_LOGGER_RESOURCE and incremental and not is_controllers:
                    self._check_allowed(call, each, has_message=False)
                    _alter_loggers(self._config.node_id, each, validate_only=validate_only)
                    errors[number] = NO_ERROR
                elif each.resource_type == BROKER_RESOURCE and not is_controllers:
                    await self._check_broker(each, incremental=incremental)
                elif each.resource_type not in CONTROLLED:
                    raise _invalid(f"Unknown resource type {each.resource_type}")
                if number not in errors and (self._is_alone or is_controllers):
                    self._check_allowed(call, each)
            except Refused as refused:
                errors[number] = refused.error
        left = {number: each for number, each in enumerate(alterations) if number not in errors}
        if self._is_alone or is_controllers:
            found = await self._control(list(left.values()), incremental=incremental, validate_only=validate_only)
        else:
            found = await self._forward(call, list(left)) if left else []
        errors.update(zip(left, found, strict=True))
        return [errors[number] for number in range(len(alterations))]

    async def _forward(self, call: Alter, numbers: Sequence[int]) -> list[Error]:
        """Forward the alterations with these indexes to the active controller, and return their errors."""
        resources: Any = tuple(call.request.resources[number] for number in numbers)
        listener = self._config.controller_listener_names[0]
        response: Any = await self._controller.forward(
            replace(call, request=replace(call.request, resources=resources), listener=listener)
        )
        results = {(each.resource_type, each.resource_name): each for each in response.responses}
        errors = []
        for each in resources:
            answer = results[each.resource_type, each.resource_name]
            errors.append(Error(ErrorCode(answer.error_code), answer.error_message))
        return errors

    async def _control(
        self, alterations: Sequence[Alteration], *, incremental: bool, validate_only: bool
    ) -> list[Error]:
        """Change the configurations as the active controller, and return the error of each alteration. Raises
        NotController if this node is not the active controller; but if `alterations` is empty, as every alteration was
        refused before (by the ACLs, for example), return [] on any node, as Kafka checks the ACLs first."""
        if not alterations:
            return []
        image, schema = self._metadata.draft, ConfigSchema(self._config)
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
            await self._metadata.append(result.records)
        return result.response

    def _check_allowed(self, call: Call, alteration: Alteration, *, has_message: bool = True) -> None:
        """Raise Refused if the client may not alter the resource's configurations. has_message: whether the error has a
        message."""
        resource_type, name = configured(alteration.resource_type, alteration.name)
        if not self._access.allows(call, AclOperation.ALTER_CONFIGS, resource_type, name):
            code = FAILED[resource_type]
            raise Refused(code, DENIED[code] if has_message else None)

    async def _check_broker(self, alteration: Alteration, *, incremental: bool) -> None:
        own_id = self._config.node_id
        if alteration.name and _node_id(alteration.name) != own_id:
            raise _invalid(f"Unexpected broker id, expected {own_id}, but received {alteration.name}")
        per_broker = bool(alteration.name)
        properties = _values(alteration)
        if incremental:
            image = self._metadata.draft if self._is_alone else self._metadata.image
            stored = image.configs(BROKER_RESOURCE, alteration.name)
            properties = _changed(alteration, applicable(stored, [], per_broker=per_broker))
        try:
            validate_dynamic(self._config, properties, per_broker=per_broker)
            if self._certificates is not None and per_broker:
                await self._certificates.check(self._config.changed(self._config.cluster, properties))
        except InvalidConfig as invalid:
            raise _invalid(str(invalid)) from None


@overload
def responses(
    call: absolute.AlterConfigsCall, alterations: Sequence[Alteration], errors: Sequence[Error]
) -> tuple[absolute.AlterConfigsResourceResponse, ...]: ...
@overload
def responses(
    call: incremental.IncrementalAlterConfigsCall, alterations: Sequence[Alteration], errors: Sequence[Error]
) -> tuple[incremental.AlterConfigsResourceResponse, ...]: ...
def responses(call: Call, alterations: Sequence[Alteration], errors: Sequence[Error]) -> tuple[Message, ...]:
    """Return the response for each resource; AlterConfigs and IncrementalAlterConfigs have the same fields."""
    return tuple(
        call.new(
            "AlterConfigsResourceResponse",
            error_code=error.code,
            error_message=error.message,
            resource_type=each.resource_type,
            resource_name=each.name,
        )
        for each, error in zip(alterations, errors, strict=True)
    )


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


def _node_id(name: str) -> int:
    found = java_integer(name)
    if found is None:
        raise _invalid(f"Node id must be an integer, but it is: {name}")
    return found


def _changed(alteration: Alteration, stored: Mapping[str, str]) -> dict[str, str]:
    """Return the configurations that the operations of the alteration make of `stored`, the broker's present ones.
    Raises Refused."""
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
    node_id = _node_id(alteration.name)
    if node_id != own_id:
        raise _invalid(f"Unexpected node id. Expected {own_id}, but received {node_id}")
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
