"""What a pipe would do, found without Spark; and what its checkpoint is of.

    CHECKPOINT/pipe.json   the ends of the pipe: clusters and topics by their ids, directories by their paths
    CHECKPOINT/spark       the checkpoint of the streaming query: offsets/N before micro-batch N, commits/N after it

A checkpoint goes with its ends: a topic that was deleted and created anew is another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kcli.errors import UnreadableInput, UsageError
from kcli.export.files import write_file
from kcli.metadata.partition import from_uuid
from kcli.pipelines.cluster import Cluster
from kcli.pipelines.pipe.ends import End, TopicEnd

ENDS: Final = "pipe.json"
SPARK: Final = "spark"


@dataclass(frozen=True, slots=True)
class Part:
    """What a pipe reads of one partition, or of one table: `unread` of it, from `start` up to `end`. name: the
    partition, or the table."""

    name: str
    start: int | None
    end: int
    unread: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A pipe before it starts. checkpoint: its directory; None if the target itself keeps the offsets. is_new: whether
    nothing was piped before. unit: what `unread` counts."""

    source: str
    target: str
    checkpoint: Path | None
    is_new: bool
    parts: tuple[Part, ...]
    unit: str = "offset"

    @property
    def unread(self) -> int:
        """How much there is to read."""
        return sum(part.unread for part in self.parts)


@dataclass(frozen=True, slots=True)
class PipeProgress:
    """What a pipe has done. batches, records: since it started; undecoded: how many of them became dead letters. rate:
    records a second of the last micro-batch. lag: how much was unread when that was planned, and is not in it. ended:
    whether a micro-batch, or a run of an export, has just ended."""

    batches: int
    records: int
    rate: float
    lag: int
    ended: bool = True
    undecoded: int = 0


def identity(end: End) -> str:
    """Return what an end is, whatever its brokers are called. Raises UsageError without such a topic, NobodyAnswers,
    ErrorAnswer."""
    if not isinstance(end, TopicEnd):
        return str(end)
    with Cluster.parse(end.options)[0].reader({end.topic}) as reader:
        described = reader.describe()
    if end.topic not in described.topic_ids:
        raise UsageError(f"no topic {end.topic!r} in {end.bootstrap}")
    return f"kafka:{described.cluster_id}/{end.topic}/{from_uuid(described.topic_ids[end.topic])}"


class Checkpoint:
    """The checkpoint of a pipe with these ends, by `identity`. Raises UsageError if the directory has something else;
    UnreadableInput."""

    def __init__(self, directory: Path, ends: Mapping[str, str]) -> None:
        self._ends = ends
        self._file = directory / ENDS
        self.spark = directory / SPARK
        try:
            self.is_new = not directory.exists() or not any(directory.iterdir())
            known = ends if self.is_new else json.loads(self._file.read_bytes())
        except NotADirectoryError:
            raise UsageError(f"{directory} is no directory") from None
        except FileNotFoundError:
            raise UsageError(f"{directory} is not empty, and no checkpoint of a pipe") from None
        except (OSError, ValueError) as error:
            raise UnreadableInput(str(self._file), getattr(error, "strerror", None) or "not of a pipe") from None
        for name, end in ends.items():
            if not isinstance(known, dict) or known.get(name) != end:
                told = known.get(name) if isinstance(known, dict) else known
                raise UsageError(f"{directory} is the checkpoint of another pipe: its {name} is {told}, not {end}")

    def make(self) -> None:
        """Write the ends to a new checkpoint. Raises UnreadableInput."""
        write_file(str(self._file), json.dumps(self._ends).encode())

    def offsets(self) -> dict[str, Any] | None:
        """Return the offsets behind the last micro-batch that has run, None if none has. Raises UnreadableInput."""
        commits = self.spark / "commits"
        done = [int(each.name) for each in commits.iterdir() if each.name.isdecimal()] if commits.is_dir() else []
        if not done:
            return None
        path = self.spark / "offsets" / str(max(done))
        try:
            found = json.loads(path.read_text().splitlines()[2])
        except (OSError, ValueError, IndexError) as error:
            raise UnreadableInput(str(path), getattr(error, "strerror", None) or "no offsets of a query") from None
        if not isinstance(found, dict):
            raise UnreadableInput(str(path), "no offsets of a query")
        return found
