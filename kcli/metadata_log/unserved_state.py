"""Groups and transactional ids whose records are in another partition of a coordinator's topic than the one in which
Kafka looks for them.

Kafka takes the partition from a hash of the id, modulo the topic's number of partitions. Kafka lets a topic of a
coordinator grow (`kafka-topics --alter --partitions`) and moves no record: most ids then have another partition, in
which they have no record. A coordinator still loads the old records, but does not use them for any client's request.

A record is misplaced if the hash of its id gives another partition than the one that has the record. A topic has grown
if the records of the metadata log show partitions that were created later than the first ones, and most misplaced
records are where the earlier number of partitions puts them. If a snapshot has replaced the records of the metadata
log, the topic has grown if all misplaced records are where one smaller number of partitions puts them, and this is too
unlikely to be chance. Other causes, such as exchanged directories, are found by kcli.log.recovery.exchanged_names and
kcli.log.recovery.misdirected. Those modules do not report a topic that has grown.

Source: GroupCoordinatorService.partitionFor, TransactionStateManager.partitionFor; ReplicationControlManager
.createPartitions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from formats.file_name import METADATA_DIRECTORY
from formats.internal_topic import record_types
from kcli.errors import UnreadableInput
from kcli.java.hashing import partition_of
from kcli.log.coordinator_records import read_records, segments
from kcli.log.log_directory import LogDirectory
from kcli.log.recovery.coordinator_keys import KEYS_OF, hashed_keys, owners
from kcli.log.source import FileSource
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid
from kcli.metadata_log.replay import records_of

CHANCE_MAX = 0.01
"""A topic counts as grown only if the probability that a smaller number of partitions puts the misplaced records where
they are by chance is at most this."""


class Place(NamedTuple):
    """The place of an id's records. directory: the directory of the partition that has them. home: the number of the
    partition in which Kafka looks for them. is_here: whether that partition is in one of the log directories. is_new:
    whether it is, and has no record of the id, not even a tombstone."""

    directory: Path
    home: int
    is_here: bool
    is_new: bool


@dataclass(frozen=True, slots=True)
class UnservedState:
    """The ids of one topic that have records, but none in the partition in which Kafka looks for them. what: "group",
    "transactional id" or "share group". count: the topic's number of partitions. before: a smaller number that it had
    earlier; 0 if none is known. places: by id, in order."""

    topic: str
    what: str
    count: int
    before: int
    places: Mapping[str, Place]


def unserved_state(homes: Sequence[Path], image: MetadataImage | None) -> dict[str, UnservedState]:
    """Return by topic the ids whose records Kafka does not find. The result has each topic with such ids, and each
    topic that has grown, even if Kafka finds all its ids; but no topic whose partitions all begin with records that
    belong there.

    homes: the log directories of a node. image: the content of its metadata log; None if it is not known. Files that
    cannot be read are passed over: other checks report them.
    """
    found: dict[str, UnservedState] = {}
    for topic in KEYS_OF:
        known = None if image is None else image.topic(topic)
        count = 0 if known is None else len(known.partitions)
        paths = _directories(homes, topic) if count else {}
        if known is None or not any(owners(path, topic, count).keys() - {number} for number, path in paths.items()):
            continue
        read = {number: _read(path, topic) for number, path in paths.items()}
        foreign = _foreign(read, count)
        before = _before(homes, from_uuid(known.id))
        if 2 * sum(_fits(before, each) for each in foreign) < len(foreign):  # another cause, after the topic grew
            before = 0
        before = before or _before_by_keys(foreign, count)
        places = dict(sorted(_places(read, paths, count)))
        if before or places:
            found[topic] = UnservedState(topic, KEYS_OF[topic], count, before, places)
    return found


def counts_of_keys(image: MetadataImage | None, found: Mapping[str, UnservedState]) -> dict[str, int]:
    """Return the numbers of partitions by topic, without the topics that have grown: their records were placed by
    several numbers of partitions, so that a key does not show in which partition its record belongs. found: by
    unserved_state."""
    topics = [] if image is None else image.topics.values()
    grown = {topic for topic, each in found.items() if each.before}
    return {each.name: len(each.partitions) for each in topics if each.name not in grown}


class _Records(NamedTuple):
    """The hashed texts of the keys in one partition, each with its group id or transactional id. named: of all records.
    live: of those that no later record deletes."""

    named: Mapping[str, str]
    live: Collection[str]


def _directories(homes: Sequence[Path], topic: str) -> dict[int, Path]:
    """Return the directories of a topic's partitions, by number."""
    found: dict[int, Path] = {}
    for home in homes:
        with suppress(UnreadableInput, OSError):
            for each in LogDirectory(home).partitions():
                if each.name.topic == topic and not each.name.state:
                    found.setdefault(each.name.partition, each.path)
    return found


def _read(directory: Path, topic: str) -> _Records:
    types = record_types(topic)
    named: dict[str, str] = {}
    live: dict[bytes, str] = {}
    with suppress(UnreadableInput):
        for _, record in read_records(directory, lambda _: None):
            key = record.key
            if key is None or int.from_bytes(key[:2], signed=True) not in types:
                continue
            for name, text in hashed_keys(key, topic):
                named[text] = name
                if record.value is None:
                    live.pop(key, None)
                else:
                    live[key] = text
    return _Records(named, set(live.values()))


def _places(read: Mapping[int, _Records], paths: Mapping[int, Path], count: int) -> list[tuple[str, Place]]:
    found = []
    for number, each in read.items():
        for text in each.live:
            home = partition_of(text, count)
            if home != number and (home not in read or text not in read[home].live):
                is_new = home in read and text not in read[home].named
                found.append((each.named[text], Place(paths[number], home, home in read, is_new)))
    return found


def _before(homes: Sequence[Path], topic_id: str) -> int:
    """Return the number of partitions that a topic had before it last grew, by the records of a metadata log in one of
    the log directories; 0 if the records do not show it.

    The records of partitions that are created together have adjacent offsets, with those of the topic's configuration
    between them.
    """
    before, last, name = 0, -1, ""
    for home in dict.fromkeys(homes):
        with suppress(UnreadableInput):
            for _, path in segments(home / METADATA_DIRECTORY):
                source = FileSource(path)
                try:
                    for offset, message, value in records_of(source, lambda _: None, around_damage=True):
                        if message == "TopicRecord" and value["topicId"] == topic_id:
                            name, last = value["name"], offset
                        elif message == "ConfigRecord" and name and value["resourceName"] == name:
                            last = offset
                        elif message == "PartitionRecord" and value["topicId"] == topic_id:
                            is_first = offset != last + 1 and value["partitionId"] > 0
                            before = value["partitionId"] if is_first else before
                            last = offset
                finally:
                    source.close()
    return before


def _foreign(read: Mapping[int, _Records], count: int) -> set[tuple[int, str]]:
    """Return the numbers of partitions with the hashed texts of keys whose records belong to another partition."""
    return {
        (number, text) for number, each in read.items() for text in each.named if partition_of(text, count) != number
    }


def _fits(count: int, foreign: tuple[int, str]) -> bool:
    """Whether a record belonged to the partition that has it when the topic had `count` partitions."""
    number, text = foreign
    return count > 0 and partition_of(text, count) == number


def _before_by_keys(foreign: Collection[tuple[int, str]], count: int) -> int:
    """Return the smaller number of partitions that puts all misplaced records where they are; 0 if there is none, or if
    there are so few ids that this may be chance."""
    if not foreign:
        return 0
    ids = {text for _, text in foreign}
    tried = range(max(number for number, _ in foreign) + 1, count)
    if sum(1 / each ** len(ids) for each in tried) > CHANCE_MAX:
        return 0
    return next((each for each in tried if all(_fits(each, one) for one in foreign)), 0)
