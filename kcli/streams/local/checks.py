"""What an application left behind is looked at before it goes on: a loss ends it before a record is read.

    a changelog or repartition topic is gone      ... and the program has changed: which topics it had instead
    a changelog was deleted and made anew         its id is not the one committed with the offsets
    a changelog has lost its first records        it begins behind 0, and is not deleted by time
    a changelog has lost its last records         it ends before the end that was committed with the offsets
    a changelog has the policy of another store   deleted by time, without windows, or the reverse
    an offset is beyond the end of its topic      the topic was deleted and made anew, or has lost records
    a repartition topic begins behind an offset   records that were not processed are gone

The id of a changelog and its end are committed beside the offsets of its task, among the times of processors: they are
there for any name, so that Kafka Streams keeps them, too. The end is that of some moment before the commit, not later
than a second after the changelog was last written. Offsets without metadata are those of a reset, not of a task.
"""

from __future__ import annotations

import time
from base64 import urlsafe_b64decode
from collections.abc import Iterable, Iterator, Mapping

from kcli.client.admin import Admin, Topic
from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.client.processing import GroupOffsets, group_offsets
from kcli.errors import KcliError
from kcli.java.hashing import java_hash
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.errors import StreamsError
from kcli.streams.local.plan import InternalTopic, Plan, SubTopology
from kcli.streams.local.reset import is_internal
from kcli.streams.topology.offset_metadata import decode

WAIT_S = 0.05
ANEW = "restore the topic, or begin anew with kcli streams reset"


def id_name(changelog: str) -> str:
    """Return the name under which the id of a changelog is committed; no processor or store has such a name."""
    return f"#{java_hash(changelog):x}"


def end_name(changelog: str) -> str:
    """Return the name under which the end of a changelog is committed."""
    return f"{id_name(changelog)}>"


def ids_of(connection: Connection, topics: Iterable[str]) -> dict[str, int]:
    """Return the first half of the id of each topic that the brokers know, as a number."""
    found = Admin(connection).describe(topics)
    return {
        topic.name: int.from_bytes(urlsafe_b64decode(f"{topic.id}==")[:8], "big", signed=True)
        for topic in found
        if isinstance(topic, Topic)
    }


def check(connection: Connection, application_id: str, plan: Plan, existing: Mapping[str, int]) -> None:
    """Raises StreamsError for what the application has lost, KcliError. existing: the number of partitions of all
    topics."""
    committed = _committed(connection, application_id)
    read = {place.topic for place, (_, metadata) in committed.items() if metadata}
    begun = [part for part in plan.sub_topologies if read & set(part.topics)]
    if not begun:
        return
    missing = [topic.name for topic in plan.internal_topics if topic.name not in existing]
    for part in begun:
        _check_there(application_id, part, missing, plan, existing)
    admin = Admin(connection)
    made = {topic.name: topic for topic in plan.internal_topics}
    known = admin.with_offsets(list(_described(admin, [topic for topic in made if topic in existing])))
    committed = _committed(connection, application_id)  # after the starts were read, which other instances move
    for topic in admin.with_configs(known):
        _check_policy(topic, made[topic.name])
    starts = {
        TopicPartition(topic.name, each.number): each.start_offset or 0 for topic in known for each in topic.partitions
    }
    for part in begun:
        _check_changelogs(application_id, part, starts, committed, ids_of(connection, part.changelogs.values()), made)
        _check_ends(connection, application_id, part, committed)
    _check_offsets(connection, application_id, committed, starts)


def _committed(connection: Connection, application_id: str) -> GroupOffsets:
    deadline = time.monotonic() + connection.timeout_s
    while (found := group_offsets(connection, application_id, stable=False)) is None:
        if time.monotonic() > deadline:
            raise StreamsError(f"{application_id}: the coordinator of the group does not tell its offsets")
        time.sleep(WAIT_S)
    return found


def _described(admin: Admin, names: Iterable[str]) -> Iterator[Topic]:
    for topic in admin.describe(names):
        if isinstance(topic, KcliError):
            raise topic
        yield topic


