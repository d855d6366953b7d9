"""The records of uncompressed magic 2 segments, read by hand, for the tests of internal topics.

Kafka compresses no internal topic by default, and this module shares no code with the reader under test.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import GOLDEN, dump_runs

HEADER = struct.Struct(">qiibIhiqqqhii")


@dataclass(frozen=True)
class RawRecord:
    """One record: its offset, key, value, and whether its batch is one of control records."""

    offset: int
    key: bytes | None
    value: bytes | None
    is_control: bool


def raw_records(path: Path) -> Iterator[RawRecord]:
    """The records of a segment, in order."""
    data = path.read_bytes()
    position = 0
    while len(data) - position >= HEADER.size:
        base_offset, length, _, magic, _, attributes, *_, count = HEADER.unpack_from(data, position)
        if magic != 2 or length <= 0:
            return
        assert attributes & 7 == 0, f"{path} has compressed batches"
        at = position + HEADER.size
        for _ in range(count):
            size, at = varint(data, at)
            end = at + size
            _, at = varint(data, at + 1)
            delta, at = varint(data, at)
            key, at = sized(data, at)
            value, at = sized(data, at)
            yield RawRecord(base_offset + delta, key, value, bool(attributes & 0x20))
            at = end
        position += 12 + length


def varint(data: bytes, position: int) -> tuple[int, int]:
    """A zigzag varint and where it ends."""
    raw = shift = 0
    while True:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), position
        shift += 7


def sized(data: bytes, position: int) -> tuple[bytes | None, int]:
    """Bytes behind their varint length, None for -1."""
    length, position = varint(data, position)
    return (None, position) if length < 0 else (data[position : position + length], position + length)


def decoded_runs() -> Iterator[tuple[Path, str, str]]:
    """Every saved dump that used a decoder: the file, the decoder's name and what was printed."""
    for golden_set in sorted(path.name for path in GOLDEN.iterdir() if (path / "expected").is_dir()):
        for run in dump_runs(golden_set):
            for flag in run["flags"]:
                if flag.endswith("-decoder"):
                    yield (
                        GOLDEN / golden_set / run["file"],
                        flag.removeprefix("--").removesuffix("-decoder"),
                        run["stdout"],
                    )
