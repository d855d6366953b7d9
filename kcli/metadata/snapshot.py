"""The records of a metadata snapshot, which rebuild the image, as Kafka writes them into a `.checkpoint` file.

    features          metadata.version first
    brokers, controllers
    topics            each with its partitions
    configurations, client quotas, producer ids, access control entries, SCRAM credentials, delegation tokens

Every record has the version that metadata.version allows; fields and records that an older level does not have are left
out. Control records (header, footer, voters) and batches are left to the writer of the file. Source:
MetadataImage.write and the Image classes beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kcli.metadata import metadata_version as levels
from kcli.metadata.image import METADATA_VERSION, MetadataImage, Record
from kcli.metadata.partition import Partition, Topic, from_uuid
from kcli.metadata.registration import Broker, Controller, Endpoint, VersionRange

ELR_VERSION = "eligible.leader.replicas.version"


def snapshot(image: MetadataImage) -> Iterator[Record]:
    """Yield the records of a snapshot of the image."""
    level = image.metadata_version
    yield from _features(image)
    for broker in image.brokers.values():
        yield broker_record(broker, level)
    if level >= levels.CONTROLLER_REGISTRATION:
        for controller in image.controllers.values():
            yield controller_record(controller)
    has_elr = image.features.get(ELR_VERSION, 0) > 0
    for topic in image.topics_by_id.values():
        yield from _topic(topic, level, has_elr=has_elr)
    for (resource_type, resource_name), configs in image.configured.items():
        resource = {"resourceType": resource_type, "resourceName": resource_name}
        for name, text in configs.items():
            yield "ConfigRecord", 0, {**resource, "name": name, "value": text}
    for entity, quotas in image.client_quotas.items():
        names = [{"entityType": kind, "entityName": name} for kind, name in entity]
        for key, value in quotas.items():
            yield "ClientQuotaRecord", 0, {"entity": names, "key": key, "value": value, "remove": False}
    if image.next_producer_id >= 0:
        yield "ProducerIdsRecord", 0, {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": image.next_producer_id}
    yield from (("AccessControlEntryRecord", 0, record) for record in image.acls.values())
    if level >= levels.SCRAM:
        yield from (("UserScramCredentialRecord", 0, record) for record in image.scram_credentials.values())
    if level >= levels.DELEGATION_TOKENS:
        yield from (("DelegationTokenRecord", 0, record) for record in image.delegation_tokens.values())


def _features(image: MetadataImage) -> Iterator[Record]:
    for name in sorted(image.features, key=lambda name: name != METADATA_VERSION):
        yield "FeatureLevelRecord", 0, {"name": name, "featureLevel": image.features[name]}


def _topic(topic: Topic, level: int, *, has_elr: bool) -> Iterator[Record]:
    yield "TopicRecord", 0, {"name": topic.name, "topicId": from_uuid(topic.id)}
    for number, partition in topic.partitions.items():
        yield partition_record(topic, number, partition, level, has_elr=has_elr)


def partition_record(topic: Topic, number: int, partition: Partition, level: int, *, has_elr: bool) -> Record:
    """Return the PartitionRecord of a partition's whole state. level: of metadata.version. has_elr: whether the cluster
    has ELR enabled."""
    value: dict[str, Any] = {
        "partitionId": number,
        "topicId": from_uuid(topic.id),
        "replicas": list(partition.replicas),
        "isr": list(partition.isr),
        "removingReplicas": list(partition.removing_replicas),
        "addingReplicas": list(partition.adding_replicas),
        "leader": partition.leader,
        "leaderRecoveryState": partition.leader_recovery_state,
        "leaderEpoch": partition.leader_epoch,
        "partitionEpoch": partition.partition_epoch,
    }
    if level >= levels.DIRECTORIES:
        value["directories"] = [from_uuid(each) for each in partition.directories]
    if has_elr and level >= levels.ELR:
        value["eligibleLeaderReplicas"] = list(partition.elr) or None
        value["lastKnownElr"] = list(partition.last_known_elr) or None
    return "PartitionRecord", levels.partition_record_version(level), value


def broker_record(broker: Broker, level: int) -> Record:
    """Return the RegisterBrokerRecord of a broker's current state. level: of metadata.version."""
    value: dict[str, Any] = {
        "brokerId": broker.id,
        "incarnationId": from_uuid(broker.incarnation_id),
        "brokerEpoch": broker.epoch,
        "endPoints": _endpoints(broker.endpoints),
        "features": _feature_ranges(broker.features),
        "rack": broker.rack,
        "fenced": broker.fenced,
        "inControlledShutdown": broker.in_controlled_shutdown,
    }
    if level >= levels.MIGRATION:
        value["isMigratingZkBroker"] = broker.is_migrating_zk_broker
    if level >= levels.DIRECTORIES:
        value["logDirs"] = [from_uuid(each) for each in broker.directories]
    if level >= levels.CORDONED_DIRECTORIES:
        value["cordonedLogDirs"] = None if broker.cordoned is None else [from_uuid(each) for each in broker.cordoned]
    return "RegisterBrokerRecord", levels.register_broker_record_version(level), value


def controller_record(controller: Controller) -> Record:
    """Return the RegisterControllerRecord of a controller."""
    value = {
        "controllerId": controller.id,
        "incarnationId": from_uuid(controller.incarnation_id),
        "zkMigrationReady": controller.zk_migration_ready,
        "endPoints": _endpoints(controller.endpoints),
        "features": _feature_ranges(controller.features),
    }
    return "RegisterControllerRecord", 0, value


def _endpoints(endpoints: Mapping[str, Endpoint]) -> list[dict[str, Any]]:
    return [
        {"name": each.name, "host": each.host, "port": each.port, "securityProtocol": each.security_protocol}
        for each in endpoints.values()
    ]


def _feature_ranges(features: Mapping[str, VersionRange]) -> list[dict[str, Any]]:
    return [
        {"name": name, "minSupportedVersion": each.min, "maxSupportedVersion": each.max}
        for name, each in features.items()
    ]
