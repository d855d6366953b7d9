"""The image of the golden cluster at offset 194 (features.txt) agrees with what Kafka's tools printed then."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.image import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    MetadataImage,
    quota_entity,
)
from kcli.metadata.metadata_version import level_name
from kcli.metadata.partition import from_uuid
from kcli.metadata_log.replay import read_records
from tests.conftest import GOLDEN

KRAFT = GOLDEN / "kraft"
OFFSET = 194
RESOURCES = {
    "topic": TOPIC_RESOURCE,
    "broker": BROKER_RESOURCE,
    "group": GROUP_RESOURCE,
    "client-metric": CLIENT_METRICS_RESOURCE,
}
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def said(name: str) -> str:
    return (KRAFT / "expected" / name).read_text()


@pytest.fixture(scope="module")
def image() -> MetadataImage:
    found = MetadataImage()
    for path in sorted(Path(KRAFT / "controller-101/__cluster_metadata-0").glob("*.log")):
        for offset, name, value in read_records(path):
            if offset <= OFFSET:
                found.apply(name, value, offset)
    return found


def test_topics(image: MetadataImage) -> None:
    topics = re.findall(
        r"^Topic: (\S+)\s+TopicId: (\S+)\s+PartitionCount: (\d+)", said("topics-describe.txt"), re.MULTILINE
    )
    assert {(name, from_uuid(each.id), str(len(each.partitions))) for name, each in image.topics.items()} == set(topics)
    line = r"^\tTopic: (\S+)\s+Partition: (\d+)\s+Leader: (\d+)\s+Replicas: (\S+)\s+Isr: (\S+)"
    partitions = re.findall(line, said("topics-describe.txt"), re.MULTILINE)
    assert len(partitions) > 10
    for name, number, leader, replicas, isr in partitions:
        found = image.topics[name].partitions[int(number)]
        assert (str(found.leader), ",".join(map(str, found.replicas))) == (leader, replicas)
        assert sorted(found.isr) == sorted(map(int, isr.split(",")))


def test_features(image: MetadataImage) -> None:
    def text(name: str, level: int) -> str:
        return level_name(level) if name == "metadata.version" else str(level)

    line = r"^Feature: (\S+)\s+SupportedMinVersion: (\S+)\s+SupportedMaxVersion: (\S+)\s+FinalizedVersionLevel: (\S+)"
    assert re.findall(line, said("features.txt"), re.MULTILINE) == [
        (name, text(name, least), text(name, most), text(name, image.features.get(name, 0)))
        for name, (least, most) in sorted(SUPPORTED_FEATURES.items())
    ]


FILES = ("configs-topics.txt", "configs-brokers.txt", "configs-groups.txt", "configs-client-metrics.txt")


@pytest.mark.parametrize("file", FILES)
def test_configs(file: str, image: MetadataImage) -> None:
    found: dict[tuple[int, str], dict[str, str]] = {}
    configs: dict[str, str] = {}
    for line in said(file).splitlines():
        if (resource := re.fullmatch(r"Dynamic configs for (\S+) (\S+) are:", line)) is not None:
            configs = found.setdefault((RESOURCES[resource[1]], resource[2]), {})
        elif line.startswith("Default configs"):
            configs = found.setdefault((BROKER_RESOURCE, ""), {})
        elif (config := re.match(r"  (\S+?)=(.*) sensitive=false", line)) is not None:
            configs[config[1]] = config[2]
    kinds = {kind for kind, _ in found}
    ours = {resource: dict(configs) for resource, configs in image.configured.items() if resource[0] in kinds}
    assert ours == {resource: configs for resource, configs in found.items() if configs}


def test_client_quotas(image: MetadataImage) -> None:
    types = {"user-principal": "user", "client-id": "client-id", "ip": "ip"}
    found = {}
    for file in ("configs-users.txt", "configs-clients.txt", "configs-users-clients.txt", "configs-ips.txt"):
        for entity, quotas in re.findall(r"^Quota configs for (.*) are (.*)$", said(file), re.MULTILINE):
            parts = re.findall(r"(?:the default )?(user-principal|client-id|ip)(?: '(.*?)')?", entity)
            values = dict(each.split("=") for each in quotas.split(", "))
            names = {types[kind]: name or None for kind, name in parts}
            found[quota_entity(names)] = {key: float(value) for key, value in values.items()}
    assert image.client_quotas == found


def test_credentials_and_access_control(image: MetadataImage) -> None:
    users = re.findall(r"user-principal '(\w+)' are (SCRAM-SHA-\d+)=iterations=(\d+)", said("configs-users.txt"))
    assert {
        (name, MECHANISMS[mechanism], str(record["iterations"]))
        for (mechanism, name), record in image.scram_credentials.items()
    } == set(users)
    entries = re.findall(r"principal=(\S+), host=(\S+),", said("acls-list.txt"))
    assert sorted((record["principal"], record["host"]) for record in image.acls.values()) == sorted(entries)
