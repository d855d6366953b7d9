"""Kafka's StandardAuthorizer: whether a principal may do something with a resource, and which rule decides.

    1. a super user is allowed everything, ACLs or not
    2. an ACL concerns the access and denies it: denied
    3. an ACL concerns the access and allows it: allowed
    4. the resource has other ACLs, whomever they concern: denied
    5. the resource has no ACL: denied, or allowed with allow.everyone.if.no.acl.found

An ACL concerns an access if resource, principal, host and operation match. An ALLOW of READ, WRITE, DELETE or ALTER
allows DESCRIBE as well, an ALLOW of ALTER_CONFIGS allows DESCRIBE_CONFIGS; a DENY denies its own operation alone.

The authorizer decides by the ACLs of the metadata image: `follow` is called after every change of them. Until the
metadata log is loaded it can allow super users only. Source: StandardAuthorizer, StandardAuthorizerData; KIP-11,
KIP-290, KIP-801.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

from kcli.errors import KcliError
from kcli.java.values import java_trim
from kcli.security.acl_index import AclIndex, subjects
from kcli.security.acls import SUPPORTED, Acl, Operation, PatternType, Permission, ResourceType, search_order
from kcli.security.principals import check_principal

CLASS_NAME: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The value of authorizer.class.name that stands for this authorizer."""

_IMPLIED: Final[Mapping[Operation, Operation]] = {
    Operation.READ: Operation.DESCRIBE,
    Operation.WRITE: Operation.DESCRIBE,
    Operation.DELETE: Operation.DESCRIBE,
    Operation.ALTER: Operation.DESCRIBE,
    Operation.ALTER_CONFIGS: Operation.DESCRIBE_CONFIGS,
}
"""Operation of an ALLOW ACL -> the operation that it implies."""
_EVERY: Final = sum(1 << each for each in Operation)
_DENIED_BY: Final = {each: _EVERY if each is Operation.ALL else 1 << each for each in Operation}
"""Operation of a DENY ACL -> the operations that it denies: a bit set, in which bit n stands for the operation with
code n."""
_ALLOWED_BY: Final = {each: denied | 1 << _IMPLIED.get(each, each) for each, denied in _DENIED_BY.items()}
"""Operation of an ALLOW ACL -> the operations that it allows, implied ones included, as in _DENIED_BY."""

SAMPLE_NAME: Final = "hardcode"
"""The resource name under which Kafka's default authorizeByResourceType calls `authorize`."""
_NOT_READY: Final = "the ACLs of the metadata log are not loaded yet"
_KEPT_MAX: Final = 10_000
"""The maximum number of results in each cache; a full cache is emptied."""
_KEPT_TEXT_MAX: Final = 512
"""The maximum length, in characters, of principal and resource name of an access whose result is cached, so that the
cache takes some MB at most."""


class AuthorizerNotReady(KcliError):
    """The metadata log is not loaded yet, so that nobody but a super user can be authorized."""


class Access(NamedTuple):
    """What a principal wants to do with a resource. host: the client's address, as Java writes it."""

    principal: str
    host: str
    operation: Operation
    resource_type: ResourceType
    resource_name: str


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule that decides an access. acl: the ACL that decides; None for a super user and for the default. `str`
    returns the rule as Kafka's audit lines write it."""

    allowed: bool
    name: str
    acl: Acl | None = None

    def __str__(self) -> str:
        return self.name if self.acl is None else f"{self.name}(acl={self.acl})"


_SUPER_USER: Final = Rule(allowed=True, name="SuperUser")
_DEFAULT_ALLOW: Final = Rule(allowed=True, name="DefaultAllow")
_DEFAULT_DENY: Final = Rule(allowed=False, name="DefaultDeny")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizerConfig:
    """The authorizer's configuration. super_users: principals. allow_without_acl: allow.everyone.if.no.acl.found."""

    super_users: frozenset[str] = frozenset()
    allow_without_acl: bool = False

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> Self:
        """Return the authorizer's part of a broker's properties. Raises InvalidPrincipal."""
        words = (java_trim(word) for word in properties.get("super.users", "").split(";"))
        return cls(
            super_users=frozenset(check_principal(word) for word in words if word),
            allow_without_acl=java_trim(properties.get("allow.everyone.if.no.acl.found", "")).lower() == "true",
        )


