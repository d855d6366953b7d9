"""AlterClientQuotas and DescribeClientQuotas.

    entity                    quotas
    user, client-id, or both  producer_byte_rate, consumer_byte_rate (integer, bytes per second), request_percentage,
                              controller_mutation_rate
    ip                        connection_creation_rate (integer, connections per second)

An entity type with a null name is the default for all names of that type. Source: ClientQuotaControlManager,
ClientQuotasImage, QuotaConfig; KIP-546, KIP-612 (ip).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kcli.metadata.changes import QuotaEntity
from kcli.metadata.image import MetadataImage, Record, quota_entity
from kcli.metadata.quota_order import all_in_order, altered_in_order, names_in_order, quotas_in_order
from kcli.metadata.result import NO_ERROR, Error, Refused, Result
from kcli.protocol.error_code import ErrorCode

LONG_MAX: Final = 9.223372e18  # Kafka compares with Long.MAX_VALUE as a float
INT_MAX: Final = 2**31 - 1

# name of a quota -> its largest value and its Java type, if its value must be an integer; None for any other quota
CLIENT_QUOTAS: Final = {
    "producer_byte_rate": (LONG_MAX, "LONG"),
    "consumer_byte_rate": (LONG_MAX, "LONG"),
    "request_percentage": None,
    "controller_mutation_rate": None,
}
TYPES: Final = ("user", "client-id", "ip")
TYPES_MAX: Final = 1000
"""Entities of more entity types than this are not answered in Kafka's order, as computing the order would take a part
of a second. Such an entity has unknown types, and so an error; it is answered last, with its types in the request's
order."""
IP_QUOTAS: Final = {"connection_creation_rate": (float(INT_MAX), "INT")}


@dataclass(frozen=True, slots=True)
class Alteration:
    """New values of an entity's quotas. entity: entity types and names, as in the request. quotas: keys and values,
    None to delete a quota."""

    entity: Sequence[tuple[str, str | None]]
    quotas: Sequence[tuple[str, float | None]]


def alter_client_quotas(
    image: MetadataImage,
    alterations: Sequence[Alteration],
    *,
    resolves: Callable[[str], bool],
    validate_only: bool = False,
) -> Result[list[tuple[dict[str, str | None], Error]]]:
    """Alter the quotas of entities, each as a whole or not at all (error INVALID_REQUEST). Return the entities with
    their errors, in Kafka's order.

    resolves(text): whether the text is an IP address or a resolvable host name. validate_only: return the same answers,
    but no records.
    """
    records: list[Record] = []
    answers: dict[QuotaEntity, tuple[dict[str, str | None], Error]] = {}
    long: list[tuple[dict[str, str | None], Error]] = []
    for alteration in alterations:
        if len(names := dict(alteration.entity)) > TYPES_MAX:
            long.append((names, _unknown_type(names).error))
            continue
        names = names_in_order(names)
        entity = quota_entity(names)
        try:
            if entity in answers:
                raise _invalid(f"Ignoring duplicate entity {_entity_text(names)}")
            new = _alter(image, entity, names, alteration.quotas, resolves)
        except Refused as refused:
            answers[entity] = names, refused.error
            continue
        records += new
        answers[entity] = names, NO_ERROR
    return Result([] if validate_only else records, [*(answers[entity] for entity in altered_in_order(answers)), *long])


def _alter(
    image: MetadataImage,
    entity: QuotaEntity,
    names: Mapping[str, str | None],
    quotas: Sequence[tuple[str, float | None]],
    resolves: Callable[[str], bool],
) -> list[Record]:
    if len(dict(quotas)) < len(quotas):
        raise _invalid(f"Ignoring duplicate entity {_entity_text(names)}")
    limits = _limits(names, resolves)
    current = image.client_quotas.get(entity, {})
    names_of = [{"entityType": kind, "entityName": name} for kind, name in entity]
    records: list[Record] = []
    for key, value in quotas:
        if value is None:
            if key in current:
                record = {"entity": names_of, "key": key, "value": 0.0, "remove": True}
                records.append(("ClientQuotaRecord", 0, record))
            continue
        _check(key, value, limits)
        if current.get(key) != value:
            record = {"entity": names_of, "key": key, "value": value, "remove": False}
            records.append(("ClientQuotaRecord", 0, record))
    return records


def _limits(names: Mapping[str, str | None], resolves: Callable[[str], bool]) -> Mapping[str, tuple[float, str] | None]:
    """The quotas that an entity may have: CLIENT_QUOTAS or IP_QUOTAS. Raises Refused(INVALID_REQUEST) for an invalid
    entity."""
    if not names:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in TYPES:
            raise _unknown_type(names)
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    if "ip" not in names:
        return CLIENT_QUOTAS
    if len(names) > 1:
        raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
    address = names["ip"]
    if address is not None and not resolves(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return IP_QUOTAS


def _unknown_type(names: Iterable[str]) -> Refused:
    return _invalid(f"Unhandled client quota entity type: {next(kind for kind in names if kind not in TYPES)}")


def _check(key: str, value: float, limits: Mapping[str, tuple[float, str] | None]) -> None:
    if key not in limits:
        raise _invalid(f"Invalid configuration key {key}")
    if value <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    limit = limits[key]
    if limit is None:
        return
    most, kind = limit
    if value > most:
        raise _invalid(f"Proposed value for {key} is too large for {'an' if kind == 'INT' else 'a'} {kind}.")
    if abs(value % 1.0) > 1e-6:
        raise _invalid(f"{key} cannot be a fractional value.")


def _entity_text(names: Mapping[str, str | None]) -> str:
    """The text of Kafka's ClientQuotaEntity.toString."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in quota_entity(names))
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


