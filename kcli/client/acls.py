"""The ACLs of a cluster, by DescribeAcls, CreateAcls and DeleteAcls, which go to any broker over connections of `wire`.

These requests are not sent by librdkafka: its API lacks the resource types delegation token and user. Source: KIP-140,
KIP-290.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kcli.client.wire import AnyBroker, ErrorAnswer, NoAnswer, NobodyAnswers, Server, call
from kcli.errors import KcliError
from kcli.protocol.error_code import ErrorCode
from kcli.security.acl_filter import AclFilter
from kcli.security.acls import Acl, Operation, PatternType, Permission, ResourceType
from kcli.security.explanation import SETTINGS

# isort: split
from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.create_acls.v3.response import CreateAclsResponse
from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.delete_acls.v3.response import DeleteAclsResponse
from kio.schema.describe_acls.v3.request import DescribeAclsRequest
from kio.schema.describe_acls.v3.response import DescribeAclsResponse
from kio.schema.describe_cluster.v1.request import DescribeClusterRequest
from kio.schema.describe_cluster.v1.response import DescribeClusterResponse
from kio.schema.describe_configs.v4.request import DescribeConfigsRequest, DescribeConfigsResource
from kio.schema.describe_configs.v4.response import DescribeConfigsResponse
from kio.static.primitive import i8

BROKER_RESOURCE = i8(4)


class Acls:
    """The ACLs of a cluster."""

    def __init__(self, brokers: AnyBroker) -> None:
        self._brokers = brokers

    def matching(self, acl_filter: AclFilter) -> list[Acl]:
        """Return the ACLs that a filter matches. Raises NobodyAnswers, ErrorAnswer."""
        request = DescribeAclsRequest(**_fields(acl_filter))
        answer = self._brokers.ask(lambda server: call(server, request, DescribeAclsResponse))
        if answer.error_code != ErrorCode.NONE:
            raise ErrorAnswer("", answer.error_code, answer.error_message)
        return [_acl(resource, each) for resource in answer.resources for each in resource.acls]

    def add(self, acls: Sequence[Acl]) -> Iterator[Acl | KcliError]:
        """Add ACLs; an ACL that exists already is kept. Yields each ACL, or a KcliError in place of an ACL that the
        broker refused. Raises NobodyAnswers."""
        creations = tuple(
            AclCreation(
                resource_type=i8(each.resource_type),
                resource_name=each.resource_name,
                resource_pattern_type=i8(each.pattern_type),
                principal=each.principal,
                host=each.host,
                operation=i8(each.operation),
                permission_type=i8(each.permission),
            )
            for each in acls
        )
        request = CreateAclsRequest(creations=creations)
        answer = self._brokers.ask(lambda server: call(server, request, CreateAclsResponse))
        for acl, result in zip(acls, answer.results, strict=False):
            if result.error_code == ErrorCode.NONE:
                yield acl
            else:
                yield ErrorAnswer(_subject(acl), result.error_code, result.error_message)

    def remove(self, filters: Sequence[AclFilter]) -> Iterator[Acl | KcliError]:
        """Remove the ACLs that filters match. Yields each ACL removed, or a KcliError in place of an ACL or a filter
        that failed. Raises NobodyAnswers."""
        request = DeleteAclsRequest(filters=tuple(DeleteAclsFilter(**_fields(each)) for each in filters))
        answer = self._brokers.ask(lambda server: call(server, request, DeleteAclsResponse))
        for result in answer.filter_results:
            if result.error_code != ErrorCode.NONE:
                yield ErrorAnswer("", result.error_code, result.error_message)
            for each in result.matching_acls:
                acl = _acl(each, each)
                failed = each.error_code != ErrorCode.NONE
                yield ErrorAnswer(_subject(acl), each.error_code, each.error_message) if failed else acl

    def settings(self) -> frozenset[str]:
        """Return the names of the configurations in SETTINGS (those that decide accesses besides ACLs) that a broker
        has set; all of SETTINGS if no broker answers DescribeConfigs, as they may be set then."""
        try:
            return self._brokers.ask(_settings)
        except NobodyAnswers:
            return SETTINGS

    def own_operations(self) -> frozenset[Operation]:
        """Return the operations that this client is authorized for on the cluster resource; an empty set if this client
        may not describe the cluster. Raises NobodyAnswers."""
        answer = self._brokers.ask(lambda server: call(server, _CLUSTER, DescribeClusterResponse))
        bits = max(answer.cluster_authorized_operations, 0)
        return frozenset(each for each in Operation if each > Operation.ANY and bits >> each & 1)


_CLUSTER = DescribeClusterRequest(include_cluster_authorized_operations=True)


def _settings(server: Server) -> frozenset[str]:
    """Return the names of the configurations in SETTINGS that a broker has set, by DescribeConfigs. Raises NoAnswer
    (also if the response to DescribeCluster has no brokers), OSError."""
    brokers = call(server, _CLUSTER, DescribeClusterResponse).brokers
    if not brokers:
        raise NoAnswer("no broker")
    # DescribeConfigs of a broker by its id goes to that broker: no other answers it.
    asked = next((each for each in brokers if (each.host, each.port) == (server.host, server.port)), brokers[0])
    resource = DescribeConfigsResource(
        resource_type=BROKER_RESOURCE, resource_name=str(asked.broker_id), configuration_keys=tuple(sorted(SETTINGS))
    )
    request = DescribeConfigsRequest(resources=(resource,))
    to_it = server._replace(host=asked.host, port=asked.port)
    (found,) = call(to_it, request, DescribeConfigsResponse).results
    if found.error_code != ErrorCode.NONE:
        raise NoAnswer("the broker does not describe its configurations")
    return frozenset(each.name for each in found.configs)


def _subject(acl: Acl) -> str:
    return f"{acl.principal} {acl.operation.name} {acl.resource_type.name} {acl.resource_name}"


def _fields(acl_filter: AclFilter) -> dict[str, Any]:
    return {
        "resource_type_filter": i8(acl_filter.resource_type),
        "resource_name_filter": acl_filter.resource_name,
        "pattern_type_filter": i8(acl_filter.pattern_type),
        "principal_filter": acl_filter.principal,
        "host_filter": acl_filter.host,
        "operation": i8(acl_filter.operation),
        "permission_type": i8(acl_filter.permission),
    }


def _acl(resource: Any, entry: Any) -> Acl:
    return Acl(
        resource_type=ResourceType.of(resource.resource_type),
        resource_name=resource.resource_name,
        pattern_type=PatternType.of(resource.pattern_type),
        principal=entry.principal,
        host=entry.host,
        operation=Operation.of(entry.operation),
        permission=Permission.of(entry.permission_type),
    )
