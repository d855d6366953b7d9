"""CreateAcls, DeleteAcls and DescribeAcls, on the ACLs of the metadata image.

To create an ACL that exists already succeeds, without a record. A request that would change more than 10,000 ACLs is
refused as a whole. Source: AclApis, AclControlManager, StandardAuthorizerData; KIP-140, KIP-801.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID, uuid4

from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition import from_uuid
from kcli.metadata.result import NO_ERROR, RECORDS_PER_REQUEST_MAX, TOO_MANY_RECORDS, Error, Refused, Result
from kcli.protocol.error_code import ErrorCode
from kcli.security.acl_filter import AclFilter
from kcli.security.acls import CLUSTER_NAME, AclFields, Operation, PatternType, Permission, ResourceType
from kcli.security.principals import InvalidPrincipal, check_principal

MATCHES_MAX: Final = 10 * RECORDS_PER_REQUEST_MAX
"""The largest number of ACLs that the filters of one request may match; an ACL counts once for each filter."""
_TOO_MANY_TO_CREATE: Final = Error(ErrorCode.POLICY_VIOLATION, TOO_MANY_RECORDS)
_TOO_MANY_TO_DELETE: Final = Error(
    ErrorCode.INVALID_REQUEST,
    f"Cannot remove more than {RECORDS_PER_REQUEST_MAX} acls in a single delete operation.",
)


def check_acls(acls: Iterable[AclFields]) -> dict[AclFields, Error]:
    """Return for each ACL that is to be created its error, or NO_ERROR. This does not read the image.

    Errors: INVALID_REQUEST. Raises Refused(UNKNOWN_SERVER_ERROR) if an ACL has a code that only filters may have.
    """
    return {acl: _error_of(acl) for acl in acls}


def create_acls(
    image: MetadataImage, checked: Mapping[AclFields, Error], new_id: Callable[[], UUID] = uuid4
) -> Result[Mapping[AclFields, Error]]:
    """Create those of the checked ACLs that are valid. Return the error of each ACL, or NO_ERROR. If the valid ACLs are
    too many for one request, none is created, and each of them gets POLICY_VIOLATION. checked: what `check_acls`
    returned. new_id: returns a random id."""
    valid = [acl for acl, error in checked.items() if error is NO_ERROR]
    too_many = len(valid) > RECORDS_PER_REQUEST_MAX + len(image.acl_ids)
    new = [] if too_many else [acl for acl in valid if acl not in image.acl_ids]
    if too_many or len(new) > RECORDS_PER_REQUEST_MAX:
        return Result([], {**checked, **dict.fromkeys(valid, _TOO_MANY_TO_CREATE)})
    used: set[str] = set()
    return Result([_record(_new_id(image, used, new_id), acl) for acl in new], checked)


def _error_of(acl: AclFields) -> Error:
    resource_type, pattern_type = ResourceType.of(acl.resource_type), PatternType.of(acl.pattern_type)
    operation, permission = Operation.of(acl.operation), Permission.of(acl.permission)
    if (
        resource_type is ResourceType.ANY
        or pattern_type in (PatternType.ANY, PatternType.MATCH)
        or operation is Operation.ANY
        or permission is Permission.ANY
    ):
        raise Refused(ErrorCode.UNKNOWN_SERVER_ERROR)
    if resource_type is ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        return _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        return _invalid("Invalid empty resource name")
    for what, code in (
        ("resourceType", resource_type),
        ("patternType", pattern_type),
        ("operation", operation),
        ("permissionType", permission),
    ):
        if not code:
            return _invalid(f"Invalid {what} {code.name}")
    try:
        check_principal(acl.principal)
    except InvalidPrincipal:
        return _invalid(
            f"Could not parse principal from `{acl.principal}` (no colon is present separating the principal type from"
            " the principal name)"
        )
    return NO_ERROR


def _invalid(message: str) -> Error:
    return Error(ErrorCode.INVALID_REQUEST, message)


def _new_id(image: MetadataImage, used: set[str], new_id: Callable[[], UUID]) -> str:
    """Return an id that no ACL has, that is not in `used`, and that does not begin with "-", as tools would take it for
    an option. The id is added to `used`. new_id: returns a random id."""
    while (text := from_uuid(new_id())) in image.acls or text in used or text.startswith("-"):
        pass
    used.add(text)
    return text


def _record(acl_id: str, acl: AclFields) -> Record:
    value: dict[str, Any] = {
        "id": acl_id,
        "resourceType": acl.resource_type,
        "resourceName": acl.resource_name,
        "patternType": acl.pattern_type,
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation,
        "permissionType": acl.permission,
    }
    return "AccessControlEntryRecord", 0, value


def find_acls(acls: Sequence[AclFields], filters: Iterable[AclFilter]) -> dict[AclFilter, list[AclFields] | Error]:
    """Return for each filter the ACLs that DeleteAcls is to delete, sorted, or the error of the filter: INVALID_REQUEST
    for an unknown code; if the filters match too many ACLs, INVALID_REQUEST for every filter. acls: all existing
    ACLs."""
    found: dict[AclFilter, list[AclFields] | Error] = {}
    deleted: set[AclFields] = set()
    matches = 0
    distinct = dict.fromkeys(filters)
    for each in distinct:
        if each.has_unknown_pattern:
            found[each] = _invalid("Unknown patternFilter.")
        elif each.has_unknown_entry:
            found[each] = _invalid("Unknown entryFilter.")
        else:
            matching = describe_acls(acls, each)
            found[each] = matching
            deleted.update(matching)
            matches += len(matching)
            if len(deleted) > RECORDS_PER_REQUEST_MAX or matches > MATCHES_MAX:
                return dict.fromkeys(distinct, _TOO_MANY_TO_DELETE)
    return found


def delete_acls(image: MetadataImage, found: Iterable[Sequence[AclFields]]) -> list[Record]:
    """Return the records that delete those of the found ACLs that still exist. found: for each filter without an error,
    the ACLs that `find_acls` returned."""
    ids = {acl: image.acl_ids[acl] for acls in found for acl in acls if acl in image.acl_ids}
    return [("RemoveAccessControlEntryRecord", 0, {"id": acl_id}) for acl_id in ids.values()]


def describe_acls(acls: Iterable[AclFields], wanted: AclFilter) -> list[AclFields]:
    """Return the ACLs that the filter matches, sorted: those of one resource pattern next to each other, by operation,
    principal and host."""
    return sorted((acl for acl in acls if wanted.matches(acl)), key=_order)


def _order(acl: AclFields) -> tuple[object, ...]:
    name, pattern = acl.resource_name, acl.pattern_type
    return acl.resource_type, name, pattern, acl.operation, acl.principal, acl.host, acl.permission
