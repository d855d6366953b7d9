"""The state of a cluster, built only by replaying the records of `__cluster_metadata`.

    TopicRecord, RemoveTopicRecord                       create a topic, delete it with its partitions and configuration
    PartitionRecord, PartitionChangeRecord, ClearElr...  see partition.py
    ConfigRecord                                         set a configuration; a null value deletes it
    FeatureLevelRecord                                   set the finalized level of a feature; level 0 removes it
    Register..., Unregister..., Fence..., Unfence...     see registration.py
    ClientQuotaRecord                                    set or remove one quota of one entity
    ProducerIdsRecord                                    set the first producer id of the next block
    AccessControlEntry..., UserScramCredential...,
    DelegationToken..., and their Remove...              keep the fields of the record without interpretation
    NoOpRecord, ZkMigrationStateRecord                   change nothing
    BeginTransaction..., EndTransaction..., Abort...     apply the records of a metadata transaction at its End, or drop
                                                         them at its Abort (KIP-868)

Records at which Kafka's controller would end its replay, as they contradict earlier ones, raise InconsistentRecord: a
second TopicRecord of a name, a change of a topic, partition or broker that does not exist, a producer id that is not
beyond the last one.

Readers must not change what they get, nor keep it across an await, as the image changes in place; only `apply` and
`become` change it. Source: MetadataDelta and the Delta classes beside it, MetadataBatchLoader,
DefaultSupportedConfigChecker; `replay` of ReplicationControlManager, ClusterControlManager, ProducerIdControlManager,
AclControlManager and ScramControlManager; KIP-631.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeVar
from uuid import UUID

from kcli.errors import KcliError
from kcli.log.config import TOPIC_CONFIGS
from kcli.metadata.changes import Changes, ConfigResource, QuotaEntity
from kcli.metadata.partition import Partition, Topic, to_uuid
from kcli.metadata.registration import Broker, Controller
from kcli.security.acls import AclFields

Record = tuple[str, int, dict[str, Any]]
"""A record to write: the message's name, its version, its fields (those left out have their defaults)."""

K = TypeVar("K")

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"

TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32

QUOTA_TYPES: Final = ("ip", "client-id", "user")
"""The entity types of client quotas, in the order in which Kafka's records list them."""

_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class InconsistentRecord(KcliError):
    """A record that contradicts earlier records, such as a partition of an unknown topic: a part of the log is
    missing."""