def _check_there(
    application_id: str, part: SubTopology, missing: list[str], plan: Plan, existing: Mapping[str, int]
) -> None:
    lost = sorted({*part.changelogs.values(), *part.topics}.intersection(missing))
    if not lost:
        return
    used = {topic.name for topic in plan.internal_topics}
    left = sorted(topic for topic in existing if is_internal(topic, application_id) and topic not in used)
    text = f"{application_id} has read {', '.join(sorted(set(part.topics) - set(lost)))}, but its internal topic "
    text += f"{', '.join(lost)} is not there: "
    if left:
        text += f"the program has changed, which had {', '.join(left)} (store_name and name keep names of topics); "
    raise StreamsError(text + ANEW)


def _check_policy(topic: Topic, wanted: InternalTopic) -> None:
    policy, needed = topic.configs.get("cleanup.policy"), wanted.configs["cleanup.policy"]
    if policy is not None and set(policy.split(",")) != set(needed.split(",")):
        raise StreamsError(
            f"{topic.name} has cleanup.policy={policy}, and the program needs {needed}: its store has changed, or "
            f"somebody has set it; {ANEW}"
        )


def _check_changelogs(
    application_id: str,
    part: SubTopology,
    starts: Mapping[TopicPartition, int],
    committed: GroupOffsets,
    ids: Mapping[str, int],
    made: Mapping[str, InternalTopic],
) -> None:
    noted = {
        name: value for place in committed if place.topic in part.topics for name, value in _noted(committed[place])
    }
    for store, topic in part.changelogs.items():
        if noted.get(id_name(topic), ids.get(topic)) != ids.get(topic):
            raise StreamsError(
                f"{topic} was deleted and made anew since {application_id} has committed offsets: what the store "
                f"{store} had is lost; {ANEW}"
            )
        for number in range(made[topic].partitions):
            start = starts.get(TopicPartition(topic, number), 0)
            if start and "delete" not in made[topic].configs["cleanup.policy"]:
                raise StreamsError(
                    f"{topic}, partition {number} begins at offset {start:,}: earlier records of the store {store} are "
                    f"gone; {ANEW}"
                )


def _check_ends(connection: Connection, application_id: str, part: SubTopology, committed: GroupOffsets) -> None:
    noted: dict[TopicPartition, int] = {}
    for place in committed:
        known = dict(_noted(committed[place])) if place.topic in part.topics else {}
        for topic in part.changelogs.values():
            if (end := known.get(end_name(topic))) is not None:
                changelog = TopicPartition(topic, place.partition)
                noted[changelog] = max(end, noted.get(changelog, 0))
    ends = Groups(connection).ends(noted)
    stores = {topic: store for store, topic in part.changelogs.items()}
    for place, end in sorted(noted.items()):
        if ends.get(place, end) < end:
            raise StreamsError(
                f"{place.topic}, partition {place.partition} ends at offset {ends[place]:,}, and {application_id} has "
                f"committed offsets when it ended at {end:,}: what the store {stores[place.topic]} had last is lost; "
                f"{ANEW}"
            )


def _noted(committed: tuple[int, str]) -> Iterable[tuple[str, int]]:
    return decode(committed[1]).processors.items()


def _check_offsets(
    connection: Connection, application_id: str, committed: GroupOffsets, starts: Mapping[TopicPartition, int]
) -> None:
    ends = Groups(connection).ends(committed)
    for place, (offset, _) in committed.items():
        where = f"{place.topic}, partition {place.partition}"
        if offset > ends.get(place, offset):
            raise StreamsError(
                f"{where} ends at offset {ends[place]:,}, and {application_id} has read it up to {offset:,}: it was "
                f"deleted and made anew, or has lost records; {ANEW}"
            )
        if offset < starts.get(place, offset):
            raise StreamsError(
                f"{where} begins at offset {starts[place]:,}, and {application_id} has read it up to {offset:,}: "
                f"records between are lost; {ANEW}"
            )
