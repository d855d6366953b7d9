"""The ACLs of the metadata image, indexed so that those that concern an access are found without a search of all.

    resource type, literal name    -> (principal, host) -> ACLs
    resource type, prefix          -> (principal, host) -> ACLs
    resource type, principal, host -> ACLs                         for authorize_by_resource_type

A resource name is looked up as a whole, as "*", and cut to each length that some prefix of its type has: a few dozen
look-ups with 10,000 ACLs. Kafka searches a sorted set. Source: AclCache, StandardAuthorizerData.checkSection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kcli.security.acls import WILDCARD, Acl, PatternType, ResourceType
from kcli.security.principals import EVERYBODY

_Subject = tuple[str, str]
"""The principal and the host of an ACL."""
_Acls = dict[str, Acl]
"""ACLs by their ids."""
_Pattern = dict[_Subject, _Acls]
"""The ACLs of one resource pattern."""


class AclIndex:
    """The ACLs of the metadata image by id, with the indexes by which the ACLs that concern an access are found."""

    def __init__(self) -> None:
        self._by_id: _Acls = {}
        self._literal: dict[tuple[ResourceType, str], _Pattern] = {}
        self._prefixed: dict[tuple[ResourceType, str], _Pattern] = {}
        self._prefix_lengths: dict[ResourceType, Counter[int]] = {}
        self._by_subject: dict[tuple[ResourceType, str, str], _Acls] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def follow(self, records: Mapping[str, Mapping[str, Any]], changed: Iterable[str]) -> None:
        """Apply changes of the metadata image. records: all AccessControlEntryRecords of the image, by id. changed: the
        ids that are new, or gone, since the last call; the ACL of an id never changes."""
        for acl_id in changed:
            if acl_id in self._by_id:
                self._remove(acl_id)
            if acl_id in records:
                self._add(acl_id, Acl.of(records[acl_id]))

    def of_resource(self, resource_type: ResourceType, name: str) -> Iterator[_Pattern]:
        """Yield the ACLs of each pattern that the resource matches, by principal and host.

        The wildcard "*" matches every name that does not begin with "*". For a resource such as "*a", Kafka's search
        takes "*" for the literal name of another resource, so the wildcard neither allows nor denies anything.
        """
        for literal in (name,) if name.startswith(WILDCARD) else (name, WILDCARD):
            pattern = self._literal.get((resource_type, literal))
            if pattern is not None:
                yield pattern
        for length in self._prefix_lengths.get(resource_type, ()):
            if length <= len(name):
                pattern = self._prefixed.get((resource_type, name[:length]))
                if pattern is not None:
                    yield pattern

    def of_type(self, resource_type: ResourceType, principal: str, host: str) -> Iterator[Acl]:
        """Yield the ACLs for resources of that type that concern the principal on that host."""
        for each_principal, each_host in subjects(principal, host):
            yield from self._by_subject.get((resource_type, each_principal, each_host), {}).values()

    def _add(self, acl_id: str, acl: Acl) -> None:
        self._by_id[acl_id] = acl
        patterns = self._patterns(acl)
        if patterns is self._prefixed:
            self._prefix_lengths.setdefault(acl.resource_type, Counter())[len(acl.resource_name)] += 1
        pattern = patterns.setdefault((acl.resource_type, acl.resource_name), {})
        pattern.setdefault((acl.principal, acl.host), {})[acl_id] = acl
        self._by_subject.setdefault((acl.resource_type, acl.principal, acl.host), {})[acl_id] = acl

    def _remove(self, acl_id: str) -> None:
        acl = self._by_id.pop(acl_id)
        patterns = self._patterns(acl)
        if patterns is self._prefixed:
            lengths = self._prefix_lengths[acl.resource_type]
            lengths[len(acl.resource_name)] -= 1
            if not lengths[len(acl.resource_name)]:
                del lengths[len(acl.resource_name)]
        pattern_key, subject = (acl.resource_type, acl.resource_name), (acl.principal, acl.host)
        pattern = patterns[pattern_key]
        del pattern[subject][acl_id]
        if not pattern[subject]:
            del pattern[subject]
        if not pattern:
            del patterns[pattern_key]
        by_subject = self._by_subject[acl.resource_type, *subject]
        del by_subject[acl_id]
        if not by_subject:
            del self._by_subject[acl.resource_type, *subject]

    def _patterns(self, acl: Acl) -> dict[tuple[ResourceType, str], _Pattern]:
        """Return the index in which the ACL belongs: that of literal names for pattern type LITERAL, that of prefixes
        for every other pattern type, as in Kafka."""
        return self._literal if acl.pattern_type is PatternType.LITERAL else self._prefixed


def subjects(principal: str, host: str) -> tuple[_Subject, ...]:
    """Return the principals and hosts of the ACLs that concern this principal on this host. host: an address, not the
    wildcard."""
    own = (principal, WILDCARD), (principal, host)
    return own if principal == EVERYBODY else (*own, (EVERYBODY, WILDCARD), (EVERYBODY, host))
