"""ListConfigResources (74): the resources that can have a configuration.

Topics, brokers and broker loggers are listed whether they have a configuration or not; groups and client metrics only
if they have a configuration.
v0 client metrics only, under the name ListClientMetricsResources. v1 all types; a request without types lists all.
KIP-714, KIP-1142.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kcli.broker.broker import Broker
from kcli.broker.config.describe import RESOURCES
from kcli.broker.config.loggers import BROKER_LOGGER_RESOURCE
from kcli.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from kcli.broker.wire.types import list_config_resources as types


def list_config_resources(broker: Broker, call: types.ListConfigResourcesCall) -> types.ListConfigResourcesResponse:
    """Errors: UNSUPPORTED_VERSION for an unknown type of resource."""
    broker.access.require(call, Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER)
    supported = RESOURCES if call.version else frozenset((CLIENT_METRICS_RESOURCE,))
    requested = set(call.get("resource_types", ())) or supported
    if not requested <= supported:
        return call.respond(error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=())
    return call.respond(
        error_code=ErrorCode.NONE,
        config_resources=tuple(
            call.new("ConfigResource", resource_name=name, resource_type=kind)
            for kind, name in _resources(broker.image)
            if kind in requested
        ),
    )


def _resources(image: MetadataImage) -> Iterator[tuple[int, str]]:
    for kind, name in image.configured:
        if kind in (GROUP_RESOURCE, CLIENT_METRICS_RESOURCE):
            yield kind, name
    for kind in (BROKER_LOGGER_RESOURCE, BROKER_RESOURCE):
        for broker in image.brokers.values():
            if not broker.fenced:
                yield kind, str(broker.id)
    for name in image.topics:
        yield TOPIC_RESOURCE, name
