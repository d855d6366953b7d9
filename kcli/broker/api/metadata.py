"""Metadata (3): the brokers, and which of them lead the partitions of some topics, or of all.

v0 no topics means all. v1 null means all; controller, racks, internal topics. v2 cluster id. v4 auto creation is asked
for. v5 offline replicas. v6 LISTENER_NOT_FOUND. v7 leader epochs. v8 authorized operations. v9 flexible. v10 topic ids
in the answer (KIP-516). v11 no cluster operations. v12 topics by id. v13 a code for the whole.

A topic that is not there is created where the client and auto.create.topics.enable let it: it is answered as unknown,
and is there when the client asks again. Source: KafkaApis, KRaftMetadataCache, DefaultAutoTopicCreationManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from formats.file_name import INTERNAL_TOPICS
from kcli.broker.network.messages import Call, Entity, ErrorCode
from kcli.broker.nodes import CLUSTER_OPERATIONS, NO_NODE, NOT_ASKED, TOPIC_OPERATIONS, View
from kcli.broker.topic_changes import create_missing
from kcli.metadata.topic_names import fault

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.metadata.partition import Partition, Topic

LISTENER_ERRORS_SINCE = 6
IDS_SINCE = 12


def metadata(call: Call) -> Entity:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST; of partitions
    LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND, REPLICA_NOT_AVAILABLE."""
    asked, view = call.request.topics, View(call)
    if asked is None or (call.version == 0 and not asked):
        return _respond(call, view, (_topic(call, view, topic) for topic in call.broker.image.topics.values()))
    if call.version < IDS_SINCE and any(_is_by_id(topic) for topic in asked):
        return _refused(call, asked)
    ids = {topic.topic_id for topic in asked if getattr(topic, "topic_id", None) is not None}
    names = dict.fromkeys(topic.name for topic in asked)
    return _respond(call, view, _by_id(call, view, ids) if ids else _by_name(call, view, names))


def _is_by_id(topic: Entity) -> bool:
    return topic.name is None or getattr(topic, "topic_id", None) is not None


def _by_id(call: Call, view: View, ids: Iterable[UUID]) -> Iterator[Entity]:
    for topic_id in ids:
        topic = call.broker.image.topics_by_id.get(topic_id)
        if topic is None:
            yield _failed(call, None, ErrorCode.unknown_topic_id, topic_id)
        else:
            yield _topic(call, view, topic)


def _by_name(call: Call, view: View, names: Iterable[str]) -> Iterator[Entity]:
    image = call.broker.image
    missing: list[str] = []
    for name in names:
        topic = image.topics.get(name)
        if topic is not None and topic.partitions:
            yield _topic(call, view, topic)
        elif fault(name):
            yield _failed(call, name, ErrorCode.invalid_topic_exception)
        else:
            missing.append(name)
            yield _failed(call, name, ErrorCode.unknown_topic_or_partition)
    if missing and _may_create(call):
        create_missing(call, missing)


def _may_create(call: Call) -> bool:
    broker = call.broker
    wanted: bool = call.get("allow_auto_topic_creation", True)
    return wanted and broker.config.auto_create_topics_enable and not broker.is_read_only


def _respond(call: Call, view: View, topics: Iterable[Entity]) -> Entity:
    asked = call.get("include_cluster_authorized_operations", False)
    return call.respond(
        brokers=tuple(
            call.new("MetadataResponseBroker", node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in view.nodes
            if not node.is_fenced
        ),
        cluster_id=call.broker.cluster_id,
        controller_id=view.controller_id,
        topics=tuple(topics),
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
        error_code=ErrorCode.none,
    )


def _refused(call: Call, asked: Iterable[Entity]) -> Entity:
    topics = (_failed(call, each.name or "", ErrorCode.invalid_request, each.topic_id) for each in asked)
    return call.respond(
        brokers=(),
        cluster_id=None,
        controller_id=NO_NODE,
        topics=tuple(topics),
        cluster_authorized_operations=NOT_ASKED,
        error_code=ErrorCode.none,
    )


def _failed(call: Call, name: str | None, code: ErrorCode, topic_id: UUID | None = None) -> Entity:
    return call.new(
        "MetadataResponseTopic",
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=name in INTERNAL_TOPICS and code != ErrorCode.invalid_request,
        partitions=(),
        topic_authorized_operations=_topic_operations(call) if code != ErrorCode.invalid_request else NOT_ASKED,
    )


def _topic_operations(call: Call) -> int:
    return TOPIC_OPERATIONS if call.get("include_topic_authorized_operations", False) else NOT_ASKED


def _topic(call: Call, view: View, topic: Topic) -> Entity:
    return call.new(
        "MetadataResponseTopic",
        error_code=ErrorCode.none,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(_partition(call, view, number, each) for number, each in topic.partitions.items()),
        topic_authorized_operations=_topic_operations(call),
    )


def _partition(call: Call, view: View, number: int, partition: Partition) -> Entity:
    replicas, isr = partition.replicas, partition.isr
    if call.version == 0:  # names only brokers that are up
        replicas = tuple(each for each in replicas if each in view.alive)
        isr = tuple(each for each in isr if each in view.alive)
    leader_id = view.leader(partition)
    if leader_id != NO_NODE:
        complete = len(replicas) == len(partition.replicas) and len(isr) == len(partition.isr)
        code = ErrorCode.none if complete else ErrorCode.replica_not_available
    elif partition.leader in call.broker.image.brokers and call.version >= LISTENER_ERRORS_SINCE:
        code = ErrorCode.listener_not_found
    else:
        code = ErrorCode.leader_not_available
    return call.new(
        "MetadataResponsePartition",
        error_code=code,
        partition_index=number,
        leader_id=leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=replicas,
        isr_nodes=isr,
        offline_replicas=view.offline_replicas(partition),
    )
