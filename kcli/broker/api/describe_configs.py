"""DescribeConfigs (32): the configurations of topics, brokers, loggers, client metrics and groups.

v1 sources and synonyms. v2 the same. v3 types and documentation. v4 flexible. KIP-133, KIP-226, KIP-569.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcli.broker.config.describe import RESOURCES, Entry, describe
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.metadata.result import Refused

# What Kafka says where it refuses a request without a reason of its own.
MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)


def describe_configs(call: Call) -> Entity:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST (also for another broker)."""
    resources = call.request.resources
    if any(each.resource_type not in RESOURCES for each in resources):
        return call.respond(
            results=tuple(_refused(call, each, ErrorCode.invalid_request, MALFORMED) for each in resources)
        )
    return call.respond(results=tuple(_result(call, each) for each in resources))


def _result(call: Call, resource: Entity) -> Entity:
    config, image = call.broker.config, call.broker.image
    try:
        entries = describe(config, image, resource.resource_type, resource.resource_name, resource.configuration_keys)
    except Refused as refused:
        return _refused(call, resource, ErrorCode(refused.error.code), refused.error.message or "")
    texts: Mapping[str, str] = {}
    if call.get("include_documentation", False):
        from kcli.broker.config.documentation import documentation

        texts = documentation(resource.resource_type)
    return call.new(
        "DescribeConfigsResult",
        error_code=ErrorCode.none,
        error_message="",
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(_config(call, each, texts.get(each.name)) for each in entries),
    )


def _config(call: Call, entry: Entry, documentation: str | None) -> Entity:
    synonyms = entry.synonyms if call.get("include_synonyms", False) else ()
    return call.new(
        "DescribeConfigsResourceResult",
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=int(entry.source),
        is_sensitive=entry.is_sensitive,
        synonyms=tuple(
            call.new("DescribeConfigsSynonym", name=each.name, value=each.value, source=int(each.source))
            for each in synonyms
        ),
        config_type=int(entry.type),
        documentation=documentation,
    )


def _refused(call: Call, resource: Entity, code: ErrorCode, message: str) -> Entity:
    return call.new(
        "DescribeConfigsResult",
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=(),
    )
