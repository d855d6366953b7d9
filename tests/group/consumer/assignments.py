"""Groups to assign, as questions for Kafka's own classes; assignments.jsonl.gz has some with Kafka's answers."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path
from typing import Any
from uuid import UUID

from kcli.group.consumer.assignors import ASSIGNORS, MemberSubscription
from tests.conftest import read_jsonl

SAMPLES = Path(__file__).with_name("assignments.jsonl.gz")

Json = dict[str, Any]
Members = dict[str, MemberSubscription]
Topics = dict[UUID, int]


def kafka_id(uuid: UUID) -> str:
    return urlsafe_b64encode(uuid.bytes).decode().rstrip("=")


def our_id(text: str) -> UUID:
    return UUID(bytes=urlsafe_b64decode(text + "=="))


def question(name: str, members: Members, topics: Topics, *, homogeneous: bool) -> Json:
    """What Kafka is asked."""
    return {
        "assignor": name,
        "homogeneous": homogeneous,
        "topics": [[kafka_id(topic), count] for topic, count in topics.items()],
        "members": [
            {
                "id": member_id,
                "instance": member.instance_id,
                "topics": sorted(map(kafka_id, member.topic_ids)),
                "assigned": [[kafka_id(topic), sorted(has)] for topic, has in member.assigned.items()],
            }
            for member_id, member in members.items()
        ],
    }


def answer(question: Json) -> Json:
    """Return kcli's answer to a question in the form of Kafka's."""
    members = {
        member["id"]: MemberSubscription(
            rack_id=None,
            instance_id=member["instance"],
            topic_ids=frozenset(map(our_id, member["topics"])),
            assigned={our_id(topic): frozenset(has) for topic, has in member["assigned"]},
        )
        for member in question["members"]
    }
    topics = {our_id(topic): count for topic, count in question["topics"]}
    given = ASSIGNORS[question["assignor"]](members, topics, homogeneous=question["homogeneous"])
    return {
        member_id: [[kafka_id(topic), sorted(has)] for topic, has in partitions.items()]
        for member_id, partitions in given.items()
    }


def complete(question: Json, theirs: Json) -> Json:
    """Add members without partitions to Kafka's answer, which leaves them out where no member subscribes to a topic."""
    return {member["id"]: theirs.get(member["id"], []) for member in question["members"]}


def samples() -> list[Json]:
    """Each: `question`, Kafka's `answer`."""
    return list(read_jsonl(SAMPLES))
