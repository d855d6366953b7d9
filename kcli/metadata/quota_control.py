"""Client quotas: set and looked up.

    entity                    quotas
    user, client-id, or both  producer_byte_rate, consumer_byte_rate (whole bytes a second), request_percentage,
                              controller_mutation_rate
    ip                        connection_creation_rate (whole, a second)

An entity without a name is the default of all. Source: ClientQuotaControlManager, ClientQuotasImage, QuotaConfig;
KIP-546, KIP-612 (ip).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from kcli.metadata.changes import QuotaEntity
from kcli.metadata.image import MetadataImage, Record, quota_entity
from kcli.metadata.quota_order import all_in_order, altered_in_order, names_in_order, quotas_in_order
from kcli.metadata.result import NO_ERROR, Error, ErrorCode, Refused, Result

LONG_MAX: Final = 9.223372e18  # as Kafka compares: with a float
INT_MAX: Final = 2**31 - 1

# name: the largest value of those that must be whole numbers
CLIENT_QUOTAS: Final = {
    "producer_byte_rate": (LONG_MAX, "LONG"),
    "consumer_byte_rate": (LONG_MAX, "LONG"),
    "request_percentage": None,
    "controller_mutation_rate": None,
}
IP_QUOTAS: Final = {"connection_creation_rate": (float(INT_MAX), "INT")}


@dataclass(frozen=True, slots=True)
class Alteration:
    """New values of an entity's quotas; None takes one back. Entity types and names as they came."""

    entity: Sequence[tuple[str, str | None]]
    quotas: Sequence[tuple[str, float | None]]


def alter_client_quotas(
    image: MetadataImage,
    alterations: Sequence[Alteration],
    *,
    resolves: Callable[[str], bool],
    validate_only: bool = False,
) -> Result[list[tuple[dict[str, str | None], Error]]]:
    """Alter quotas; an entity is altered as a whole or refused (INVALID_REQUEST). The answer: entities and errors.

    resolves: is that an address, or the name of a host?
    """
    records: list[Record] = []
    answers: dict[QuotaEntity, tuple[dict[str, str | None], Error]] = {}
    for alteration in alterations:
        names = names_in_order(dict(alteration.entity))
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
    return Result([] if validate_only else records, [answers[entity] for entity in altered_in_order(answers)])


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
    """The quotas that an entity may have."""
    if not names:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in ("user", "client-id", "ip"):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
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
    """As ClientQuotaEntity prints itself."""
    parts = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in quota_entity(names))
    return f"ClientQuotaEntity(entries={{{parts}}})"


def _invalid(message: str) -> Refused:
    return Refused(ErrorCode.INVALID_REQUEST, message)


class MatchType(IntEnum):
    """How a filter's component looks at an entity's name: as the protocol has it."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2


@dataclass(frozen=True, slots=True)
class FilterComponent:
    """What an entity type's name must be. SPECIFIED: any name, the default too."""

    entity_type: str
    match_type: int
    match: str | None


def describe_client_quotas(
    image: MetadataImage, components: Iterable[FilterComponent], *, strict: bool
) -> list[tuple[QuotaEntity, list[tuple[str, float]]]]:
    """Entities that have every component, with their quotas, in Kafka's order; strict: and nothing else.

    Raises Refused(INVALID_REQUEST, UNSUPPORTED_VERSION).
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


def _check_component(component: FilterComponent, seen: set[str]) -> None:
    kind, match = component.entity_type, component.match
    if not kind:
        raise _invalid("Invalid empty entity type.")
    if kind in seen:
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
