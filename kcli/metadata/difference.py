"""The differences between two metadata images, as text for people.

Registrations of brokers and controllers, leaders and ISRs are left out, as every start of a cluster writes them anew.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kcli.metadata.changes import QuotaEntity
from kcli.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
)
from kcli.metadata.partition import from_uuid

RESOURCES = {
    TOPIC_RESOURCE: "topic",
    BROKER_RESOURCE: "broker",
    CLIENT_METRICS_RESOURCE: "client-metrics",
    GROUP_RESOURCE: "group",
}
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
ACL_RESOURCES = ("unknown", "any", "topic", "group", "cluster", "transactional id", "delegation token", "user")
OPERATIONS = (
    "unknown", "any", "all", "read", "write", "create", "delete", "alter", "describe", "cluster action",
    "describe configs", "alter configs", "idempotent write", "create tokens", "describe tokens", "two phase commit",
)  # fmt: skip
PERMISSIONS = ("unknown", "any", "deny", "allow")
PREFIXED = 4


class Difference(NamedTuple):
    """An item that differs between two images. what: its kind. before, after: its values, None if an image lacks it.

    A value that may be a secret (broker configurations, SCRAM users, delegation tokens) is "".
    """

    what: str
    name: str
    before: str | None
    after: str | None


def differences(before: MetadataImage, after: MetadataImage) -> Iterator[Difference]:
    """Yield the differences in topics, partitions, configurations, client quotas, SCRAM users, ACLs, delegation tokens,
    features and producer ids; by kind in this order, then by name."""
    yield from _compare("topic", _topics(before), _topics(after))
    yield from _compare("partition", _partitions(before, after), _partitions(after, before))
    yield from _compare("configuration", _configs(before), _configs(after))
    yield from _compare("client quota", _quotas(before), _quotas(after))
    yield from _compare("SCRAM user", _users(before), _users(after))
    yield from _compare("ACL", _acls(before), _acls(after))
    yield from _compare("delegation token", _tokens(before), _tokens(after))
    yield from _compare("feature", _features(before), _features(after))
    yield from _of_producer_ids(before.next_producer_id, after.next_producer_id)


def lowered_epochs(before: MetadataImage, after: MetadataImage) -> Iterator[Difference]:
    """Yield the partitions of both images that have a lower leader epoch in `after`, by name. A leader with a lower
    epoch than that of batches in its log cuts the entries of these off leader-epoch-checkpoint."""
    epochs = _epochs(after)
    for name, epoch in sorted(_epochs(before).items()):
        if epochs.get(name, epoch) < epoch:
            yield Difference("leader epoch", name, str(epoch), str(epochs[name]))


def _epochs(image: MetadataImage) -> dict[str, int]:
    """Return the leader epochs of all partitions, by name."""
    return {
        f"{topic.name}-{number}": state.leader_epoch
        for topic in image.topics.values()
        for number, state in topic.partitions.items()
    }


def _compare(what: str, before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
    for name in sorted({*before, *after}):
        if before.get(name) != after.get(name):
            yield Difference(what, name, before.get(name), after.get(name))


def _topics(image: MetadataImage) -> dict[str, str]:
    return {topic.name: from_uuid(topic.id) for topic in image.topics.values()}


def _partitions(image: MetadataImage, other: MetadataImage) -> dict[str, str]:
    """Return the partitions ("topic-number") of those topics in `image` that are in `other` too; the values are ""."""
    return {
        f"{topic.name}-{number}": ""
        for topic_id, topic in image.topics_by_id.items()
        if topic_id in other.topics_by_id
        for number in topic.partitions
    }


def _configs(image: MetadataImage) -> dict[str, str]:
    found = {}
    for (kind, resource), configs in image.configured.items():
        for name, value in configs.items():
            owner = f"{RESOURCES.get(kind, f'resource type {kind}')} {resource or 'default'}"
            found[f"{owner} {name}"] = "" if kind == BROKER_RESOURCE else value
    return found


def _quotas(image: MetadataImage) -> dict[str, str]:
    return {
        f"{_entity(entity)} {key}": f"{value:g}"
        for entity, quotas in image.client_quotas.items()
        for key, value in quotas.items()
    }


def _entity(entity: QuotaEntity) -> str:
    return " ".join(f"{kind} {'default' if name is None else name}" for kind, name in entity)


def _users(image: MetadataImage) -> dict[str, str]:
    return {f"{name} {MECHANISMS.get(kind, f'mechanism {kind}')}": "" for kind, name in image.scram_credentials}


def _acls(image: MetadataImage) -> dict[str, str]:
    return {_acl(record): "" for record in image.acls.values()}


def _acl(record: Mapping[str, Any]) -> str:
    permission = _word(PERMISSIONS, record["permissionType"])
    operation = _word(OPERATIONS, record["operation"])
    resource = _word(ACL_RESOURCES, record["resourceType"])
    name = f"{record['resourceName']}{'*' if record['patternType'] == PREFIXED else ''}"
    return f"{record['principal']} {permission} {operation} on {resource} {name} from {record['host']}"


def _word(words: tuple[str, ...], number: int) -> str:
    return words[number] if 0 <= number < len(words) else str(number)


def _tokens(image: MetadataImage) -> dict[str, str]:
    return dict.fromkeys(image.delegation_tokens, "")


def _features(image: MetadataImage) -> dict[str, str]:
    return {name: str(level) for name, level in image.features.items()}


def _of_producer_ids(before: int, after: int) -> Iterator[Difference]:
    """Yield a difference between two images in the block that begins at the next producer id: of the higher one, as the
    controller gives out all lower ids too."""
    name = f"below {max(before, after):,}"
    if before > after:
        yield Difference("block of producer ids", name, "", None)
    elif before < after:
        yield Difference("block of producer ids", name, None, "")
