"""A damaged metadata log in a copy of a golden log directory, for tests."""

from __future__ import annotations

import shutil
from pathlib import Path

from formats.kernels.columns import BatchRow
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import FileSource
from kcli.metadata_replay import read_records
from tests.conftest import GOLDEN

SET = "codecs/data"
LOG = "__cluster_metadata-0/00000000000000000000.log"


def copied(to: Path, name: str = SET) -> Path:
    """A copy of a golden log directory, below `to`."""
    shutil.copytree(GOLDEN / name, to / "logs")
    for path in (to / "logs").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return to / "logs"


def byte_of(directory: Path, message: str, name: object) -> int:
    """A byte in the batch of the metadata log that has such a record."""
    offset = next(at for at, kind, value in read_records(directory / LOG) if kind == message and name in value.values())
    row = next(row for row in batches(directory) if row.base_offset <= offset <= row.last_offset)
    return row.position + row.size - 5


def batch_around(directory: Path, position: int) -> tuple[int, int]:
    """The first byte of the batch of the metadata log that has a byte, and that of the next."""
    row = next(row for row in batches(directory) if row.position <= position < row.position + row.size)
    return row.position, row.position + row.size


def batches(directory: Path) -> list[BatchRow]:
    """Those of the metadata log, which is sound."""
    source = FileSource(directory / LOG)
    found = []
    for part in read_segment(source):
        assert isinstance(part, Window), "nothing is damaged yet"
        found += [BatchRow._make(part.batches.row(i)) for i in range(part.batches.count)]
    source.close()
    return found


def flip(file: Path, position: int) -> None:
    """Flip a bit."""
    data = bytearray(file.read_bytes())
    data[position] ^= 4
    file.write_bytes(data)


def partitions(directory: Path) -> set[str]:
    """The directories of partitions, without the metadata log."""
    return {each.name for each in directory.iterdir() if each.is_dir() and not each.name.startswith("__cluster")}


def strays(directory: Path) -> set[str]:
    """The partitions that were renamed to -stray."""
    return {name.split(".")[0] for name in partitions(directory) if name.endswith("-stray")}
