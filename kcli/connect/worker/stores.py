"""Where a worker keeps configurations, statuses and offsets: in memory here, for a standalone worker.

A store is written by records and read from the state that their replay makes, whether a topic is between them or not.
A standalone worker keeps offsets in the file of offset.storage.file.filename, one JSON line a partition; Kafka's own
file, a serialized Java map, is not read.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from kcli.connect.plugins import Offset, Partition
from kcli.connect.topics.configs import ConfigState, Event
from kcli.connect.topics.json_values import Record
from kcli.connect.topics.offsets import OffsetState, records_of
from kcli.connect.topics.statuses import StatusState
from kcli.errors import UnreadableInput

OnConfig = Callable[[Event], None]
IsDue = Callable[[], bool]


class Stores(Protocol):
    """The worker's stores. Written from its event loop."""

    configs: ConfigState
    statuses: StatusState
    offsets_topic: str | None

    async def start(self, on_config: OnConfig) -> None:
        """Read what there is, and call `on_config` for what changes from then on. Raises KcliError."""

    async def write_configs(self, records: Sequence[Record], *, by_leader: bool = True) -> None:
        """Write records of configurations; returns once they are replayed. by_leader: whether the leader alone writes
        such records. Raises KcliError."""

    def write_status(self, record: Record, is_due: IsDue | None = None, *, refreshes: bool = False) -> None:
        """Write a status, without a wait. is_due: asked before; where it says no, the status is not written. refreshes:
        whether all statuses that others have written are replayed first."""

    async def refresh(self) -> None:
        """Replay all configurations that were written before. Raises KcliError."""

    def read_offsets(self, connector: str) -> Sequence[tuple[Partition, Offset]]:
        """Return the offsets of a connector, up to date. Called outside of the event loop. Raises KcliError."""

    def write_offsets(self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> None:
        """Write offsets; returns once they are stored. Called outside of the event loop. Raises KcliError."""

    async def close(self) -> None:
        """Write what waits, and end."""


class MemoryStores:
    """The stores of a standalone worker. offsets_file: None keeps offsets in memory, too. Raises UnreadableInput."""

    def __init__(self, offsets_file: Path | None) -> None:
        self.configs, self.statuses = ConfigState(), StatusState()
        self.offsets_topic: str | None = None
        self._offsets = OffsetState()
        self._on_config: OnConfig = lambda _: None
        self._file = None if offsets_file is None else OffsetsFile(offsets_file)
        self._lock = threading.Lock()
        for key, value in () if self._file is None else self._file.records:
            self._offsets.replay(key, value)

    async def start(self, on_config: OnConfig) -> None:
        """Call `on_config` for what changes from now on."""
        self._on_config = on_config

    async def write_configs(self, records: Sequence[Record], *, by_leader: bool = True) -> None:  # noqa: ARG002
        """Replay records of configurations."""
        for key, value in records:
            event = self.configs.replay(self.configs.end_offset, key, value)
            if event is not None:
                self._on_config(event)

    def write_status(self, record: Record, is_due: IsDue | None = None, *, refreshes: bool = False) -> None:  # noqa: ARG002
        """Replay the record of a status."""
        if is_due is None or is_due():
            self.statuses.replay(*record)

    async def refresh(self) -> None:
        """Everything is replayed."""

    def read_offsets(self, connector: str) -> Sequence[tuple[Partition, Offset]]:
        """Return the offsets of a connector."""
        with self._lock:
            return self._offsets.of(connector)

    def write_offsets(self, connector: str, offsets: Iterable[tuple[Partition, Offset | None]]) -> None:
        """Write offsets. Raises UnreadableInput."""
        records = records_of(connector, offsets)
        with self._lock:
            for key, value in records:
                self._offsets.replay(key, value)
            if self._file is not None:
                self._file.write(records)

    async def close(self) -> None:
        """All is written."""


class OffsetsFile:
    """A file of offsets, one JSON line [key, value] for each partition, replaced as a whole. Raises UnreadableInput."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._records: dict[bytes, bytes] = {}
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise UnreadableInput.of(path, error) from None
        for number, line in enumerate(data.splitlines(), 1):
            try:
                key, value = json.loads(line)
                self._records[key.encode()] = value.encode()
            except (ValueError, AttributeError, TypeError):
                raise UnreadableInput(str(path), f"line {number} is no offset as kcli writes it") from None

    @property
    def records(self) -> list[Record]:
        """The records of all offsets."""
        return list(self._records.items())

    def write(self, records: Iterable[Record]) -> None:
        """Apply records, and write the file anew. Raises UnreadableInput."""
        for key, value in records:
            if value is None:
                self._records.pop(key, None)
            else:
                self._records[key] = value
        lines = [json.dumps([key.decode(), value.decode()], ensure_ascii=False) for key, value in self._records.items()]
        new = self._path.with_name(self._path.name + ".new")
        try:
            with new.open("w", encoding="utf-8") as file:
                file.write("".join(f"{line}\n" for line in lines))
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)
        except OSError as error:
            raise UnreadableInput.of(self._path, error) from None
