"""Topics and configurations as a log directory's `__cluster_metadata` has them: its last snapshot, then its log.

What a quorum has not committed yet is not told apart: a directory alone does not say. Damage ends the log there.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from formats.errors import FormatError
from formats.file_name import METADATA_DIRECTORY, METADATA_TOPIC, FileKind, parse
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.log import FAULT_BAD_CRC, RecordTable
from kcli.errors import UnreadableInput
from kcli.log.batch_records import UNREADABLE, decode
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import FileSource
from kcli.metadata.image import MetadataImage


def read_image(log_directory: Path) -> MetadataImage | None:
    """Replay the metadata log in a log directory; None where there is none. Raises UnreadableInput."""
    directory = log_directory / METADATA_DIRECTORY
    if not directory.is_dir():
        return None
    image = MetadataImage(lenient=True)
    offset = 0
    for path, from_offset in _files(directory):
        offset = max(offset, from_offset)
        for record_offset, name, value in read_records(path):
            if path.suffix == FileKind.KRAFT_SNAPSHOT or record_offset >= offset:
                image.apply(name, value, record_offset)
    return image


def read_records(path: Path) -> Iterator[tuple[int, str, dict[str, Any]]]:
    """Offset, name and fields of each record in a segment or snapshot, control records left out. Raises
    UnreadableInput."""
    from formats import internal_topic  # compiles schemas: not where there is no metadata log

    for offset, value in _values(path):
        try:
            record = internal_topic.decode(METADATA_TOPIC, None, value)
        except FormatError as error:
            raise UnreadableInput(str(path), f"offset {offset:,}: {error.reason}") from None
        assert record.value is not None, "a metadata record is its value"
        yield offset, record.value_name, record.value


def _files(directory: Path) -> list[tuple[Path, int]]:
    """The last snapshot and the segments, in the order of replay, each with the offset it counts from."""
    named = [(name, path) for path in directory.iterdir() if (name := parse(path.name)) is not None and not name.state]
    snapshots = [
        (name.base_offset or 0, name.epoch or 0, path) for name, path in named if name.kind is FileKind.KRAFT_SNAPSHOT
    ]
    last = max(snapshots, default=None)
    begin = [] if last is None else [(last[2], last[0])]
    segments = sorted((name.base_offset or 0, path) for name, path in named if name.kind is FileKind.LOG)
    return [*begin, *((path, 0) for _, path in segments)]


def _values(path: Path) -> Iterator[tuple[int, bytes]]:
    """Offset and value of each data record."""
    source = FileSource(path)
    try:
        for part in read_segment(source, resync=False):
            if not isinstance(part, Window):
                return
            records = RecordTable(4096)
            for buffer in decode(part, records):
                for i in range(records.count):
                    row = RecordRow._make(records.row(i))
                    batch = BatchRow._make(part.batches.row(row.batch))
                    if batch.faults & FAULT_BAD_CRC:
                        return
                    if not batch.is_control and not batch.faults & UNREADABLE:
                        yield row.offset, row.value(buffer) or b""
    finally:
        source.close()
