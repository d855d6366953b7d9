"""Metadata (3): the brokers, and the partitions of some topics, or of all, with their leaders.

v0 an empty list means all topics. v1 null means all; controller, racks, internal topics. v2 cluster id. v4 a flag for
auto creation of topics. v5 offline replicas. v6 LISTENER_NOT_FOUND. v7 leader epochs. v8 authorized operations. v9
flexible. v10 topic ids in the response (KIP-516). v11 no longer the authorized operations of the cluster. v12 topics by
id. v13 a top-level error code.

If the request and auto.create.topics.enable allow it, a missing topic is created: this response has
UNKNOWN_TOPIC_OR_PARTITION for the topic, and a later Metadata request finds it. Source: KafkaApis, KRaftMetadataCache,
DefaultAutoTopicCreationManager.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import TYPE_CHECKING

from formats.file_name import INTERNAL_TOPICS
from kcli.broker.authorization import EVERYTHING
from kcli.broker.broker import Broker
from kcli.broker.client_view.nodes import NO_NODE, OPERATIONS_OMITTED, View
from kcli.broker.dispatch.inputs import TOPICS_MAX, Inputs
from kcli.metadata.topic_names import fault
from kcli.protocol.error_code import ErrorCode
from kcli.security.acls import Operation, ResourceType

if TYPE_CHECKING:
    from uuid import UUID

    from kcli.broker.wire.types import metadata as types
    from kcli.metadata.image import MetadataImage
    from kcli.metadata.partition import Partition, Topic

LISTENER_ERRORS_SINCE = 6
IDS_SINCE = 12


def metadata(broker: Broker, call: types.MetadataCall) -> types.MetadataResponse:
    """Errors: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION, INVALID_REQUEST; of partitions
    LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND, REPLICA_NOT_AVAILABLE."""
    requested, view = _topics_of(call), broker.view(call.listener)
    is_named = requested is not None
    describable = broker.access.among(call, Operation.DESCRIBE, ResourceType.TOPIC, log_denied=is_named)
    if requested is None:
        every = (each for each in broker.image.topics.values() if each.name in describable)
        return _respond(broker, call, view, (_topic(broker, call, view, topic) for topic in every))
    if call.version < IDS_SINCE and any(_is_by_id(topic) for topic in requested):
        return _refused(call, requested)
    ids = {topic_id for topic in requested if (topic_id := getattr(topic, "topic_id", None)) is not None}
    names = dict.fromkeys(topic.name for topic in requested)
    if ids:
        return _respond(broker, call, view, _by_id(broker, call, view, ids, describable))
    return _respond(broker, call, view, _by_name(broker, call, view, names, describable))


def kept_state(broker: Broker, _listener: str) -> int:
    """Return the state of the node on which a cached response (dispatch/kept.py) depends: the version of the metadata
    image."""
    return broker.image.version


def inputs(broker: Broker, call: types.MetadataCall) -> Inputs:
    """Return what the response depends on: the request and the metadata image. The response is not cached
    (dispatch/kept.py) if the request names more than TOPICS_MAX topics, or a topic that is unknown or has no
    partitions, as that topic may be created."""
    requested, image = _topics_of(call), broker.image
    if requested is None:
        return Inputs(call.request, image.version, image.topics.values())
    known = [_known(image, topic) for topic in requested[:TOPICS_MAX]]
    topics = [topic for topic in known if topic is not None and topic.partitions]
    return Inputs(call.request if len(topics) == len(requested) else None, image.version, topics)


def _topics_of(call: types.MetadataCall) -> tuple[types.MetadataRequestTopic, ...] | None:
    """The topics that the request names, None for all topics."""
    requested = call.request.topics
    return None if call.version == 0 and not requested else requested


def _known(image: MetadataImage, topic: types.MetadataRequestTopic) -> Topic | None:
    if topic.name is not None:
        return image.topics.get(topic.name)
    return None if topic.topic_id is None else image.topics_by_id.get(topic.topic_id)


def _is_by_id(topic: types.MetadataRequestTopic) -> bool:
    return topic.name is None or getattr(topic, "topic_id", None) is not None


def _by_id(
    broker: Broker, call: types.MetadataCall, view: View, ids: Iterable[UUID], describable: Container[str]
) -> Iterator[types.MetadataResponseTopic]:
    for topic_id in ids:
        topic = broker.image.topics_by_id.get(topic_id)
        if topic is None:
            yield _hidden(call, None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id)
        elif topic.name not in describable:
            yield _hidden(call, None, ErrorCode.TOPIC_AUTHORIZATION_FAILED, topic_id)
        else:
            yield _topic(broker, call, view, topic)


def _by_name(
    broker: Broker,
    call: types.MetadataCall,
    view: View,
    names: Iterable[str | None],
    describable: Container[str],
) -> Iterator[types.MetadataResponseTopic]:
    image = broker.image
    missing: list[str] = []
    may_create = _may_create(broker, call)
    creatable: Container[str] | None = None
    for name in names:
        topic = None if name is None else image.topics.get(name)
        if name is not None and name not in describable:
            yield _hidden(call, name, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
            continue
        if topic is not None and topic.partitions:
            yield _topic(broker, call, view, topic)
            continue
        if may_create and creatable is None:
            creatable = _creatable(broker, call)
        if name is not None and creatable is not None and name not in creatable:
            yield _hidden(call, name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, is_internal=name in INTERNAL_TOPICS)
        elif name is None or fault(name):
            yield _failed(broker, call, name, ErrorCode.INVALID_TOPIC_EXCEPTION)
        else:
            missing.append(name)
            yield _failed(broker, call, name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if missing and may_create:
        broker.topics.create_missing(call, missing)


def _creatable(broker: Broker, call: types.MetadataCall) -> Container[str]:
    """Return the names of the topics that the client is allowed to create."""
    if broker.access.allows(call, Operation.CREATE, ResourceType.CLUSTER, log_denied=False):
        return EVERYTHING
    return broker.access.among(call, Operation.CREATE, ResourceType.TOPIC)


def _may_create(broker: Broker, call: types.MetadataCall) -> bool:
    allowed: bool = call.get("allow_auto_topic_creation", True)
    return allowed and broker.config.auto_create_topics_enable and not broker.is_read_only


def _respond(
    broker: Broker, call: types.MetadataCall, view: View, topics: Iterable[types.MetadataResponseTopic]
) -> types.MetadataResponse:
    operations = OPERATIONS_OMITTED
    if call.get("include_cluster_authorized_operations", False):
        may_know = broker.access.allows(call, Operation.DESCRIBE, ResourceType.CLUSTER)
        operations = broker.access.operations(call, ResourceType.CLUSTER) if may_know else 0
    return call.respond(
        brokers=tuple(
            call.new("MetadataResponseBroker", node_id=node.id, host=node.host, port=node.port, rack=node.rack)
            for node in view.nodes
            if not node.is_fenced
        ),
        cluster_id=broker.cluster_id,
        controller_id=view.controller_id,
        topics=tuple(topics),
        cluster_authorized_operations=operations,
        error_code=ErrorCode.NONE,
    )


def _refused(call: types.MetadataCall, requested: Iterable[types.MetadataRequestTopic]) -> types.MetadataResponse:
    topics = (_hidden(call, each.name or "", ErrorCode.INVALID_REQUEST, each.topic_id) for each in requested)
    return call.respond(
        brokers=(),
        cluster_id=None,
        controller_id=NO_NODE,
        topics=tuple(topics),
        cluster_authorized_operations=OPERATIONS_OMITTED,
        error_code=ErrorCode.NONE,
    )


def _hidden(
    call: types.MetadataCall,
    name: str | None,
    code: ErrorCode,
    topic_id: UUID | None = None,
    *,
    is_internal: bool = False,
) -> types.MetadataResponseTopic:
    """Return the part of the response about a topic whose partitions are not shown, because the client may not describe
    or create the topic, no topic has the requested id, or the whole request is refused: it has the error `code`, no
    partitions and no authorized operations. name: None if the client has requested the topic by its id. topic_id: None
    if the client has requested the topic by its name."""
    return call.new(
        "MetadataResponseTopic",
        error_code=code,
        name=name,
        topic_id=topic_id,
        is_internal=is_internal,
        partitions=(),
        topic_authorized_operations=OPERATIONS_OMITTED,
    )


def _failed(broker: Broker, call: types.MetadataCall, name: str | None, code: ErrorCode) -> types.MetadataResponseTopic:
    return call.new(
        "MetadataResponseTopic",
        error_code=code,
        name=name,
        topic_id=None,
        is_internal=name in INTERNAL_TOPICS,
        partitions=(),
        topic_authorized_operations=_topic_operations(broker, call, name or ""),
    )


def _topic_operations(broker: Broker, call: types.MetadataCall, name: str) -> int:
    is_included = call.get("include_topic_authorized_operations", False)
    return broker.access.operations(call, ResourceType.TOPIC, name) if is_included else OPERATIONS_OMITTED


def _topic(broker: Broker, call: types.MetadataCall, view: View, topic: Topic) -> types.MetadataResponseTopic:
    return call.new(
        "MetadataResponseTopic",
        error_code=ErrorCode.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=tuple(_partition(broker, call, view, number, each) for number, each in topic.partitions.items()),
        topic_authorized_operations=_topic_operations(broker, call, topic.name),
    )


def _partition(
    broker: Broker, call: types.MetadataCall, view: View, number: int, partition: Partition
) -> types.MetadataResponsePartition:
    replicas, isr = partition.replicas, partition.isr
    if call.version == 0:  # version 0 has only live brokers in replicas and ISR
        replicas = tuple(each for each in replicas if each in view.alive)
        isr = tuple(each for each in isr if each in view.alive)
    leader_id = view.leader(partition)
    if leader_id != NO_NODE:
        complete = len(replicas) == len(partition.replicas) and len(isr) == len(partition.isr)
        code = ErrorCode.NONE if complete else ErrorCode.REPLICA_NOT_AVAILABLE
    elif partition.leader in broker.image.brokers and call.version >= LISTENER_ERRORS_SINCE:
        code = ErrorCode.LISTENER_NOT_FOUND
    else:
        code = ErrorCode.LEADER_NOT_AVAILABLE
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
