"""The differences between two images."""

from __future__ import annotations

from typing import Any

from kcli.metadata.difference import Difference, differences, lowered_epochs
from kcli.metadata.image import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE, MetadataImage

A, B = "AAAAAAAAAAAAAAAAAAAAAg", "AAAAAAAAAAAAAAAAAAAAAw"

QUOTA = {"entity": [{"entityType": "user", "entityName": None}], "key": "k", "value": 2.5, "remove": False}


def image(*records: tuple[str, dict[str, Any]]) -> MetadataImage:
    made = MetadataImage()
    for offset, (name, value) in enumerate(records):
        made.apply(name, value, offset)
    return made


def topic(name: str, topic_id: str) -> tuple[str, dict[str, Any]]:
    return "TopicRecord", {"name": name, "topicId": topic_id}


def partition(number: int, leader: int = 1, epoch: int = 0) -> tuple[str, dict[str, Any]]:
    value = {"partitionId": number, "topicId": A, "replicas": [1], "isr": [1], "leader": leader}
    return "PartitionRecord", value | {"leaderEpoch": epoch, "partitionEpoch": 0}


def config(kind: int, resource: str, name: str, value: str) -> tuple[str, dict[str, Any]]:
    return "ConfigRecord", {"resourceType": kind, "resourceName": resource, "name": name, "value": value}


ACL = {
    "id": B,
    "resourceType": 2,
    "resourceName": "orders",
    "patternType": 4,
    "principal": "User:alice",
    "host": "*",
    "operation": 3,
    "permissionType": 3,
}


def test_each_kind_by_its_name() -> None:
    whole = image(
        topic("a", A),
        partition(0),
        partition(1),
        topic("b", B),
        config(TOPIC_RESOURCE, "b", "retention.ms", "7"),
        config(BROKER_RESOURCE, "", "ssl.key.password", "secret"),
        config(GROUP_RESOURCE, "g", "consumer.session.timeout.ms", "9"),
        ("ClientQuotaRecord", QUOTA),
        ("UserScramCredentialRecord", {"name": "alice", "mechanism": 1, "salt": b"", "storedKey": b""}),
        ("AccessControlEntryRecord", ACL),
        ("DelegationTokenRecord", {"tokenId": "t1"}),
        ("FeatureLevelRecord", {"name": "metadata.version", "featureLevel": 30}),
        ("FeatureLevelRecord", {"name": "group.version", "featureLevel": 1}),
        ("ProducerIdsRecord", {"brokerId": 1, "brokerEpoch": 0, "nextProducerId": 2000}),
    )  # fmt: skip
    part = image(
        topic("a", A), partition(0, leader=-1), ("FeatureLevelRecord", {"name": "metadata.version", "featureLevel": 29})
    )
    assert list(differences(whole, part)) == [
        Difference("topic", "b", B, None),
        Difference("partition", "a-1", "", None),
        Difference("configuration", "broker default ssl.key.password", "", None),
        Difference("configuration", "group g consumer.session.timeout.ms", "9", None),
        Difference("configuration", "topic b retention.ms", "7", None),
        Difference("client quota", "user default k", "2.5", None),
        Difference("SCRAM user", "alice SCRAM-SHA-256", "", None),
        Difference("ACL", "User:alice allow read on topic orders* from *", "", None),
        Difference("delegation token", "t1", "", None),
        Difference("feature", "group.version", "1", None),
        Difference("feature", "metadata.version", "30", "29"),
        Difference("block of producer ids", "below 2,000", "", None),
    ]
    assert Difference("topic", "b", None, B) in list(differences(part, whole))
    assert not list(differences(whole, whole.copy()))


def test_leader_epochs_that_go_back() -> None:
    before = image(topic("a", A), partition(0, epoch=10), partition(1, epoch=3), partition(2, epoch=7))
    after = image(topic("a", A), partition(0, epoch=8), partition(1, epoch=4))
    assert list(lowered_epochs(before, after)) == [Difference("leader epoch", "a-0", "10", "8")]


def test_a_lower_block_of_producer_ids_is_no_more_than_lost() -> None:
    below = [
        image(("ProducerIdsRecord", {"brokerId": 1, "brokerEpoch": 0, "nextProducerId": each})) for each in (4000, 5000)
    ]
    assert list(differences(below[1], below[0])) == [Difference("block of producer ids", "below 5,000", "", None)]
    assert list(differences(below[0], below[1])) == [Difference("block of producer ids", "below 5,000", None, "")]
