"""kcli acls: list, add and remove ACLs, and explain which rule decides an access."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import typer

from kcli.cli.client_options import ClusterOptions, SourceOptions, with_options
from kcli.cli.error_report import ErrorReport
from kcli.cli.options import Format, not_empty
from kcli.cli.output import aligned, json_line, note, write_text
from kcli.errors import UsageError
from kcli.security.acl_filter import AclFilter
from kcli.security.acl_options import (
    AclOptions,
    Resource,
    Rule,
    check_operation,
    parse_operation,
    parse_principal,
    parse_resource,
    rules,
)
from kcli.security.acls import CLUSTER_NAME, WILDCARD, Acl, Operation, PatternType, Permission, ResourceType
from kcli.security.principals import user

if TYPE_CHECKING:
    from kcli.client.acls import Acls
    from kcli.security.authorizer import AuthorizerConfig
    from kcli.security.explanation import Explanation

EPILOG = """
Examples:

kcli acls add --allow-principal User:alice --operation read --topic orders

kcli acls add --allow-principal User:alice --consumer --topic orders --group billing

kcli acls list --topic orders --resource-pattern-type match

kcli acls explain alice read topic:orders

kcli acls explain alice read topic:orders --data-dir /var/lib/kafka/data --config server.properties

kcli acls remove --allow-principal User:alice --operation read --topic orders
"""
HEAD = ("RESOURCE-TYPE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION")
DENIED_STATUS = 1

app = typer.Typer(
    help="List, add and remove ACLs, and explain which rule decides an access.", epilog=EPILOG, no_args_is_help=True
)


class Pattern(StrEnum):
    """The pattern types of resources; any and match are for list and remove only."""

    LITERAL = "literal"
    PREFIXED = "prefixed"
    ANY = "any"
    MATCH = "match"


def _names(option: str, metavar: str, text: str) -> Any:
    return typer.Option(option, metavar=metavar, help=text, callback=not_empty)


@dataclass(frozen=True, slots=True)
class ResourceOptions:
    """The options that name resources."""

    topics: Annotated[list[str] | None, _names("--topic", "TOPIC", "A topic; * for all.")] = None
    groups: Annotated[list[str] | None, _names("--group", "GROUP", "A group; * for all.")] = None
    transactional_ids: Annotated[
        list[str] | None, _names("--transactional-id", "ID", "A transactional id; * for all.")
    ] = None
    cluster: Annotated[bool, typer.Option("--cluster", help="The cluster.")] = False
    delegation_tokens: Annotated[
        list[str] | None, _names("--delegation-token", "ID", "A delegation token; * for all.")
    ] = None
    user_principals: Annotated[
        list[str] | None, _names("--user-principal", "PRINCIPAL", "A user, as a resource; * for all.")
    ] = None
    pattern: Annotated[
        Pattern,
        typer.Option("--resource-pattern-type", case_sensitive=False, help="How names of resources are compared."),
    ] = Pattern.LITERAL

    @property
    def resources(self) -> list[Resource]:
        """The resources that the options name, without duplicates."""
        named = {
            ResourceType.TOPIC: self.topics,
            ResourceType.GROUP: self.groups,
            ResourceType.TRANSACTIONAL_ID: self.transactional_ids,
            ResourceType.CLUSTER: [CLUSTER_NAME] if self.cluster else None,
            ResourceType.DELEGATION_TOKEN: self.delegation_tokens,
            ResourceType.USER: self.user_principals,
        }
        return list(dict.fromkeys(Resource(kind, name) for kind, names in named.items() for name in names or []))

    @property
    def pattern_type(self) -> PatternType:
        """The member of PatternType that the option names."""
        return PatternType[self.pattern.name]


@dataclass(frozen=True, slots=True)
class RuleOptions(ResourceOptions):
    """The options that say who may do what, with the resources of ResourceOptions."""

    allowed: Annotated[list[str] | None, _names("--allow-principal", "PRINCIPAL", "Who may: User:alice.")] = None
    allowed_hosts: Annotated[
        list[str] | None, _names("--allow-host", "ADDRESS", "From which address; any without it.")
    ] = None
    denied: Annotated[list[str] | None, _names("--deny-principal", "PRINCIPAL", "Who may not.")] = None
    denied_hosts: Annotated[
        list[str] | None, _names("--deny-host", "ADDRESS", "From which address not; any without it.")
    ] = None
    operations: Annotated[list[str] | None, _names("--operation", "OPERATION", "What: read, write, ... [all]")] = None
    producer: Annotated[bool, typer.Option("--producer", help="What a producer of --topic needs.")] = False
    idempotent: Annotated[bool, typer.Option("--idempotent", help="With --producer: before Kafka 2.8.")] = False
    consumer: Annotated[bool, typer.Option("--consumer", help="What a consumer of --topic in --group needs.")] = False

    def options(self) -> AclOptions:
        """Return these options, parsed. Raises UsageError for an invalid one."""
        operations = [parse_operation(each, "--operation") for each in self.operations or []]
        return AclOptions(
            resources=self.resources,
            pattern_type=self.pattern_type,
            rules=rules(self.allowed or (), self.allowed_hosts or (), self.denied or (), self.denied_hosts or ()),
            operations=list(dict.fromkeys(operations)),
            producer=self.producer,
            consumer=self.consumer,
            idempotent=self.idempotent,
        )


class _Source(Protocol):
    """A source of ACLs: a cluster, or log directories."""

    def matching(self, acl_filter: AclFilter, /) -> list[Acl]:
        """Return the ACLs that a filter matches."""


def _source(options: SourceOptions) -> _Source:
    if not options.data_dirs:
        return _cluster(options)
    from kcli.inspector.acls import AclFiles

    return AclFiles(options.data_dirs)


def _cluster(options: ClusterOptions) -> Acls:
    from kcli.client.acls import Acls

    return Acls(options.any_broker())


@app.command("list")
@with_options
def list_acls(
    principals: Annotated[
        list[str] | None, _names("--principal", "PRINCIPAL", "Only of this principal: User:alice.")
    ] = None,
    *,
    resources: ResourceOptions,
    options: SourceOptions,
) -> None:
    """List the ACLs of resources, all if none is named."""
    asked = [parse_principal(each, "--principal") for each in principals or []]
    filters = AclOptions(resources=resources.resources, pattern_type=resources.pattern_type).listed()
    source = _source(options)
    found = dict.fromkeys(acl for each in filters for acl in source.matching(each))
    _show([acl for acl in found if not asked or acl.principal in asked], options.output)


@app.command("add")
@with_options
def add(*, given: RuleOptions, options: ClusterOptions) -> None:
    """Allow or deny principals to do something with resources."""
    acls = given.options().acls()
    errors = ErrorReport()
    errors.results(_cluster(options).add(acls))
    raise typer.Exit(errors.exit_status)


@app.command("remove")
@with_options
def remove(
    force: Annotated[bool, typer.Option("--force", help="Remove all ACLs of the resources.")] = False,
    *,
    given: RuleOptions,
    options: ClusterOptions,
) -> None:
    """Remove the ACLs of principals for resources, or with --force all ACLs of the resources.

    Without a principal and without --force the command only shows the ACLs that it would remove.
    """
    chosen = given.options()
    filters = chosen.removed()
    if not chosen.rules and (given.operations or given.producer or given.consumer):
        raise UsageError("whose ACLs? give --allow-principal or --deny-principal")
    cluster = _cluster(options)
    if not chosen.rules and not force:
        _show(dict.fromkeys(acl for each in filters for acl in cluster.matching(each)), Format.TABLE)
        note("kcli: these would be removed; --force removes them")
        raise typer.Exit(DENIED_STATUS)
    errors = ErrorReport()
    if not errors.results(cluster.remove(filters)) and not errors.exit_status:
        note("kcli: no ACL matches")
        raise typer.Exit(DENIED_STATUS)
    raise typer.Exit(errors.exit_status)


@app.command("explain")
@with_options
def explain(
    who: Annotated[str, typer.Argument(metavar="USER", help="alice, or a principal: User:alice.", callback=not_empty)],
    operation: Annotated[str, typer.Argument(metavar="OPERATION", help="read, write, describe, ...")],
    resource: Annotated[str, typer.Argument(metavar="RESOURCE", help="topic:orders, group:billing, cluster, ...")],
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="The client's; without it ACLs of one host do not count.")
    ] = "",
    config: Annotated[
        Path | None,
        typer.Option("--config", exists=True, dir_okay=False, help="The broker's server.properties: super users."),
    ] = None,
    *,
    options: SourceOptions,
) -> None:
    """Show which rule decides an access. Exit status: 0 if the access is allowed, 1 if it is denied."""
    from kcli.security.authorizer import Access
    from kcli.security.explanation import explain as explained

    named = parse_resource(resource)
    assert named.name is not None
    wanted = parse_operation(operation, "operation")
    check_operation(named.type, wanted, "operation")
    access = Access(who if ":" in who else user(who), host, wanted, named.type, named.name)
    if config is not None:
        settings, unknown = _read_settings(config), frozenset[str]()
    elif options.data_dirs:
        settings, unknown = _directory_settings(options.data_dirs)
    else:
        settings, unknown = _cluster_settings(_cluster(options), options.own_principal(), access.principal)
    found = explained(settings, _source(options).matching(_every(named.type)), access, unknown)
    if options.output is Format.JSONL:
        write_text(json_line(_explained_object(found)))
    else:
        write_text(_explained(found, options.repeated()))
        if found.unless:
            note("kcli: a broker does not tell the value, its server.properties does: --config FILE")
    raise typer.Exit(0 if found.rule.allowed else DENIED_STATUS)


def _every(resource_type: ResourceType) -> AclFilter:
    return AclFilter(resource_type, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)


def _read_settings(file: Path) -> AuthorizerConfig:
    from kcli.log.log_directory import read_properties
    from kcli.security.authorizer import AuthorizerConfig
    from kcli.security.principals import InvalidPrincipal

    try:
        return AuthorizerConfig.of(read_properties(file))
    except InvalidPrincipal as error:
        raise UsageError(f"{file}: super.users: {error}") from None


def _directory_settings(directories: list[Path]) -> tuple[AuthorizerConfig, frozenset[str]]:
    """Return the authorizer's configuration of the node with these log directories, and the names of the configurations
    in SETTINGS (those that decide accesses besides ACLs) whose values are not known.

    All values are known if `kcli serve` has left the node's configuration beside one of the directories; otherwise no
    value is known.
    """
    from kcli.broker.startup.secure import super_users
    from kcli.launcher.paths import server_properties
    from kcli.security.authorizer import AuthorizerConfig
    from kcli.security.explanation import SETTINGS

    for each in directories:
        if (file := server_properties(each)) is not None:
            return _read_settings(file), frozenset()
        if found := super_users(each):
            return AuthorizerConfig(super_users=found), frozenset()
    return AuthorizerConfig(), SETTINGS


def _cluster_settings(cluster: Acls, own: str | None, principal: str) -> tuple[AuthorizerConfig, frozenset[str]]:
    """Return the authorizer's configuration of the cluster's brokers, as far as it is known, and the names of the
    configurations in SETTINGS (those that decide accesses besides ACLs) that are or may be set on the brokers, but
    whose values this client cannot read.

    own: this client's principal; None if it is not known. principal: the one whose access is to be explained.
    Whether a principal is a super user can be found out for `own` only.
    """
    from kcli.security.authorizer import AuthorizerConfig
    from kcli.security.explanation import SUPER_USERS, is_super_user

    unknown = cluster.settings()
    if SUPER_USERS in unknown and own == principal:
        acls = cluster.matching(_every(ResourceType.CLUSTER))
        is_super = is_super_user(acls, principal, cluster.own_operations(), unknown)
        if is_super is not None:
            return AuthorizerConfig(super_users=frozenset([principal] if is_super else [])), unknown - {SUPER_USERS}
    return AuthorizerConfig(), unknown


def _explained(found: Explanation, connection: list[str]) -> str:
    access = found.access
    verdict = "allowed" if found.rule.allowed else "denied"
    origin = access.host or "any host that no ACL names"
    where = f"{access.resource_type.name} {access.resource_name}"
    text = f"{verdict}: {access.principal} {access.operation.name} {where} from {origin}\n"
    text += f"unless: {' or '.join(found.unless)}\n" if found.unless else ""
    text += f"rule: {found.rule}\n"
    if found.concerning:
        rows = [("", *HEAD), *(("decides" if acl == found.rule.acl else "", *_row(acl)) for acl in found.concerning)]
        text += aligned(rows)
    return text if found.rule.allowed else f"{text}Next: {shlex.join([*_next(found), *connection])}\n"


def _next(found: Explanation) -> list[str]:
    """Return the words of the kcli command that adds the missing ALLOW rule, or removes the DENY rule that decided."""
    if found.rule.acl is None:
        access = found.access
        resource = Resource(access.resource_type, access.resource_name)
        rule = Rule(Permission.ALLOW, access.principal, WILDCARD)
        return _command("add", resource, PatternType.LITERAL, rule, access.operation)
    acl = found.rule.acl
    resource, rule = Resource(acl.resource_type, acl.resource_name), Rule(acl.permission, acl.principal, acl.host)
    return _command("remove", resource, acl.pattern_type, rule, acl.operation)


def _command(word: str, resource: Resource, pattern: PatternType, rule: Rule, operation: Operation) -> list[str]:
    options = {
        ResourceType.TOPIC: "--topic",
        ResourceType.GROUP: "--group",
        ResourceType.TRANSACTIONAL_ID: "--transactional-id",
        ResourceType.DELEGATION_TOKEN: "--delegation-token",
        ResourceType.USER: "--user-principal",
    }
    permission = rule.permission.name.lower()
    words = ["kcli", "acls", word, f"--{permission}-principal", rule.principal]
    words += [] if rule.host == WILDCARD else [f"--{permission}-host", rule.host]
    words += ["--operation", operation.name.lower().replace("_", "-")]
    words += ["--cluster"] if resource.type is ResourceType.CLUSTER else [options[resource.type], str(resource.name)]
    return words + (["--resource-pattern-type", "prefixed"] if pattern is PatternType.PREFIXED else [])


def _show(acls: Iterable[Acl], output: Format) -> None:
    shown = sorted(acls, key=_row)
    if output is Format.JSONL:
        write_text("".join(json_line(_object(each)) for each in shown))
    elif shown:
        write_text(aligned([HEAD, *map(_row, shown)]))


def _row(acl: Acl) -> tuple[str, ...]:
    return (
        acl.resource_type.name,
        acl.resource_name,
        acl.pattern_type.name,
        acl.principal,
        acl.host,
        acl.operation.name,
        acl.permission.name,
    )


def _object(acl: Acl) -> dict[str, Any]:
    names = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
    return dict(zip(names, _row(acl), strict=True))


def _explained_object(found: Explanation) -> dict[str, Any]:
    access = found.access
    return {
        "allowed": found.rule.allowed,
        "principal": access.principal,
        "operation": access.operation.name,
        "resource_type": access.resource_type.name,
        "resource_name": access.resource_name,
        "host": access.host or None,
        "rule": found.rule.name,
        "acl": None if found.rule.acl is None else _object(found.rule.acl),
        "unless": list(found.unless),
        "concerning": [_object(each) for each in found.concerning],
    }
