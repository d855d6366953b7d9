"""The responses that clients received, for the verdict; and the faults of the cluster, a line of JSON each.

A value names its sender: `PRODUCER NUMBER` without a transaction, numbers ascending in each partition; `PRODUCER
TRANSACTION INDEX` in a transaction, transactions ascending. A producer that replaces a failed one has a new name; a
transactional one keeps its name and goes on counting.
"""

from __future__ import annotations

import json
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from kcli.protocol.topic_partition import TopicPartition

NO_OFFSET = -1


class Outcome(Enum):
    """The known outcome of a transaction. UNKNOWN: it may be committed or not."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass
class Sent:
    """The records of one producer in one partition: how many it sent, and the offsets (or NO_OFFSET) of the
    acknowledged ones."""

    count: int = 0
    acked: dict[int, int] = field(default_factory=dict)


@dataclass
class Transaction:
    """The records of a transaction in each partition, by index, and its outcome."""

    records: dict[TopicPartition, list[int]]
    outcome: Outcome = Outcome.UNKNOWN


@dataclass
class History:
    """The whole history. Each list and dict has one writer thread; the lock is for what several threads count."""

    sent: dict[tuple[str, TopicPartition], Sent] = field(default_factory=lambda: defaultdict(Sent))
    transactions: dict[str, dict[int, Transaction]] = field(default_factory=lambda: defaultdict(dict))
    tails: dict[str, dict[TopicPartition, list[tuple[int, str]]]] = field(default_factory=dict)
    """The records that a consumer has read of a partition which it never left, in order."""
    groups: dict[str, dict[TopicPartition, dict[int, str]]] = field(default_factory=dict)
    """The records that the members of a group have read, by offset."""
    wrong: list[str] = field(default_factory=list)
    """Found while it ran."""
    ended: list[str] = field(default_factory=list)
    """Producers that could not go on, with the reason; others replaced them."""
    lock: threading.Lock = field(default_factory=threading.Lock)
    last_ack_s: float = field(default_factory=time.monotonic)
    longest_gap_s: float = 0.0

    def acknowledged(self) -> None:
        """A record was, now."""
        now = time.monotonic()
        with self.lock:
            self.longest_gap_s = max(self.longest_gap_s, now - self.last_ack_s)
            self.last_ack_s = now

    def take_gap_s(self) -> float:
        """The longest time without an acknowledgement since the last call, the one that still lasts included."""
        with self.lock:
            gap = max(self.longest_gap_s, time.monotonic() - self.last_ack_s)
            self.longest_gap_s = 0.0
        return gap

    def found_wrong(self, what: str) -> None:
        """Something that must not happen has."""
        with self.lock:
            self.wrong.append(what)


class EventLog:
    """The log of faults with their times, in a file and on stdout."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")
        self._began = time.monotonic()

    def tell(self, what: str, **details: Any) -> None:
        """A line."""
        seconds = round(time.monotonic() - self._began, 2)
        self._file.write(json.dumps({"s": seconds, "what": what, **details}) + "\n")
        self._file.flush()
        more = "  ".join(f"{name} {value}" for name, value in details.items())
        print(f"{seconds:8.2f} s  {what}  {more}".rstrip(), flush=True)

    def close(self) -> None:
        """No more lines."""
        self._file.close()