class MatchType(IntEnum):
    """The condition of a filter component on an entity's name; the values are the numbers in DescribeClientQuotas."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@dataclass(frozen=True, slots=True)
class FilterComponent:
    """A condition on the name of an entity type. match_type EXACT: the name equals `match`; DEFAULT: the entity is the
    default; SPECIFIED: any name, or the default."""

    entity_type: str
    match_type: int
    match: str | None


def describe_client_quotas(
    image: MetadataImage, components: Iterable[FilterComponent], *, strict: bool
) -> list[tuple[QuotaEntity, list[tuple[str, float]]]]:
    """Return the entities that match all components, with their quotas, in Kafka's order.

    strict: leave out entities with entity types that no component names. Raises Refused(INVALID_REQUEST),
    Refused(UNSUPPORTED_VERSION).
    """
    exact: dict[str, str | None] = {}
    any_name: set[str] = set()
    for component in components:
        _check_component(component, {*exact, *any_name})
        if component.match_type == MatchType.SPECIFIED:
            any_name.add(component.entity_type)
        else:
            exact[component.entity_type] = component.match
    types = {*exact, *any_name}
    if "ip" in types and types & {"user", "client-id"}:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or clientId "
            "filter component."
        )
    return [
        (entity, quotas_in_order(image.client_quotas[entity]))
        for entity in all_in_order(image.client_quotas)
        if _matches(dict(entity), exact, any_name, strict=strict)
    ]


def _check_component(component: FilterComponent, kinds_before: set[str]) -> None:
    kind, match = component.entity_type, component.match
    if not kind:
        raise _invalid("Invalid empty entity type.")
    if kind in kinds_before:
        raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in ("user", "client-id", "ip"):
        raise Refused(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if component.match_type not in tuple(MatchType):
        raise _invalid(f"Unknown match type {component.match_type}")
    name = f"MATCH_TYPE_{MatchType(component.match_type).name}"
    if component.match_type == MatchType.EXACT:
        if match is None:
            raise _invalid(f"Request specified {name}, but set match string to null.")
    elif match is not None:
        raise _invalid(f"Request specified {name}, but also specified a match string.")


def _matches(
    names: Mapping[str, str | None], exact: Mapping[str, str | None], any_name: set[str], *, strict: bool
) -> bool:
    if strict and len(names) != len(exact) + len(any_name):
        return False
    return all(kind in names and names[kind] == name for kind, name in exact.items()) and any_name <= names.keys()
