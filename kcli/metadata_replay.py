"""A metadata log as files, replayed into an image without a broker: the latest snapshot, then the log behind it.

    around damage   the latest snapshot that is whole, every record that can be read, also behind damage: all that the
                    files still say
    as a start      the log up to the first damage, for that is where a start cuts it

Records that contradict those before them are passed over: a part of the log may be missing. What a quorum has not
committed yet is not told apart: files alone do not say. The files are those on disk, or those that a start would leave
(kcli.log.recovery_view). Source: MetadataLoader, RecordsSnapshotReader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from formats import control_record
from formats.control_record import ControlType
from formats.errors import FormatError, Truncated
from formats.file_name import METADATA_TOPIC, FileKind, parse
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.log import FAULT_BAD_CRC, RecordTable
from kcli.errors import KcliError, UnreadableInput
from kcli.log.batch_records import UNREADABLE, decode
from kcli.log.recovery_view import Content, ContentSource
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import FileSource, Source
from kcli.log.stored_batches import batches_of
from kcli.metadata.image import MetadataImage

Files = Mapping[str, Content]
Told = Callable[[UnreadableInput], None]
"""Hears of what is passed over. One that raises it ends the reading."""


class BadRecord(UnreadableInput):
    """A record that cannot be decoded, or contradicts those before it: Kafka ends there."""


def refuse(error: UnreadableInput) -> None:
    """Pass over nothing. Raises UnreadableInput."""
    raise error


MetadataRecord = tuple[int, str, dict[str, Any]]
"""Offset, name of the message, its fields."""


def replay(
    directory: Path,
    files: Files,
    told: Told,
    *,
    around_damage: bool,
    removed: set[str] | None = None,
    lenient: bool = True,
) -> MetadataImage:
    """The image that the files of a metadata log make. Raises UnreadableInput.

    directory: where they are. removed: takes the ids of the topics that the log, not the snapshot, removes. lenient:
    contradictions are not told.
    """
    first = _around_damage if around_damage else _as_a_start
    image, next_offset = first(directory, files, MetadataImage(lenient=lenient), told)
    for name in _named(files, FileKind.LOG):
        source = ContentSource(str(directory / name), files[name])
        try:
            for offset, message, value in records_of(source, told, around_damage=around_damage):
                if offset >= next_offset:
                    if not around_damage:  # there, an offset may itself be damaged: no later record goes for it
                        next_offset = offset + 1
                    _apply(image, source.name, (offset, message, value), told)
                    if removed is not None and message == "RemoveTopicRecord":
                        removed.add(value["topicId"])
        finally:
            source.close()
    return image


def _apply(image: MetadataImage, name: str, record: MetadataRecord, told: Told) -> None:
    offset, message, value = record
    try:
        image.apply(message, value, offset)
    except (KcliError, FormatError) as error:
        told(BadRecord(name, f"offset {offset:,}: {error}"))


def _around_damage(directory: Path, files: Files, image: MetadataImage, told: Told) -> tuple[MetadataImage, int]:
    """The image of the latest snapshot that is whole, else what can be read of the latest; and the offset behind it."""
    names = _named(files, FileKind.KRAFT_SNAPSHOT)
    for name in reversed(names):
        source = ContentSource(str(directory / name), files[name])
        try:
            for _ in snapshot_records(source):
                pass
        except UnreadableInput as error:
            told(UnreadableInput(error.path, f"{error.reason}: the log, or an earlier snapshot, is read instead"))
            continue
        finally:
            source.close()
        return _snapshot(directory / name, files[name], image, told, around_damage=False)
    if names:
        return _snapshot(directory / names[-1], files[names[-1]], image, told, around_damage=True)
    return image, 0


def _as_a_start(directory: Path, files: Files, image: MetadataImage, told: Told) -> tuple[MetadataImage, int]:
    """The image of the latest snapshot, up to where it ends: Kafka does not ask for its footer."""
    name = latest_snapshot(files)
    if name is None:
        return image, 0
    source = ContentSource(str(directory / name), files[name])
    try:
        for _ in snapshot_records(source):
            pass
    except UnreadableInput as error:
        told(error)
    finally:
        source.close()
    return _snapshot(directory / name, files[name], image, told, around_damage=False)


def _snapshot(
    path: Path, content: Content, image: MetadataImage, told: Told, *, around_damage: bool
) -> tuple[MetadataImage, int]:
    """The image of a snapshot as far as it can be read, and the offset behind it."""
    offset = int(path.name.partition("-")[0])
    source = ContentSource(str(path), content)
    try:
        for _, message, value in records_of(source, told, around_damage=around_damage):
            _apply(image, source.name, (offset - 1, message, value), told)
    finally:
        source.close()
    return image, offset


def latest_snapshot(files: Files) -> str | None:
    """The name of the latest snapshot, by epoch, then offset; None where there is none."""
    return next(reversed(_named(files, FileKind.KRAFT_SNAPSHOT)), None)


def _named(files: Files, kind: FileKind) -> list[str]:
    """The names of files of a kind, by epoch (of snapshots), then offset."""
    found = [
        (name.epoch or 0, name.base_offset or 0, file)
        for file in files
        if (name := parse(file)) and name.kind is kind and not name.state
    ]
    return [file for _, _, file in sorted(found)]


# records


def read_records(path: Path) -> Iterator[MetadataRecord]:
    """The records of a segment or snapshot up to the first damage, control records left out. Raises UnreadableInput."""
    source = FileSource(path)
    try:
        yield from records_of(source, refuse, around_damage=False)
    finally:
        source.close()


def records_of(source: Source, told: Told, *, around_damage: bool) -> Iterator[MetadataRecord]:
    """The records in sound batches; without around_damage, those before the first damage. Raises UnreadableInput."""
    for part in read_segment(source, resync=around_damage):
        if isinstance(part, Damage):
            if not around_damage:
                return
            reason = f"byte {part.position:,}: {part.length:,} bytes are no batch: {part.error.reason}"
            told(UnreadableInput(source.name, reason))
            continue
        cut_at = None if around_damage else _first_bad_crc(part)
        yield from _records(part, cut_at, source.name, told)
        part.release()
        if cut_at is not None:
            return


def _first_bad_crc(window: Window) -> int | None:
    at = window.batches.first_fault()
    while at >= 0 and not BatchRow._make(window.batches.row(at)).faults & FAULT_BAD_CRC:
        at = window.batches.first_fault(at + 1)
    return at if at >= 0 else None


def _records(window: Window, stop: int | None, name: str, told: Told) -> Iterator[MetadataRecord]:
    table = RecordTable(4096)
    for buffer in decode(window, table, last=stop):
        for i in range(table.count):
            row = RecordRow._make(table.row(i))
            batch = BatchRow._make(window.batches.row(row.batch))
            if batch.is_control or batch.faults & (UNREADABLE | FAULT_BAD_CRC):
                continue
            try:
                message, value = _message(row.value(buffer))
            except FormatError as error:
                told(BadRecord(name, f"offset {row.offset:,}: {error.reason}"))
            else:
                yield row.offset, message, value


def _message(value: bytes | None) -> tuple[str, dict[str, Any]]:
    from formats import internal_topic  # compiles schemas: not where there is no metadata log

    found = internal_topic.decode(METADATA_TOPIC, None, value or b"")
    assert found.value is not None, "a metadata record is its value"
    return found.value_name, found.value


def offset_jump(directory: Path, files: Files) -> UnreadableInput | None:
    """The first batch of the logs, up to the first damage, that does not begin where the one before it ends; None where
    there is none: Kafka never reaches the end of a log with one. Raises UnreadableInput."""
    end: int | None = None
    for name in _named(files, FileKind.LOG):
        source = ContentSource(str(directory / name), files[name])
        try:
            for part in read_segment(source, resync=False):
                if isinstance(part, Damage):
                    return None
                for i in range(part.batches.count):
                    row = BatchRow._make(part.batches.row(i))
                    if end is not None and row.base_offset != end:
                        reason = f"byte {row.position:,}: offset {row.base_offset:,} follows on {end - 1:,}"
                        return UnreadableInput(source.name, reason)
                    end = row.last_offset + 1
                part.release()
        finally:
            source.close()
    return None


def snapshot_refusal(source: Source) -> str | None:
    """Why Kafka does not start with a snapshot: damage, or no batch at all. Its end may be missing. Raises
    UnreadableInput."""
    is_empty = True
    for part in read_segment(source, resync=False):
        if isinstance(part, Damage):
            if is_empty or not isinstance(part.error, Truncated):
                return f"byte {part.position:,}: {part.error.reason}"
            return None
        is_empty = False
        at = _first_bad_crc(part)
        if at is not None:
            return f"byte {BatchRow._make(part.batches.row(at)).position:,}: the CRC is not that of the batch"
        part.release()
    return "it holds no batch" if is_empty else None


def snapshot_records(source: Source) -> Iterator[tuple[str, dict[str, Any]]]:
    """The messages of a snapshot, which must be sound and have its header and its footer. Raises UnreadableInput."""
    kinds: list[int] = []
    is_first = True
    for row, stored in batches_of(source):
        try:
            kinds = [control_record.parse_key(each.key).type for each in stored] if row.is_control else []
            if is_first and kinds[:1] != [ControlType.SNAPSHOT_HEADER]:
                raise UnreadableInput(source.name, "does not begin with a snapshot header")
            is_first = False
            if not row.is_control:
                yield from (_message(each.value) for each in stored)
        except FormatError as error:
            raise UnreadableInput(source.name, f"byte {row.position:,}: {error.reason}") from None
    if kinds[-1:] != [ControlType.SNAPSHOT_FOOTER]:
        raise UnreadableInput(source.name, "does not end with a snapshot footer")
