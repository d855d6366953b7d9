"""A read-only broker on a thread of its own, and the records that a client gets from it, as JSON lines."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from formats.kernels.batches import FAULT_BAD_CRC, FAULT_BAD_MAGIC, FAULT_SHORT_HEADER, BatchTable
from formats.kernels.records import RecordTable
from formats.kernels.scan import scan
from kcli.broker.config.single_node import single_node_config
from kcli.broker.read_only.node import ReadOnlyNode, known_node_id
from kcli.inspector.log_records import print_jsonl
from kcli.log.batch_records import decode, is_readable
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import FileSource
from tests.broker.running import Client, RunningNode
from tests.conftest import Json

UNSOUND = FAULT_BAD_CRC | FAULT_BAD_MAGIC | FAULT_SHORT_HEADER


class ReadOnlyRunning(RunningNode):
    """`kcli serve --read-only` in this process."""

    async def _run(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            options = {"node.id": str(known_node_id([self._data_dir])), **self._options}
            self.node = ReadOnlyNode(single_node_config(self._data_dir, ("127.0.0.1", 0), None, None, options))
            await self.node.start()
        except BaseException as error:  # noqa: BLE001  (raised by the constructor)
            self._error = error
            self._up.set()
            return
        self._up.set()
        await self._stop.wait()
        await self.node.stop()


@contextmanager
def read_only_node(data_dir: Path, **options: str) -> Iterator[ReadOnlyRunning]:
    """Yield a read-only node. options: configurations, with _ for the dots."""
    node = ReadOnlyRunning(data_dir, {name.replace("_", "."): value for name, value in options.items()})
    try:
        yield node
    finally:
        node.stop()


def state_of(root: Path) -> dict[str, tuple[int, int, int]]:
    """Size, mode and time of the last change in ns of everything below a directory, itself included."""
    paths = [root, *root.rglob("*")]
    return {str(path): ((stat := path.lstat()).st_size, stat.st_mode, stat.st_mtime_ns) for path in paths}


class _Bytes:
    """A source that is in memory."""

    name = "memory"

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read_at(self, position: int, buffer: memoryview) -> int:
        part = self._data[position : position + len(buffer)]
        buffer[: len(part)] = part
        return len(part)

    def size(self) -> int:
        return len(self._data)

    def close(self) -> None:
        """Nothing to give back."""


def records_of(data: bytes, topic: str, number: int) -> list[Json]:
    """Return the records of some batches in the inspector's form."""
    lines = bytearray()
    print_jsonl(_Bytes(data), topic, number, lines.extend)
    return [json.loads(line) for line in bytes(lines).split(b"\n")[:-1]]


def sound_batches(directory: Path) -> bytes:
    """Return the bytes of all batches of a partition's directory that are whole and that clients can read. The CRC does
    not cover the base offset: a batch with a wrong one, or one of a later segment, counts as damaged."""
    out = bytearray()
    records = RecordTable(4096)
    paths = sorted(directory.glob("*.log"))
    limits = [*(int(path.stem) for path in paths[1:]), 1 << 63]
    for path, limit in zip(paths, limits, strict=True):
        source = FileSource(path)
        for part in read_segment(source):
            if isinstance(part, Window):
                for _ in decode(part, records):
                    pass
                for i in range(part.batches.count):
                    _, start, size, base_offset, *_ = part.batches.row(i)
                    if is_readable(part, i) and 0 <= base_offset < limit:
                        out += part.data[start : start + size]
        source.close()
    return bytes(out)


def list_offset(client: Client, topic: str, number: int, timestamp: int, isolation_level: int = 0) -> Json:
    """The answer of one partition to ListOffsets."""
    partition = {"partition_index": number, "current_leader_epoch": -1, "timestamp": timestamp}
    topics = [{"name": topic, "partitions": [partition]}]
    answer = client.call("list_offsets", 9, replica_id=-1, isolation_level=isolation_level, topics=topics)
    found: Json = answer["topics"][0]["partitions"][0]
    return found


def fetch(client: Client, topic: str, number: int, offset: int, **fields: Any) -> tuple[Json, bytes]:
    """Return a partition's part of a Fetch response, and the bytes of its records."""
    partition = {"partition": number, "fetch_offset": offset, "partition_max_bytes": fields.pop("bytes", 20_000)}
    unknown = {"current_leader_epoch": -1, "log_start_offset": -1}
    asked: Json = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "isolation_level": 0, **fields}
    session = {"session_id": 0, "session_epoch": -1, "forgotten_topics_data": [], "rack_id": ""}
    topics = [{"topic": topic, "partitions": [{**partition, **unknown}]}]
    answer = client.call("fetch", 11, replica_id=-1, topics=topics, **session, **asked)
    found: Json = answer["responses"][0]["partitions"][0]
    return found, base64.b64decode(found["records"] or "")


def read_all(client: Client, topic: str, number: int, **fields: Any) -> bytes:
    """Return all batches of a partition, from log start offset to high watermark."""
    offset = list_offset(client, topic, number, -2)["offset"]
    end = list_offset(client, topic, number, -1)["offset"]
    out = bytearray()
    while offset < end:
        answer, data = fetch(client, topic, number, offset, **fields)
        assert answer["error_code"] == 0, (topic, number, offset, answer)
        assert data, f"nothing at {offset} of {topic}-{number}, which ends at {end}"
        table = BatchTable()
        scan(data, 0, len(data), 0, table)
        assert not any(table.row(i)[-1] & UNSOUND for i in range(table.count)), "only sound batches are served"
        behind = 1 + max(table.row(i)[4] for i in range(table.count))
        assert behind > offset, "each fetch leads on"
        offset = behind
        out += data
    return bytes(out)
