"""The valid values of the configurations of topics, brokers, groups and client metrics, for the controller.

Source: ControllerConfigurationValidator, KafkaConfigSchema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcli.broker.config.broker_config import BrokerConfig
from kcli.broker.config.broker_keys import BROKER_KEYS
from kcli.broker.config.client_metrics import InvalidSubscription, validate_client_metrics
from kcli.broker.config.group_config import validate_group_config
from kcli.broker.config.keys import LIST
from kcli.java.values import java_integer
from kcli.log.config import TOPIC_CONFIGS, Type, validate_topic_configs
from kcli.metadata.image import BROKER_RESOURCE, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from kcli.metadata.result import Refused
from kcli.metadata.topic_names import fault
from kcli.protocol.error_code import ErrorCode


@dataclass(frozen=True, slots=True)
class ConfigSchema:
    """The implementation of the schema that kcli.metadata.config_control needs, with the defaults and limits of one
    broker's configuration."""

    config: BrokerConfig

    def list_default(self, resource_type: int, name: str) -> Sequence[str] | None:
        """Return Kafka's default of a topic's or broker's configuration of type LIST, empty if it has no default; None
        for any other configuration."""
        if resource_type == TOPIC_RESOURCE and name in TOPIC_CONFIGS:
            topic_key = TOPIC_CONFIGS[name]
            return _words(topic_key.default) if topic_key.type is Type.LIST else None
        if resource_type == BROKER_RESOURCE and name in BROKER_KEYS:
            broker_key = BROKER_KEYS[name]
            return _words(broker_key.default) if broker_key.type is LIST else None
        return None

    def validate(self, resource_type: int, name: str, configs: Mapping[str, str], existing: Mapping[str, str]) -> None:
        """Check all configurations of a resource (`configs`). existing: the resource's configurations before the
        change. Raises InvalidConfig, or Refused for another error code."""
        if resource_type == TOPIC_RESOURCE:
            self._validate_topic(name, configs, existing)
        elif resource_type == BROKER_RESOURCE:
            _validate_broker_name(name)  # the broker itself has checked the values (config_admin.py)
        elif resource_type == GROUP_RESOURCE:
            if not name:
                raise Refused(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
            validate_group_config(self.config, configs)
        elif resource_type == CLIENT_METRICS_RESOURCE:
            try:
                validate_client_metrics(name, configs)
            except InvalidSubscription as invalid:
                raise Refused(ErrorCode.INVALID_REQUEST, str(invalid)) from None
        else:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource_type}")

    def _validate_topic(self, name: str, configs: Mapping[str, str], existing: Mapping[str, str]) -> None:
        if not name:
            raise Refused(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
        reason = fault(name)
        if reason is not None:
            raise Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)
        validate_topic_configs(
            configs,
            existing=existing,
            defaults=self.config.topic_defaults,
            remote_storage=self.config.remote_log_storage_system_enable,
            schemas=self.config.has_registry,
        )


def _words(default: object) -> tuple[str, ...]:
    return default if isinstance(default, tuple) else ()


def _validate_broker_name(name: str) -> None:
    node = java_integer(name) if name else 0
    if node is None:
        raise Refused(ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number.")
    if node < 0:
        raise Refused(ErrorCode.INVALID_REQUEST, "Invalid negative broker ID.")