class MetadataImage:
    """The cluster's metadata after the records that were applied so far.

    lenient: ignore a record that contradicts earlier ones, for a log of which a part is missing. A second topic of the
    same name is ignored too, until a PartitionRecord of that topic shows that the RemoveTopicRecord of the first topic
    is in the missing part: then the second topic replaces the first.
    """

    def __init__(self, *, lenient: bool = False) -> None:
        self.offset = -1
        """The offset of the last applied record; -1 before the first."""
        self.version = 0
        """A number that grows with every change, by which caches of derived values detect that they are stale."""
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[UUID, Topic] = {}
        self.features: dict[str, int] = {}
        """The finalized levels by feature name; kraft.version is not among them, as it is in a control record."""
        self.brokers: dict[int, Broker] = {}
        self.registered_at: dict[int, int] = {}
        """The offset of each broker's last registration record, by broker id. A broker has caught up when it has
        replayed the metadata log up to there."""
        self.controllers: dict[int, Controller] = {}
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.next_producer_id = -1
        """The first producer id of the next block; -1 before the first block."""
        self.acls: dict[str, dict[str, Any]] = {}
        self.acl_ids: dict[AclFields, str] = {}
        """The id of each ACL in `acls`, by the ACL's fields."""
        self.scram_credentials: dict[tuple[int, str], dict[str, Any]] = {}
        self.delegation_tokens: dict[str, dict[str, Any]] = {}
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._lenient = lenient
        self._changes = Changes()
        self._transaction: list[tuple[str, dict[str, Any]]] | None = None
        self._at = -1
        self._second: dict[UUID, Topic] = {}
        """With `lenient`: the topics that have the name of an earlier topic, until they get a partition."""
        self._replays: dict[str, Callable[[dict[str, Any]], None]] = {
            "RegisterBrokerRecord": self._register_broker,
            "UnregisterBrokerRecord": self._unregister_broker,
            "TopicRecord": self._topic,
            "PartitionRecord": self._partition,
            "ConfigRecord": self._config,
            "PartitionChangeRecord": self._change_partition,
            "FenceBrokerRecord": self._fence_broker,
            "UnfenceBrokerRecord": self._unfence_broker,
            "RemoveTopicRecord": self._remove_topic,
            "DelegationTokenRecord": self._delegation_token,
            "UserScramCredentialRecord": self._scram_credential,
            "FeatureLevelRecord": self._feature,
            "ClientQuotaRecord": self._client_quota,
            "ProducerIdsRecord": self._producer_ids,
            "BrokerRegistrationChangeRecord": self._change_broker,
            "AccessControlEntryRecord": self._acl,
            "RemoveAccessControlEntryRecord": self._remove_acl,
            "RemoveUserScramCredentialRecord": self._remove_scram_credential,
            "RemoveDelegationTokenRecord": self._remove_delegation_token,
            "RegisterControllerRecord": self._register_controller,
            "ClearElrRecord": self._clear_elr,
        }

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version; 0 while none is finalized."""
        return self.features.get(METADATA_VERSION, 0)

    @property
    def features_epoch(self) -> int:
        """The epoch of the finalized features, by which clients recognize the newest ones: the offset of the last
        record."""
        return self.offset

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction has begun and not ended, so that its records are not applied yet."""
        return self._transaction is not None

    @property
    def configured(self) -> Mapping[ConfigResource, Mapping[str, str]]:
        """The configurations of all resources that have some, by resource."""
        return self._configs

    def topic(self, name: str) -> Topic | None:
        """The topic of that name; None if there is none."""
        return self.topics.get(name)

    def topic_by_id(self, topic_id: UUID) -> Topic | None:
        """The topic of that id; None if there is none."""
        return self.topics_by_id.get(topic_id)

    def partition(self, topic_id: UUID, number: int) -> Partition | None:
        """The partition of a topic; None if there is no such topic or partition."""
        topic = self.topics_by_id.get(topic_id)
        return None if topic is None else topic.partitions.get(number)

    def configs(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The configurations of one resource, without defaults. name: "" for the cluster-wide default of all
        brokers."""
        return self._configs.get((resource_type, name), _NOTHING)

    def topic_configs(self, topic: str) -> Mapping[str, str]:
        """A topic's own configuration."""
        return self.configs(TOPIC_RESOURCE, topic)

    def broker_configs(self, node_id: int | None) -> dict[str, str]:
        """The dynamic configurations of a broker: the cluster-wide defaults, overridden by its own. node_id: None for
        only the defaults."""
        own = _NOTHING if node_id is None else self.configs(BROKER_RESOURCE, str(node_id))
        return {**self.configs(BROKER_RESOURCE, ""), **own}

    def copy(self) -> MetadataImage:
        """Return an independent copy, without the changes that `take_changes` would return."""
        other = MetadataImage(lenient=self._lenient)
        other.offset, other.version, other.next_producer_id = self.offset, self.version, self.next_producer_id
        for topic_id, topic in self.topics_by_id.items():
            other.topics_by_id[topic_id] = Topic(topic.name, topic.id, dict(topic.partitions))
        other.topics = {name: other.topics_by_id[topic.id] for name, topic in self.topics.items()}
        other.features, other.brokers = dict(self.features), dict(self.brokers)
        other.registered_at, other.controllers = dict(self.registered_at), dict(self.controllers)
        other.client_quotas = {entity: dict(quotas) for entity, quotas in self.client_quotas.items()}
        other.acls, other.acl_ids = dict(self.acls), dict(self.acl_ids)
        other.scram_credentials = dict(self.scram_credentials)
        other.delegation_tokens = dict(self.delegation_tokens)
        other._configs = {resource: dict(configs) for resource, configs in self._configs.items()}
        other._second = {each.id: Topic(each.name, each.id, {}) for each in self._second.values()}
        other._transaction = None if self._transaction is None else list(self._transaction)
        return other

    def become(self, other: MetadataImage) -> None:
        """Set this image to the state of `other`, and add the differences to this image's pending changes. `other` must
        not be used afterwards, as this image takes over its objects."""
        changes = self._changes
        for topic_id, topic in self.topics_by_id.items():
            if topic_id not in other.topics_by_id:
                changes.topic_deleted(topic)
        for topic_id, topic in other.topics_by_id.items():
            known = self.topics_by_id.get(topic_id)
            if known is None:
                changes.topic_created(topic)
            old = {} if known is None else known.partitions
            changes.partitions.update((topic_id, each) for each in _different(old, topic.partitions))
        changes.configs |= _different(self._configs, other._configs)
        changes.features |= _different(self.features, other.features)
        changes.brokers |= _different(self.brokers, other.brokers)
        changes.controllers |= _different(self.controllers, other.controllers)
        changes.client_quotas |= _different(self.client_quotas, other.client_quotas)
        changes.producer_ids |= self.next_producer_id != other.next_producer_id
        changes.acls |= self.acls.keys() ^ other.acls.keys()
        version, replays = self.version + 1, self._replays
        self.__dict__.update(other.__dict__)
        self.version, self._replays, self._changes = version, replays, changes

    def take_changes(self) -> Changes:
        """Return what has changed since the last call."""
        changes, self._changes = self._changes, Changes()
        return changes

    def apply(self, name: str, value: dict[str, Any], offset: int) -> None:
        """Apply one record. name: of its message. value: its fields. offset: the record's own.

        Raises InconsistentRecord, also for a message that is no metadata record, and BadValue for a text that is no
        UUID. After an error the image is unchanged; only after an error in an EndTransactionRecord, the first records
        of its transaction may have been applied.
        """
        self._at = offset
        match name:
            case "BeginTransactionRecord":
                if self._transaction is not None:
                    self._refuse("a transaction begins within another one")
                self._transaction = []
            case "EndTransactionRecord":
                self._end_transaction()
            case "AbortTransactionRecord":
                if self._transaction is None:
                    self._refuse("a transaction is aborted that was not begun")
                self._transaction = None
            case _ if self._transaction is not None:
                self._transaction.append((name, value))
            case _:
                self._replay(name, value)
        self.offset = offset

    def _end_transaction(self) -> None:
        if self._transaction is None:
            self._refuse("a transaction ends that was not begun")
        records, self._transaction = self._transaction or [], None
        for name, value in records:
            self._replay(name, value)

    def _replay(self, name: str, value: dict[str, Any]) -> None:
        if name in ("NoOpRecord", "ZkMigrationStateRecord"):
            return
        replay = self._replays.get(name)
        if replay is None:
            raise InconsistentRecord(f"{name} is no record of the metadata log")
        replay(value)
        self.version += 1

    def _refuse(self, reason: str) -> None:
        if not self._lenient:
            raise InconsistentRecord(reason)

    def _topic(self, record: dict[str, Any]) -> None:
        topic = Topic(record["name"], to_uuid(record["topicId"]))
        known = self.topics.get(topic.name)
        if known is not None:
            which = "the same id" if known.id == topic.id else f"another id, {record['topicId']}"
            self._refuse(f"topic {topic.name} is created with {which}, and is there already")
            self._second[topic.id] = topic
            return None
        return self._add_topic(topic)

    def _add_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = self.topics_by_id[topic.id] = topic
        self._changes.topic_created(topic)

    def _remove_topic(self, record: dict[str, Any]) -> None:
        topic_id = to_uuid(record["topicId"])
        self._second.pop(topic_id, None)
        topic = self.topics_by_id.pop(topic_id, None)
        if topic is None:
            return self._refuse(f"topic {record['topicId']} is removed, which is not there")
        if self.topics.get(topic.name) is topic:
            del self.topics[topic.name]
        resource = TOPIC_RESOURCE, topic.name
        if self._configs.pop(resource, None) is not None:
            self._changes.configs.add(resource)
        self._changes.topic_deleted(topic)
        return None

    def _partition(self, record: dict[str, Any]) -> None:
        topic_id = to_uuid(record["topicId"])
        if topic_id in self._second and topic_id not in self.topics_by_id:
            self._supersede(self._second.pop(topic_id))
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            return self._refuse(f"a partition of topic {record['topicId']}, which is not there")
        return self._set_partition(topic, record["partitionId"], Partition.of(record))

    def _supersede(self, topic: Topic) -> None:
        """Replace the topic with the same name by `topic`. Its configuration, which is stored by name, stays."""
        known = self.topics.get(topic.name)
        if known is not None:
            del self.topics_by_id[known.id]
            self._changes.topic_deleted(known)
        self._add_topic(topic)

    def _change_partition(self, record: dict[str, Any]) -> None:
        topic_id, number = to_uuid(record["topicId"]), record["partitionId"]
        partition = self.partition(topic_id, number)
        if partition is None:
            return self._refuse(f"a change of partition {number} of topic {record['topicId']}, which is not there")
        return self._set_partition(self.topics_by_id[topic_id], number, partition.changed(record))

    def _set_partition(self, topic: Topic, number: int, partition: Partition) -> None:
        topic.partitions[number] = partition
        self._changes.partitions.add((topic.id, number))

    def _clear_elr(self, record: dict[str, Any]) -> None:
        name = record["topicName"]
        if name and name not in self.topics:
            return self._refuse(f"the ELR of topic {name} is cleared, which is not there")
        for topic in [self.topics[name]] if name else self.topics.values():
            for number, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    changed = partition.changed({"eligibleLeaderReplicas": (), "lastKnownElr": ()})
                    self._set_partition(topic, number, changed)
        return None

    def _config(self, record: dict[str, Any]) -> None:
        resource = record["resourceType"], record["resourceName"]
        name, value = record["name"], record["value"]
        if resource[0] == TOPIC_RESOURCE and name not in TOPIC_CONFIGS:
            return  # a configuration that only an older or newer Kafka knows must not make the topic fail
        configs = self._configs.setdefault(resource, {})
        if value is None:
            configs.pop(name, None)
        else:
            configs[name] = value
        if not configs:
            del self._configs[resource]
        self._changes.configs.add(resource)

    def _feature(self, record: dict[str, Any]) -> None:
        name, level = record["name"], record["featureLevel"]
        if name == KRAFT_VERSION:
            return
        if level == 0:
            self.features.pop(name, None)
        else:
            self.features[name] = level
        self._changes.features.add(name)

    def _register_broker(self, record: dict[str, Any]) -> None:
        self._set_broker(Broker.of(record))
        self.registered_at[record["brokerId"]] = self._at

    def _unregister_broker(self, record: dict[str, Any]) -> None:
        broker = self.brokers.get(record["brokerId"])
        if broker is None or broker.epoch != record["brokerEpoch"]:
            which = f"broker {record['brokerId']}, epoch {record['brokerEpoch']}"
            return self._refuse(f"{which} is unregistered, which is not registered")
        del self.brokers[broker.id]
        self.registered_at.pop(record["brokerId"], None)
        self._changes.brokers.add(record["brokerId"])
        return None

    def _fence_broker(self, record: dict[str, Any]) -> None:
        self._change(record["id"], record["epoch"], lambda broker: replace(broker, fenced=True))

    def _unfence_broker(self, record: dict[str, Any]) -> None:
        self._change(record["id"], record["epoch"], lambda broker: replace(broker, fenced=False))

    def _change_broker(self, record: dict[str, Any]) -> None:
        self._change(record["brokerId"], record["brokerEpoch"], lambda broker: broker.changed(record))

    def _change(self, broker_id: int, epoch: int, change: Callable[[Broker], Broker]) -> None:
        broker = self.brokers.get(broker_id)
        if broker is None or broker.epoch != epoch:
            return self._refuse(f"a change of broker {broker_id}, epoch {epoch}, which is not registered")
        return self._set_broker(change(broker))

    def _set_broker(self, broker: Broker) -> None:
        self.brokers[broker.id] = broker
        self._changes.brokers.add(broker.id)

    def _register_controller(self, record: dict[str, Any]) -> None:
        controller = Controller.of(record)
        self.controllers[controller.id] = controller
        self._changes.controllers.add(controller.id)

    def _client_quota(self, record: dict[str, Any]) -> None:
        entity = quota_entity({each["entityType"]: each["entityName"] for each in record["entity"]})
        quotas = self.client_quotas.setdefault(entity, {})
        if record["remove"]:
            quotas.pop(record["key"], None)
        else:
            quotas[record["key"]] = record["value"]
        if not quotas:
            del self.client_quotas[entity]
        self._changes.client_quotas.add(entity)

    def _producer_ids(self, record: dict[str, Any]) -> None:
        following = record["nextProducerId"]
        if following <= max(self.next_producer_id, 0):
            return self._refuse(f"the next producer id is {following}, which is not beyond {self.next_producer_id}")
        self.next_producer_id = following
        self._changes.producer_ids = True
        return None

    def _acl(self, record: dict[str, Any]) -> None:
        self.acls[record["id"]] = record
        self.acl_ids[AclFields.of(record)] = record["id"]
        self._changes.acls.add(record["id"])

    def _remove_acl(self, record: dict[str, Any]) -> None:
        removed = self.acls.pop(record["id"], None)
        if removed is None:
            return self._refuse(f"access control entry {record['id']} is removed, which is not there")
        self.acl_ids.pop(AclFields.of(removed), None)
        self._changes.acls.add(record["id"])
        return None

    def _scram_credential(self, record: dict[str, Any]) -> None:
        self.scram_credentials[record["mechanism"], record["name"]] = record

    def _remove_scram_credential(self, record: dict[str, Any]) -> None:
        if self.scram_credentials.pop((record["mechanism"], record["name"]), None) is None:
            self._refuse(f"the SCRAM credential of {record['name']} is removed, which is not there")

    def _delegation_token(self, record: dict[str, Any]) -> None:
        self.delegation_tokens[record["tokenId"]] = record

    def _remove_delegation_token(self, record: dict[str, Any]) -> None:
        self.delegation_tokens.pop(record["tokenId"], None)


def _different(old: Mapping[K, object], new: Mapping[K, object]) -> set[K]:
    """Return the keys that only one of the two mappings has, or whose values differ."""
    return {key for key in {*old, *new} if old.get(key) != new.get(key)}


def quota_entity(names: Mapping[str, str | None]) -> QuotaEntity:
    """Return the quota entity with these names, given by entity type. It has them in a fixed order, so that it equals
    any other entity with the same names."""
    known = [(each, names[each]) for each in QUOTA_TYPES if each in names]
    return *known, *sorted((name, value) for name, value in names.items() if name not in QUOTA_TYPES)
