"""The plan of a pipe, made without Spark; and its checkpoint.

    CHECKPOINT/pipe.json   the ends of the pipe: clusters and topics by their ids, directories by their paths
    CHECKPOINT/spark       the checkpoint of the streaming query: offsets/N before micro-batch N, commits/N after it

A checkpoint belongs to the two ends in it. A topic that was deleted and created again is another end, as it has another
id. While a pipe runs, it has locked the directory (flock).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kcli.errors import UnreadableInput, UsageError
from kcli.export.commit import Busy
from kcli.export.files import write_file
from kcli.metadata.partition import from_uuid
from kcli.pipelines.cluster import Cluster
from kcli.pipelines.pipe.ends import End, TopicEnd

ENDS: Final = "pipe.json"
SPARK: Final = "spark"


@dataclass(frozen=True, slots=True)
class Part:
    """The part of one partition, or of one table, that a pipe reads: from `start` up to `end`. unread: how many offsets
    or rows that is. name: of the partition or the table."""

    name: str
    start: int | None
    end: int
    unread: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A pipe before it starts. checkpoint: its directory; None if the target itself keeps the offsets. is_new: whether
    this is the first run of the pipe. unit: what `unread` counts, such as offsets."""

    source: str
    target: str
    checkpoint: Path | None
    is_new: bool
    parts: tuple[Part, ...]
    unit: str = "offset"

    @property
    def unread(self) -> int:
        """How many offsets or rows all parts have together."""
        return sum(part.unread for part in self.parts)


@dataclass(frozen=True, slots=True)
class PipeProgress:
    """The progress of a pipe. batches, records: their numbers since the pipe started; undecoded: how many records
    became dead letters. rate: records a second of the last micro-batch. lag: how much was left unread when that
    micro-batch was planned, None if an earlier run has planned it. ended: whether a micro-batch, or a run of an export,
    has just ended."""

    batches: int
    records: int
    rate: float
    lag: int | None
    ended: bool = True
    undecoded: int = 0


def identity(end: End) -> str:
    """Return a text that identifies an end: for a topic, the cluster id and the topic's name and id, so that brokers
    may have new addresses. Raises UsageError if the topic does not exist, NobodyAnswers, ErrorAnswer."""
    if not isinstance(end, TopicEnd):
        return str(end)
    with Cluster.parse(end.options)[0].reader({end.topic}) as reader:
        described = reader.describe()
    if end.topic not in described.topic_ids:
        raise UsageError(f"no topic {end.topic!r} in {end.bootstrap}")
    return f"kafka:{described.cluster_id}/{end.topic}/{from_uuid(described.topic_ids[end.topic])}"


class Checkpoint:
    """The checkpoint of a pipe. ends: the `identity` of each end. Raises UsageError if the directory has the checkpoint
    of other ends, or other files; UnreadableInput."""

    def __init__(self, directory: Path, ends: Mapping[str, str]) -> None:
        self._directory = directory
        self._ends = ends
        self._file = directory / ENDS
        self.spark = directory / SPARK
        try:
            # a run that was killed, or had a full disk, may have left a part of the file under another name
            self.is_new = not directory.exists() or all(_is_part(each.name) for each in directory.iterdir())
            known = ends if self.is_new else json.loads(self._file.read_bytes())
        except NotADirectoryError:
            raise UsageError(f"{directory} is no directory") from None
        except FileNotFoundError:
            raise UsageError(f"{directory} is not empty, and no checkpoint of a pipe") from None
        except OSError as error:
            raise UnreadableInput(f"--checkpoint {directory}", error.strerror or str(error)) from None
        except ValueError:
            raise UnreadableInput(str(self._file), "not of a pipe") from None
        for name, end in ends.items():
            if not isinstance(known, dict) or known.get(name) != end:
                told = known.get(name) if isinstance(known, dict) else known
                reason = _made_anew(str(told), end)
                raise UsageError(
                    f"{directory} is the checkpoint of another pipe: its {name} is {told}, not {end}{reason}"
                )

    def make(self) -> None:
        """Write the ends into the directory of a new checkpoint. Raises UsageError if it cannot be made."""
        try:
            write_file(str(self._file), json.dumps(self._ends).encode())
        except UnreadableInput as error:
            raise UsageError(
                f"--checkpoint {self._directory} cannot be made ({error.reason}): give a directory that this user may "
                "write to, on a disk with room"
            ) from None

    @contextmanager
    def locked(self) -> Iterator[None]:
        """A context in which no other pipe of this machine has the checkpoint, once it is made. Raises Busy if one has
        it, UnreadableInput."""
        try:
            lock = os.open(self._directory, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise UnreadableInput.of(self._directory, error) from error
        try:
            if not _is_locked(lock):
                raise Busy(f"{self._directory}: another pipe is running with this checkpoint")
            yield
        finally:
            os.close(lock)

    def offsets(self) -> dict[str, Any] | None:
        """Return the offsets at the end of the last micro-batch that has run, None if none has. Raises
        UnreadableInput."""
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


def _is_part(name: str) -> bool:
    return name.startswith(f".{ENDS}.")


def _is_locked(descriptor: int) -> bool:
    """Lock an open file or directory; return whether nobody else has locked it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _made_anew(told: str, end: str) -> str:
    """Return the reason, in words, why a checkpoint has another topic id than the topic of its name; an empty text if
    the two ends differ in more."""
    is_of_name = end.startswith("kafka:") and told.rpartition("/")[0] == end.rpartition("/")[0]
    return ": the topic was made anew since; --checkpoint with a new directory begins anew" if is_of_name else ""
