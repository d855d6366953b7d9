"""The order of client quotas in Kafka's answers, which is the iteration order of Java's hash maps.

Tests of client libraries compare these lists, so kcli answers in the same order. Entities whose hash codes share a
bucket come in the order in which they were first configured.

Source: ClientQuotasImage.describe, ClientQuotasDelta.apply, ClientQuotaEntity.hashCode, AlterClientQuotasRequest;
kcli.java.hashing has the hash maps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcli.java.hashing import hash_order, java_hash, map_size, size_for
from kcli.metadata.changes import QuotaEntity


def quotas_in_order(quotas: Mapping[str, float]) -> list[tuple[str, float]]:
    """Return the quotas of one entity, keys and values, in the order in which Java iterates over its map of them."""
    return [(key, quotas[key]) for key in hash_order(quotas, java_hash, map_size(len(quotas), 1))]


def all_in_order(entities: Iterable[QuotaEntity]) -> list[QuotaEntity]:
    """Return the entities in the order in which Kafka's metadata image lists them (DescribeClientQuotas)."""
    known = list(entities)
    return hash_order(known, entity_hash, map_size(len(known), 1))


def altered_in_order(entities: Iterable[QuotaEntity]) -> list[QuotaEntity]:
    """Return the entities in the order in which the response to AlterClientQuotas lists them."""
    known = list(entities)
    return hash_order(known, entity_hash, map_size(len(known)))


def names_in_order(names: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return an entity's names by entity type, in the order in which the response to AlterClientQuotas lists them."""
    return {kind: names[kind] for kind in hash_order(names, java_hash, map_size(len(names), size_for(len(names))))}


def entity_hash(entity: QuotaEntity) -> int:
    """Return the hash code of Kafka's ClientQuotaEntity."""
    return 31 + sum(java_hash(kind) ^ (0 if name is None else java_hash(name)) for kind, name in entity)
