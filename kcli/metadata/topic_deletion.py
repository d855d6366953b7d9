"""Deleting topics, each given by its name or by its id.

One RemoveTopicRecord a topic, behind which its partitions and its configuration are gone. Source: ControllerApis,
ReplicationControlManager; KIP-516 (ids).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from uuid import UUID

from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition import Topic, from_uuid
from kcli.metadata.result import Error, ErrorCode, Refused, Result
from kcli.metadata.topic_control import TopicAnswer, TopicContext


def delete_topics(
    image: MetadataImage, topics: Sequence[tuple[str | None, UUID | None]], context: TopicContext
) -> Result[list[TopicAnswer]]:
    """Delete topics, each a name or an id.

    Errors of a topic: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, THROTTLING_QUOTA_EXCEEDED. Raises
    Refused(TOPIC_DELETION_DISABLED).
    """
    if not context.deletion_enabled:
        raise Refused(ErrorCode.TOPIC_DELETION_DISABLED)
    answers: list[TopicAnswer] = []
    records: list[Record] = []
    for found in _find(image, topics):
        if isinstance(found, TopicAnswer):
            answers.append(found)
        elif context.charge(len(found.partitions)):
            records.append(("RemoveTopicRecord", 0, {"topicId": from_uuid(found.id)}))
            answers.append(TopicAnswer(name=found.name, topic_id=found.id))
        else:
            answers.append(_refused(found.name, found.id, ErrorCode.THROTTLING_QUOTA_EXCEEDED, None))
    return Result(records, answers)


def _find(image: MetadataImage, topics: Sequence[tuple[str | None, UUID | None]]) -> Iterator[Topic | TopicAnswer]:
    """The topics that are meant, and what is answered for the others."""
    invalid = ErrorCode.INVALID_REQUEST
    for name, topic_id in topics:
        if name is None and topic_id is None:
            yield _refused(None, None, invalid, "Neither topic name nor id were specified.")
        elif name is not None and topic_id is not None:
            yield _refused(name, topic_id, invalid, "You may not specify both topic name and topic id.")
    names = Counter(name for name, topic_id in topics if name is not None and topic_id is None)
    ids = Counter(topic_id for name, topic_id in topics if topic_id is not None and name is None)
    named = {topic.id for name in names if (topic := image.topics.get(name)) is not None and names[name] == 1}
    for topic_id, count in ids.items():
        topic = image.topics_by_id.get(topic_id)
        if count > 1:
            yield _refused(None, topic_id, invalid, "Duplicate topic id.")
        elif topic is None:
            yield _refused(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
        elif topic_id not in named:
            yield topic
    for name, count in names.items():
        topic = image.topics.get(name)
        if count > 1:
            yield _refused(name, None, invalid, "Duplicate topic name.")
        elif topic is None:
            message = "This server does not host this topic-partition."
            yield _refused(name, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
        elif topic.id in ids:
            message = "The provided topic name maps to an ID that was already supplied."
            yield _refused(name, topic.id, invalid, message)
        else:
            yield topic


def _refused(name: str | None, topic_id: UUID | None, code: ErrorCode, message: str | None) -> TopicAnswer:
    return TopicAnswer(name=name, topic_id=topic_id, error=Error(code, message))
