"""The partition of a coordinator's topic in which Kafka looks for a group or a transactional id: by the hash of the id.

If a topic has grown, older records may be in another partition: its coordinator loads them, but does not use them for
any client's request. Source: GroupCoordinatorService.partitionFor, TransactionStateManager.partitionFor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kcli.java.hashing import partition_of
from kcli.printable import names_text

NAMES_SHOWN = 5


def is_home(name: str, number: int, count: int) -> bool:
    """Whether Kafka looks for an id in this partition. count: the topic's number of partitions; 0 if it is not known,
    and then False."""
    return count > 0 and partition_of(name, count) == number


def unserved_lines(what: str, topic: str, numbers: Mapping[str, int], count: int) -> Iterator[str]:
    """Yield a line of text if Kafka does not find some of the ids. what: "group" or "transactional id". numbers: by id,
    the partition of the topic that has its records. count: as for is_home; if it is not known, nothing is yielded."""
    found = sorted(name for name, number in numbers.items() if not is_home(name, number, count))
    if found and count:
        shown = [f"{name} ({numbers[name]}, not {partition_of(name, count)})" for name in found]
        ids = f"{len(found):,} {what}{'s' if len(found) > 1 else ''}"
        yield (
            f"{topic}: the records of {ids} are in other partitions than the one in which Kafka looks, so that clients "
            f"do not get what is shown of them: {names_text(shown, NAMES_SHOWN)}"
        )
