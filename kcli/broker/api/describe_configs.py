"""DescribeConfigs (32): the configurations of topics, brokers, loggers, client metrics and groups.

v1 sources and synonyms. v2 as v1. v3 types and documentation. v4 flexible. KIP-133, KIP-226, KIP-569.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from kcli.broker.authorization import DENIED, FAILED, configured
from kcli.broker.broker import Broker
from kcli.broker.config.describe import RESOURCES, Entry, describe
from kcli.broker.dispatch.inputs import Inputs
from kcli.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation

if TYPE_CHECKING:
    from kcli.broker.wire.messages import Messages
    from kcli.broker.wire.types import describe_configs as types

RESOURCES_MAX: Final = 4
"""The greatest number of resources in a request whose response is cached (dispatch/kept.py)."""
SHARED: Final = 16
"""The greatest number of results of `_configs` that are cached; resources with equal configurations share a result."""

# Kafka's message for an INVALID_REQUEST without a specific message.
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


def describe_configs(broker: Broker, call: types.DescribeConfigsCall) -> types.DescribeConfigsResponse:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST (for another broker's
    configurations, too)."""
    resources = call.request.resources
    if any(each.resource_type not in RESOURCES for each in resources):
        return call.respond(
            results=tuple(_refused(call, each, ErrorCode.INVALID_REQUEST, MALFORMED) for each in resources)
        )
    return call.respond(results=tuple(_result(broker, call, each) for each in resources))


def inputs(broker: Broker, call: types.DescribeConfigsCall) -> Inputs:
    """Return what the response depends on: the request, the metadata image and the broker's dynamic configuration. The
    response is cached (dispatch/kept.py) only if the request asks for all configurations of at most RESOURCES_MAX
    resources, each an existing topic, this broker, or the default of all brokers."""
    config, image, resources = broker.config, broker.image, call.request.resources
    brokers = "", str(config.node_id)
    is_known = len(resources) <= RESOURCES_MAX and all(
        not each.configuration_keys
        and (
            (each.resource_type == TOPIC_RESOURCE and each.resource_name in image.topics)
            or (each.resource_type == BROKER_RESOURCE and each.resource_name in brokers)
        )
        for each in resources
    )
    state = image.version, tuple(config.broker.items()), tuple(config.cluster.items())
    return Inputs(call.request if is_known else None, state, is_slow=True)


def _result(
    broker: Broker, call: types.DescribeConfigsCall, resource: types.DescribeConfigsResource
) -> types.DescribeConfigsResult:
    config, image = broker.config, broker.image
    resource_type, name = configured(resource.resource_type, resource.resource_name)
    if not broker.access.allows(call, Operation.DESCRIBE_CONFIGS, resource_type, name):
        return _refused(call, resource, FAILED[resource_type], DENIED[FAILED[resource_type]])
    try:
        entries = describe(config, image, resource.resource_type, resource.resource_name, resource.configuration_keys)
    except Refused as refused:
        return _refused(call, resource, refused.error.code, refused.error.message or "")
    request = call.request
    documented = resource.resource_type if call.get("include_documentation", False) else None
    return call.new(
        "DescribeConfigsResult",
        error_code=ErrorCode.NONE,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=_configs(call.messages, tuple(entries), documented, with_synonyms=request.include_synonyms),
    )


@lru_cache(maxsize=SHARED)
def _configs(
    messages: Messages, entries: tuple[Entry, ...], documented: int | None, *, with_synonyms: bool
) -> tuple[types.DescribeConfigsResourceResult, ...]:
    """Return the configurations of a resource as objects of the response. The last SHARED results are cached, so that
    resources with equal configurations share one result. Without the cache, a response about 10,000 groups that have no
    configuration of their own would take 200 MB.

    messages: the message classes of the request's version. documented: the type of the resource if the response has the
    documentation of each configuration; None for no documentation.
    """
    texts: Mapping[str, str] = {}
    if documented is not None:
        from kcli.broker.config.documentation import documentation

        texts = documentation(documented)
    return tuple(
        messages.new(
            "DescribeConfigsResourceResult",
            {
                "name": entry.name,
                "value": entry.value,
                "read_only": entry.is_read_only,
                "config_source": int(entry.source),
                "is_sensitive": entry.is_sensitive,
                "synonyms": _synonyms(messages, entry) if with_synonyms else (),
                "config_type": int(entry.type),
                "documentation": texts.get(entry.name),
            },
        )
        for entry in entries
    )


def _synonyms(messages: Messages, entry: Entry) -> tuple[types.DescribeConfigsSynonym, ...]:
    return tuple(
        messages.new("DescribeConfigsSynonym", {"name": each.name, "value": each.value, "source": int(each.source)})
        for each in entry.synonyms
    )


def _refused(
    call: types.DescribeConfigsCall, resource: types.DescribeConfigsResource, code: ErrorCode, message: str
) -> types.DescribeConfigsResult:
    return call.new(
        "DescribeConfigsResult",
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )
