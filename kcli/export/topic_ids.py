"""The ids of topics on a disk. A topic that was deleted and made anew has another id; by it the offsets that an export
or a query has kept are known to be those of another log."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from formats import properties
from formats.errors import FormatError
from formats.file_name import FileKind
from kcli.errors import UnreadableInput, UsageError
from kcli.export.discovery import PartitionFiles
from kcli.export.files import join, read_file, stat

log = logging.getLogger("kcli.export")


def topic_id(files: PartitionFiles) -> str | None:
    """Return the id of a partition's topic as Kafka writes it: that in partition.metadata, or the tier's; None if
    there is none. Raises UnreadableInput."""
    if files.remote is not None and files.remote.directory is None:
        return files.remote.topic_id
    address = join(files.directory, FileKind.PARTITION_METADATA)
    if stat(address) is None:
        return None
    try:
        return properties.parse_partition_metadata(read_file(address)).topic_id
    except FormatError as error:
        raise UnreadableInput(address, error.reason) from None


def topic_ids(partitions: Iterable[PartitionFiles]) -> dict[str, str]:
    """Return the ids of the topics of these partitions, by name, without those that no file tells; a damaged file is a
    warning. Raises UsageError for partitions of two topics with one name."""
    found: dict[str, str] = {}
    for each in partitions:
        try:
            known = topic_id(each)
        except UnreadableInput as error:
            log.warning("%s: the topic's id is not known", error)
            continue
        if known is not None and found.setdefault(each.topic, known) != known:
            raise UsageError(
                f"{each.directory}: the topic has the id {known}, and that of another partition {found[each.topic]}: "
                f"there are two topics of the name {each.topic}"
            )
    return found


def made_anew(known: Mapping[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Return the topics that have another id than the known one, each with a text that tells it. known, found: ids by
    name; a topic that is missing in one of them is left out."""
    return {
        topic: f"the topic {topic} was deleted and made anew: its id was {known[topic]}, and is {found[topic]}"
        for topic in sorted(known.keys() & found.keys())
        if known[topic] != found[topic]
    }


def refuse_made_anew(known: Mapping[str, str], found: Mapping[str, str], where: str) -> None:
    """Raise UsageError for a topic that has another id than the known one. where: what has the records of the known
    topic, for the message. The other arguments are those of `made_anew`."""
    for text in made_anew(known, found).values():
        raise UsageError(f"{text}; {where} has records of the topic before: export this one to another place")
