"""ListConfigResources (74): what can have a configuration.

Topics, brokers and loggers are listed whether they have one or not; groups and client metrics where they have one.
v0 client metrics only, it was ListClientMetricsResources. v1 every type, and none in the request for all of them.
KIP-714, KIP-1142.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcli.broker.config.describe import RESOURCES
from kcli.broker.config.loggers import BROKER_LOGGER_RESOURCE
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)


def list_config_resources(call: Call) -> Entity:
    """Errors: UNSUPPORTED_VERSION for a type that there is not."""
    supported = RESOURCES if call.version else frozenset((CLIENT_METRICS_RESOURCE,))
    wanted = set(call.get("resource_types", ())) or supported
    if not wanted <= supported:
        return call.respond(error_code=ErrorCode.unsupported_version, config_resources=())
    return call.respond(
        error_code=ErrorCode.none,
        config_resources=tuple(
            call.new("ConfigResource", resource_name=name, resource_type=kind)
            for kind, name in _resources(call.broker.image)
            if kind in wanted
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
