"""The settings in a cluster's metadata log, other than topics and brokers, as far as brokers show them to a client.

    features    ApiVersions           configurations   DescribeConfigs, ListConfigResources: those that are set
    quotas      DescribeClientQuotas  ACLs             DescribeAcls

Brokers do not show the salted passwords of SCRAM users (DescribeUserScramCredentials has their names), the keys of
delegation tokens, and configurations of the type PASSWORD. Configurations of a single broker are not read, as they
concern its listeners and disks. Source: KIP-226, KIP-546, KIP-554, KIP-584, KIP-1000, KIP-1142.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from formats.message import uuid_text
from kcli.client.acls import Acls
from kcli.client.users import Users
from kcli.client.wire import AnyBroker, ErrorAnswer, NobodyAnswers, call, details
from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode
from kcli.security.acl_filter import AclFilter
from kcli.security.acls import Acl, Operation, PatternType, Permission, ResourceType

# isort: split
from kio.schema.describe_client_quotas.v1.request import DescribeClientQuotasRequest
from kio.schema.describe_client_quotas.v1.response import DescribeClientQuotasResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.schema.list_config_resources.v1.request import ListConfigResourcesRequest
from kio.schema.list_config_resources.v1.response import ListConfigResourcesResponse
from kio.static.primitive import i8

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
"""Types of resources that have configurations."""
SET = {TOPIC: 1, BROKER: 3, CLIENT_METRICS: 7, GROUP: 8}
"""The source, as a code of DescribeConfigs, of a configuration that is set for a resource itself, by the type of the
resource."""
TOGETHER = 100
ALL_ACLS = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)


class Resource(NamedTuple):
    """A resource that has configurations. type: its code in ConfigResource. name: "" for all brokers."""

    type: int
    name: str


TIERED = ("remote.storage.enable", "remote.log.copy.disable", "remote.log.delete.on.disable")
"""The configurations with which a topic uses tiered storage."""


class Quota(NamedTuple):
    """The quotas of an entity. entity: name by entity type ("user"), None for the default entity. values: limit by
    quota."""

    entity: Mapping[str, str | None]
    values: Mapping[str, float]


@dataclass(slots=True)
class Settings:
    """The settings of a cluster. features: finalized levels. configs: configurations that are not defaults.
    segment_bytes: segment.bytes of each topic, also if it is the default. tombstones_ms: delete.retention.ms of each
    compacted topic. left_out: the settings that brokers do not show, in words."""

    features: dict[str, int]
    configs: dict[Resource, dict[str, str]] = field(default_factory=dict)
    segment_bytes: dict[str, int] = field(default_factory=dict)
    tombstones_ms: dict[str, int] = field(default_factory=dict)
    quotas: list[Quota] = field(default_factory=list)
    acls: list[Acl] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def read_settings(brokers: AnyBroker, topics: Iterable[str]) -> Settings:
    """Return the settings of a cluster. topics: the topics whose configurations are read. Raises NobodyAnswers,
    ErrorAnswer, KcliError if the finalized features cannot be read."""
    known = brokers.ask(details).features
    if known is None:
        raise KcliError("no broker tells the finalized features of the cluster (ApiVersions)")
    found = Settings({each.name: each.level for each in known})
    names = sorted(topics)
    for begin in range(0, len(names), TOGETHER):
        _describe(brokers, [Resource(TOPIC, each) for each in names[begin : begin + TOGETHER]], found)
    others = [Resource(BROKER, ""), *_listed(brokers)]
    _describe(brokers, others, found)
    found.quotas = _quotas(brokers)
    found.acls = _acls(brokers)
    users = sorted({each.user for each in Users(brokers).described(()) if not isinstance(each, KcliError)})
    if users:
        found.left_out.append(f"the passwords of SCRAM users: {', '.join(users)}")
    return found


def _listed(brokers: AnyBroker) -> list[Resource]:
    """Return the groups and subscriptions to client metrics that have configurations; none before Kafka 4.1."""
    request = ListConfigResourcesRequest(resource_types=(i8(CLIENT_METRICS), i8(GROUP)))
    try:
        answer = brokers.ask(lambda server: call(server, request, ListConfigResourcesResponse))
    except NobodyAnswers:
        return []
    if answer.error_code != ErrorCode.NONE:
        raise ErrorAnswer("ListConfigResources", answer.error_code, None)
    return [Resource(each.resource_type, each.resource_name) for each in answer.config_resources]


def _describe(brokers: AnyBroker, resources: Sequence[Resource], found: Settings) -> None:
    request = DescribeConfigsRequest(
        resources=tuple(
            DescribeConfigsResource(resource_type=i8(each.type), resource_name=each.name, configuration_keys=None)
            for each in resources
        )
    )
    answer = brokers.ask(lambda server: call(server, request, DescribeConfigsResponse))
    for result in answer.results:
        resource = Resource(result.resource_type, result.resource_name)
        if result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # the topic was deleted meanwhile
            continue
        if result.error_code != ErrorCode.NONE:
            raise ErrorAnswer(
                f"configuration of {resource.name or 'all brokers'}", result.error_code, result.error_message
            )
        values = {each.name: each.value for each in result.configs}
        if resource.type == TOPIC:
            found.segment_bytes[resource.name] = int(values.get("segment.bytes") or 0)
            if "compact" in (values.get("cleanup.policy") or "").split(","):
                found.tombstones_ms[resource.name] = int(values.get("delete.retention.ms") or 0)
        for each in result.configs:
            if each.config_source != SET.get(resource.type):
                continue
            if each.value is None:
                found.left_out.append(f"the value of {each.name} of {resource.name or 'all brokers'}")
            else:
                found.configs.setdefault(resource, {})[each.name] = each.value


def _quotas(brokers: AnyBroker) -> list[Quota]:
    request = DescribeClientQuotasRequest(components=(), strict=False)
    answer = brokers.ask(lambda server: call(server, request, DescribeClientQuotasResponse))
    if answer.error_code != ErrorCode.NONE:
        raise ErrorAnswer("DescribeClientQuotas", answer.error_code, answer.error_message)
    return [
        Quota({one.entity_type: one.entity_name for one in each.entity}, {one.key: one.value for one in each.values})
        for each in answer.entries or ()
    ]


def _acls(brokers: AnyBroker) -> list[Acl]:
    try:
        return Acls(brokers).matching(ALL_ACLS)
    except ErrorAnswer as error:
        if error.code != ErrorCode.SECURITY_DISABLED:
            raise
        return []


def without_tier(settings: Settings) -> None:
    """Remove the configurations by which topics use tiered storage, and add a text about them to `left_out`."""
    tiered = []
    for resource, values in settings.configs.items():
        if resource.type == TOPIC and [values.pop(each) for each in TIERED if each in values]:
            tiered.append(resource.name)
    if tiered:
        settings.left_out.append(f"{TIERED[0]} of {', '.join(tiered)}: the backup has what is in tiered storage")


def records(settings: Settings) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield records of the metadata log with these settings: name of the message, and fields."""
    for name, level in settings.features.items():
        yield "FeatureLevelRecord", {"name": name, "featureLevel": level}
    for resource, values in settings.configs.items():
        for name, value in values.items():
            place = {"resourceType": resource.type, "resourceName": resource.name}
            yield "ConfigRecord", {**place, "name": name, "value": value}
    for quota in settings.quotas:
        entity = [{"entityType": kind, "entityName": name} for kind, name in quota.entity.items()]
        for key, number in quota.values.items():
            yield "ClientQuotaRecord", {"entity": entity, "key": key, "value": number, "remove": False}
    for acl in sorted(settings.acls, key=str):
        acl_id = uuid_text(hashlib.sha256(str(acl).encode()).digest()[:16])
        yield "AccessControlEntryRecord", {"id": acl_id, **acl.record}
