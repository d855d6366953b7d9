"""The STATE file of an incremental export: the offset at which the next increment of each partition begins.

    kcli_state   1, the version of this layout
    export       the id in the manifest of the table that this file belongs to
    increments   the number of commits so far, equal to that in the manifest
    next         topic -> partition -> the first offset that is not in the table yet
    topic_ids    topic -> its id, for topics of which it is known; files of older versions of kcli have none

The file is replaced in the same commit as the manifest (commit.py): a run that is killed changes neither of them, or
both once the next run has finished its commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kcli.errors import UnreadableInput
from kcli.protocol.topic_partition import TopicPartition

VERSION = 1


@dataclass(frozen=True, slots=True)
class State:
    """The content of a STATE file. next: the first offset of the next increment, by (topic, partition). topic_ids: by
    topic, as far as they are known."""

    export: str
    increments: int
    next: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """Return the content of the STATE file."""
        offsets: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in sorted(self.next.items()):
            offsets.setdefault(topic, {})[str(partition)] = offset
        value = {
            "kcli_state": VERSION,
            "export": self.export,
            "increments": self.increments,
            "next": offsets,
            "topic_ids": dict(self.topic_ids),
        }
        return json.dumps(value, indent=1).encode()


def read_state(path: Path) -> State | None:
    """Read a STATE file; return None if it does not exist. Raises UnreadableInput."""
    try:
        value = json.loads(path.read_bytes())
        if value["kcli_state"] != VERSION:
            raise UnreadableInput(str(path), "a state of another version of kcli")
        offsets = {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, each in value["next"].items()
            for partition, offset in each.items()
        }
        topic_ids = {topic: str(each) for topic, each in value.get("topic_ids", {}).items()}
        return State(value["export"], value["increments"], offsets, topic_ids)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnreadableInput.of(path, error) from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableInput(str(path), f"not the state of an incremental export: {error!r}") from error