class Authorizer:
    """Decides accesses by the ACLs of the metadata image. loaded: whether the metadata log was replayed up to the high
    watermark that it had at the start."""

    def __init__(self, config: AuthorizerConfig) -> None:
        self._config = config
        self.loaded = False
        self.changes = 0
        """How often the ACLs have changed."""
        self._acls = AclIndex()
        self._kept: dict[Access, Rule] = {}
        self._kept_types: dict[Access, bool] = {}

    def follow(self, records: Mapping[str, Mapping[str, Any]], changed: Collection[str]) -> None:
        """Apply changes of the metadata image's ACLs. records: all AccessControlEntryRecords of the image, by id.
        changed: the ids that are new or gone since the last call."""
        if changed:
            self.changes += 1
            self._acls.follow(records, changed)
            self._kept.clear()
            self._kept_types.clear()

    def authorize(self, access: Access) -> bool:
        """Return whether the access is allowed. Raises AuthorizerNotReady."""
        return self.rule(access).allowed

    def rule(self, access: Access) -> Rule:
        """Return the rule that decides the access. Raises AuthorizerNotReady."""
        kept = self._kept.get(access)
        if kept is not None:
            return kept
        if access.principal in self._config.super_users:
            return _SUPER_USER
        if not self.loaded:
            raise AuthorizerNotReady(_NOT_READY)
        rule = self._decide(access)
        if len(access.principal) + len(access.resource_name) <= _KEPT_TEXT_MAX:
            if len(self._kept) >= _KEPT_MAX:
                self._kept.clear()
            self._kept[access] = rule
        return rule

    def operations(self, principal: str, host: str, resource_type: ResourceType, resource_name: str) -> int:
        """Return the operations that the principal may perform on the resource, as a bit set: bit n stands for the
        operation with code n. They are those of the resource type for which `authorize` returns True. Raises
        AuthorizerNotReady."""
        supported = sum(1 << each for each in SUPPORTED[resource_type])
        if principal in self._config.super_users:
            return supported
        if not self.loaded:
            raise AuthorizerNotReady(_NOT_READY)
        acls, has_acls = self._of_subject(principal, host, resource_type, resource_name)
        allowed, denied = supported if self._config.allow_without_acl and not has_acls else 0, 0
        for acl in acls:
            if acl.permission is Permission.ALLOW:
                allowed |= _ALLOWED_BY[acl.operation]
            else:
                denied |= _DENIED_BY[acl.operation]
        return supported & allowed & ~denied

    def matching(self, access: Access) -> list[Acl]:
        """Return every ACL that concerns the access, including those that do not decide it, in the order in which Kafka
        searches them."""
        return sorted(self._concerning(access)[0], key=search_order)

    def authorize_by_resource_type(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether the principal may perform the operation on some resource of the type, even if no such resource
        exists.

        Raises AuthorizerNotReady. operation and resource_type are neither UNKNOWN nor ANY. Unlike `authorize`, this
        method ignores implied operations (an ALLOW of READ implies DESCRIBE), except for a resource with the name
        "hardcode".
        """
        access = Access(principal, host, operation, resource_type, SAMPLE_NAME)
        if self.authorize(access):
            return True
        kept = self._kept_types.get(access)
        if kept is None:
            kept = self._decide_type(access)
            if len(self._kept_types) >= _KEPT_MAX:
                self._kept_types.clear()
            self._kept_types[access] = kept
        return kept

    def _decide(self, access: Access) -> Rule:
        concerning, has_acls = self._concerning(access)
        denying = [acl for acl in concerning if acl.permission is not Permission.ALLOW]
        allowing = [acl for acl in concerning if acl.permission is Permission.ALLOW]
        if denying:
            return Rule(allowed=False, name="MatchingAcl", acl=min(denying, key=search_order))
        if allowing:
            return Rule(allowed=True, name="MatchingAcl", acl=max(allowing, key=search_order))
        return _DEFAULT_ALLOW if self._config.allow_without_acl and not has_acls else _DEFAULT_DENY

    def _concerning(self, access: Access) -> tuple[list[Acl], bool]:
        """Return the ACLs that concern the access, and whether the resource has an ACL of any principal."""
        principal, host, operation, resource_type, resource_name = access
        acls, has_acls = self._of_subject(principal, host, resource_type, resource_name)
        return [acl for acl in acls if _covers(acl, operation)], has_acls

    def _of_subject(
        self, principal: str, host: str, resource_type: ResourceType, resource_name: str
    ) -> tuple[list[Acl], bool]:
        """Return the ACLs of any operation that concern the principal on that host and the resource, and whether the
        resource has an ACL of any principal."""
        found: list[Acl] = []
        has_acls = False
        who = subjects(principal, host)
        for pattern in self._acls.of_resource(resource_type, resource_name):
            has_acls = True
            for subject in who:
                acls = pattern.get(subject)
                if acls is not None:
                    found.extend(acls.values())
        return found, has_acls

    def _decide_type(self, access: Access) -> bool:
        """Return whether the principal may perform the operation on some resource of the type. A DENY of the wildcard
        makes this false; otherwise an ALLOW of the wildcard makes it true. A DENY of a prefix excludes the resources
        that begin with the prefix, a DENY of a name the resource with that name; without wildcards the result is true
        if the pattern of an ALLOW is not excluded. Source: Authorizer.authorizeByResourceType."""
        allowed_wildcard = False
        allowed: list[Acl] = []
        denied_names: set[str] = set()
        denied_prefixes: set[str] = set()
        for acl in self._acls.of_type(access.resource_type, access.principal, access.host):
            if acl.operation not in (access.operation, Operation.ALL):
                continue
            if acl.permission is Permission.DENY:
                if acl.is_wildcard:
                    return False
                if acl.pattern_type is PatternType.LITERAL:
                    denied_names.add(acl.resource_name)
                elif acl.pattern_type is PatternType.PREFIXED:
                    denied_prefixes.add(acl.resource_name)
            elif acl.permission is Permission.ALLOW:
                allowed_wildcard |= acl.is_wildcard
                if acl.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
                    allowed.append(acl)
        return allowed_wildcard or any(
            not (acl.pattern_type is PatternType.LITERAL and acl.resource_name in denied_names)
            and not _has_prefix(acl.resource_name, denied_prefixes)
            for acl in allowed
        )


def _covers(acl: Acl, operation: Operation) -> bool:
    """Return whether the ACL is about this operation: an ALLOW is also about the operations that it implies (see the
    module), a DENY only about its own operation."""
    covered = _ALLOWED_BY if acl.permission is Permission.ALLOW else _DENIED_BY
    return bool(covered[acl.operation] >> operation & 1)


def _has_prefix(name: str, prefixes: set[str]) -> bool:
    return bool(prefixes) and any(name[:length] in prefixes for length in range(1, len(name) + 1))
