"""Deletion of topics, each named by its name or by its id.

Each topic takes one RemoveTopicRecord, which removes its partitions and its configuration too. Source: ControllerApis,
ReplicationControlManager; KIP-516 (ids).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.partition import Topic, from_uuid
from kcli.metadata.result import Error, Refused, Result
from kcli.metadata.topic_control import TopicAnswer, TopicContext
from kcli.protocol.error_code import ErrorCode


class Rights(NamedTuple):
    """The names of the topics that the client of a request may describe, and of those that it may delete. None: all
    topics."""

    describable: Container[str] | None = None
    deletable: Container[str] | None = None

    def describes(self, name: str) -> bool:
        """Whether the client that sent the request may describe the topic."""
        return self.describable is None or name in self.describable

    def deletes(self, name: str) -> bool:
        """Whether the client that sent the request may delete the topic."""
        return self.deletable is None or name in self.deletable


ALL_RIGHTS: Final = Rights()


def delete_topics(
    image: MetadataImage,
    topics: Sequence[tuple[str | None, UUID | None]],
    context: TopicContext,
    rights: Rights = ALL_RIGHTS,
) -> Result[list[TopicAnswer]]:
    """Return the records that delete topics, and an answer for each topic or refused entry.

    topics: the entries of the request, each with a topic's name or its id; the other one is None. context: says
    whether topics may be deleted, and charges the quota. For the name of a topic that the client may not describe,
    the answer does not show whether the topic exists. For an id it does: the errors differ.

    Errors of a topic: TOPIC_AUTHORIZATION_FAILED, INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
    THROTTLING_QUOTA_EXCEEDED. Raises Refused(TOPIC_DELETION_DISABLED).
    """
    if not context.deletion_enabled:
        raise Refused(ErrorCode.TOPIC_DELETION_DISABLED)
    answers: list[TopicAnswer] = []
    records: list[Record] = []
    for found in _find(image, topics, rights):
        if isinstance(found, TopicAnswer):
            answers.append(found)
        elif context.charge(len(found.partitions)):
            records.append(("RemoveTopicRecord", 0, {"topicId": from_uuid(found.id)}))
            answers.append(TopicAnswer(name=found.name, topic_id=found.id))
        else:
            answers.append(_refused(found.name, found.id, ErrorCode.THROTTLING_QUOTA_EXCEEDED, None))
    return Result(records, answers)


def _find(
    image: MetadataImage, topics: Sequence[tuple[str | None, UUID | None]], rights: Rights
) -> Iterator[Topic | TopicAnswer]:
    """Yield the topic to delete for each entry, or the answer to the entry if it is refused. Entries that
    are repeated, or that give one topic by its name and by its id, get a single answer, an error. topics, rights: as
    for `delete_topics`."""
    invalid = ErrorCode.INVALID_REQUEST
    for name, topic_id in topics:
        if name is None and topic_id is None:
            yield _refused(None, None, invalid, "Neither topic name nor id were specified.")
        elif name is not None and topic_id is not None:
            yield _refused(name, topic_id, invalid, "You may not specify both topic name and topic id.")
    names = Counter(name for name, topic_id in topics if name is not None and topic_id is None)
    ids = Counter(topic_id for name, topic_id in topics if topic_id is not None and name is None)
    once = (name for name in names if names[name] == 1)
    rights_of = {name: (rights.describes(name), rights.deletes(name)) for name in once}
    may = (name for name in rights_of if all(rights_of[name]))
    named = {topic.id for name in may if (topic := image.topics.get(name)) is not None}
    for topic_id, count in ids.items():
        if count > 1:
            yield _refused(None, topic_id, invalid, "Duplicate topic id.")
        elif isinstance(found := _by_id(image, topic_id, rights), TopicAnswer) or topic_id not in named:
            yield found
    for name, count in names.items():
        if count > 1:
            yield _refused(name, None, invalid, "Duplicate topic name.")
        else:
            found = _by_name(image, name, rights)
            if isinstance(found, Topic) and found.id in ids:
                message = "The provided topic name maps to an ID that was already supplied."
                found = _refused(name, found.id, invalid, message)
            yield found


def _by_id(image: MetadataImage, topic_id: UUID, rights: Rights) -> Topic | TopicAnswer:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return _refused(None, topic_id, ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    if not rights.deletes(topic.name):
        return _denied(topic.name if rights.describes(topic.name) else None, topic_id)
    return topic


def _by_name(image: MetadataImage, name: str, rights: Rights) -> Topic | TopicAnswer:
    if not rights.describes(name):
        return _denied(name, None)
    topic = image.topics.get(name)
    if topic is None:
        message = "This server does not host this topic-partition."
        return _refused(name, None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
    return topic if rights.deletes(name) else _denied(name, None)


def _denied(name: str | None, topic_id: UUID | None) -> TopicAnswer:
    return _refused(name, topic_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")


def _refused(name: str | None, topic_id: UUID | None, code: ErrorCode, message: str | None) -> TopicAnswer:
    return TopicAnswer(name=name, topic_id=topic_id, error=Error(code, message))
