"""The files of a metadata log, replayed into an image without a broker: the latest snapshot, then the log after it.

    around_damage       damage is skipped: the latest snapshot that is whole and agrees with the log is read, then every
                        record of the log that can be read; if there is no such snapshot, the readable part of the
                        latest damaged one is read first, unless the log has all records below that one's offset; a
                        batch of magic 2 with another magic in its header is read as one of magic 2, if its CRC is right
    not around_damage   as Kafka's start does: the latest snapshot is read, then the log up to the first damage, at
                        which Kafka's start cuts the log; or up to the first batch of an unknown magic above 2, whose
                        CRC is right, and at which Kafka's start fails; no record is read of the snapshot with which a
                        quorum begins

Records that contradict earlier ones are skipped: a part of the log may be missing. Records that the quorum has not
committed count too: the files do not say how far the log is committed. The files are those on disk, or those that
Kafka's start would leave (kcli.log.partition_view). Source: MetadataLoader, RecordsSnapshotReader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from formats import control_record
from formats.control_record import ControlType
from formats.errors import FormatError, Truncated
from formats.file_name import METADATA_TOPIC, FileKind, parse
from formats.kernels.batches import FAULT_BAD_CRC, FAULT_BAD_MAGIC
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from kcli.errors import KcliError, UnreadableInput
from kcli.log.batch_records import UNREADABLE, decode
from kcli.log.partition_view import Content, ContentSource
from kcli.log.recovery.batch_magic import with_right_magics, wrong_magics
from kcli.log.segment_reader import Damage, Window, read_segment
from kcli.log.source import FileSource, Source
from kcli.log.stored_batches import batches_of
from kcli.metadata.difference import Difference, differences, lowered_epochs
from kcli.metadata.image import MetadataImage
from kcli.metadata_log.misnamed_snapshot import Misnamed, misnamed
from kcli.metadata_log.snapshot_end import CutFooter, cut_footer
from kcli.metadata_log.snapshot_file import BOOTSTRAP_SNAPSHOT

STRAYS = "Kafka takes the snapshot, and renames the partitions that it lacks to -stray"
LOWER_EPOCHS = (
    "Kafka takes the snapshot, and leaders get epochs that they had before: with these they cut later entries off "
    "leader-epoch-checkpoint"
)
OLDER = "Kafka takes the snapshot in place of the log"
UNREAD = UNREADABLE | FAULT_BAD_CRC
"""The faults of batches whose records are not read."""
Files = Mapping[str, Content]
ErrorHandler = Callable[[UnreadableInput], None]
"""Called with the error of each record or range of bytes that is skipped. If the function raises the error, reading
ends."""


class BadRecord(UnreadableInput):
    """A record at which Kafka's start fails: it cannot be decoded, or contradicts earlier records."""


class UnknownMagic(BadRecord):
    """A batch of an unknown magic, at which Kafka's start fails."""


def refuse(error: UnreadableInput) -> None:
    """An `ErrorHandler` that skips no damage: it raises the error."""
    raise error


MetadataRecord = tuple[int, str, dict[str, Any]]
"""A record's offset, the name of its message and the message's fields."""


def replay(
    directory: Path,
    files: Files,
    on_error: ErrorHandler,
    *,
    around_damage: bool,
    removed: set[str] | None = None,
    lenient: bool = True,
) -> MetadataImage:
    """Return the image that the files of a metadata log make. Raises UnreadableInput.

    directory: the one that holds the files. files: their contents by name, also of other kinds. on_error: called with
    each error. around_damage: see the module. removed: receives the topic ids of the RemoveTopicRecords in the log (not
    in the snapshot). lenient: records that contradict earlier ones are ignored without an error.
    """
    first = _around_damage if around_damage else _as_a_start
    image, start = first(directory, files, MetadataImage(lenient=lenient), on_error)
    next_offset = start
    for name in _named(files, FileKind.LOG):
        content = _with_right_magics(name, files[name]) if around_damage else files[name]
        source = ContentSource(str(directory / name), content)
        try:
            records = records_of(source, on_error, around_damage=around_damage, read_from=start)
            for offset, message, value in records:
                if offset >= next_offset:
                    if not around_damage:  # after damage an offset may be wrong, and must not hide later records
                        next_offset = offset + 1
                    _apply(image, source.name, (offset, message, value), on_error)
                    if removed is not None and message == "RemoveTopicRecord":
                        removed.add(value["topicId"])
        finally:
            source.close()
    return image


def _apply(image: MetadataImage, name: str, record: MetadataRecord, on_error: ErrorHandler) -> None:
    offset, message, value = record
    try:
        image.apply(message, value, offset)
    except (KcliError, FormatError) as error:
        on_error(BadRecord(name, f"offset {offset:,}: {error}"))


def _around_damage(
    directory: Path, files: Files, image: MetadataImage, on_error: ErrorHandler
) -> tuple[MetadataImage, int]:
    """Return the image with which a replay begins, and the offset from which on the log is to be replayed. The image is
    that of the latest snapshot that is whole and agrees with the log.

    Without such a snapshot, it is the image of the readable part of the latest damaged snapshot; the log is then
    replayed from offset 0 on, or from that snapshot's offset on if `_log_below` finds no image below that offset.
    Without a damaged snapshot, or if the log has all records below the damaged snapshot's offset, return `image` as it
    is, and 0. The other arguments are as for `replay`.
    """
    damaged = None
    for name in reversed(_named(files, FileKind.KRAFT_SNAPSHOT)):
        files = {**files, name: _with_right_magics(name, files[name])}
        reason, wrong = why_not_whole(directory, files, name), None
        if reason is None:
            try:
                wrong = contradiction(directory, files, name)
            except UnreadableInput as error:
                reason = error.reason
        if reason is not None:
            damaged = damaged or name
        elif wrong is not None:
            if wrong.right is not None and wrong.right not in files:
                on_error(UnreadableInput(str(directory / name), f"{wrong.reason}: it is read as {wrong.right}"))
                image, _ = _snapshot(directory / name, files[name], image, on_error, around_damage=False)
                return image, _snapshot_offset(wrong.right)
            reason = wrong.reason
        if reason is None:
            return _snapshot(directory / name, files[name], image, on_error, around_damage=False)
        path = str(directory / name)
        on_error(UnreadableInput(path, f"{reason}: the log, or an earlier snapshot, is read instead"))
    if damaged is None:
        return image, 0
    below, is_whole = _log_below(directory, files, _snapshot_offset(damaged))
    if is_whole:
        return image, 0
    image, offset = _snapshot(directory / damaged, files[damaged], image, on_error, around_damage=True)
    return image, offset if below is None else 0


def _with_right_magics(name: str, content: Content) -> Content:
    """Return the content of a file with magic 2 in the batches that are sound but for their magic."""
    return with_right_magics(content, wrong_magics(name, content))


def _as_a_start(
    directory: Path, files: Files, image: MetadataImage, on_error: ErrorHandler
) -> tuple[MetadataImage, int]:
    """Return the image of the latest snapshot up to its first damage or its end, and the offset in the snapshot's name,
    from which on the log is to be replayed. Without a snapshot, return `image` as it is, and 0. Like Kafka, accept a
    snapshot that has no footer. The other arguments are as for `replay`."""
    name = latest_snapshot(files)
    if name is None or name == BOOTSTRAP_SNAPSHOT.file_name:
        return image, 0
    reason = why_not_whole(directory, files, name)
    if reason is not None:
        on_error(UnreadableInput(str(directory / name), reason))
    return _snapshot(directory / name, files[name], image, on_error, around_damage=False)


def _snapshot(
    path: Path, content: Content, image: MetadataImage, on_error: ErrorHandler, *, around_damage: bool
) -> tuple[MetadataImage, int]:
    """Add the readable records of a snapshot to `image`. Return the image, and the offset in the snapshot's name, from
    which on the log is to be replayed. content: that of the snapshot. on_error: called with each error. around_damage:
    read on after damage; otherwise reading ends at the first damage."""
    offset = _snapshot_offset(path.name)
    source = ContentSource(str(path), content)
    try:
        for _, message, value in records_of(source, on_error, around_damage=around_damage):
            _apply(image, source.name, (offset - 1, message, value), on_error)
    finally:
        source.close()
    return image, offset


def _snapshot_offset(name: str) -> int:
    """The offset in a snapshot's name: the snapshot stands for the log below that offset."""
    return int(name.partition("-")[0])


def begin_of_reading(files: Files) -> int:
    """The offset from which on Kafka's start reads the metadata log: that of the latest snapshot; 0 if there is
    none."""
    name = latest_snapshot(files)
    return 0 if name is None else _snapshot_offset(name)


def latest_snapshot(files: Files) -> str | None:
    """The name of the snapshot with the highest epoch, then offset; None if there is none."""
    return next(reversed(_named(files, FileKind.KRAFT_SNAPSHOT)), None)


def _named(files: Files, kind: FileKind) -> list[str]:
    """The names of the files of a kind, sorted by epoch (of snapshots), then offset."""
    found = [
        (name.epoch or 0, name.base_offset or 0, file)
        for file in files
        if (name := parse(file)) and name.kind is kind and not name.state
    ]
    return [file for _, _, file in sorted(found)]


def unread_snapshot(directory: Path, files: Files) -> str | None:
    """The name of the latest snapshot, if it has brokers, controllers or topics, of which Kafka reads none, as it is
    the one with which a quorum begins (`BOOTSTRAP_SNAPSHOT`); else None. Raises UnreadableInput."""
    name = latest_snapshot(files)
    if name != BOOTSTRAP_SNAPSHOT.file_name:
        return None
    image, _ = _snapshot(
        directory / name, files[name], MetadataImage(lenient=True), lambda _: None, around_damage=False
    )
    return name if image.brokers or image.controllers or image.topics else None


# whether a snapshot is whole


def why_not_whole(directory: Path, files: Files, name: str) -> str | None:
    """Return why the records of a snapshot cannot all be read, from its header to its footer; None if they can, also if
    only the footer is missing (`lacks_only_footer`). files: those of the metadata log's directory."""
    source = None
    try:
        source = ContentSource(str(directory / name), files[name])
        for _ in snapshot_records(source):
            pass
    except UnreadableInput as error:
        return None if _lacks_only_footer(directory, files, name) else error.reason
    finally:
        if source is not None:
            source.close()
    return None


def _lacks_only_footer(directory: Path, files: Files, name: str) -> bool:
    try:
        return lacks_only_footer(directory, files, name) is not None
    except UnreadableInput:
        return False


def lacks_only_footer(directory: Path, files: Files, name: str) -> CutFooter | None:
    """Return the missing footer of a snapshot that lacks nothing else: bytes of the footer are left, or the snapshot
    agrees with the log below its offset, all of which can be read. None for any other snapshot. files: those of the
    metadata log's directory. Raises UnreadableInput."""
    cut = cut_footer(str(directory / name), files[name])
    if cut is None or cut.is_told:
        return cut
    below, is_whole = _log_below(directory, files, _snapshot_offset(name))
    return cut if below is not None and is_whole and _difference(directory, files, name) is None else None


# comparing a snapshot with the log


class Contradiction(NamedTuple):
    """How a whole snapshot differs from the log below its offset, and what follows when Kafka takes the snapshot, in
    words. right: the name that it should have, if only its name is wrong; None if that is not known. refuses_start:
    whether Kafka does not start with it."""

    reason: str
    outcome: str
    right: str | None = None
    refuses_start: bool = False


def contradiction(directory: Path, files: Files, name: str) -> Contradiction | None:
    """Return what differs between a snapshot, of which at most the end is missing, and the log below its offset, or how
    its name is wrong, if Kafka's start loses the log by that; None if they agree.

    A snapshot is the image of the log below its offset. The two are compared if the whole log below that offset can be
    read, from offset 0 or from the oldest snapshot on. Otherwise they differ only if the snapshot has no broker,
    controller or topic at all, though the log below its offset has some: the file then is a bootstrap.checkpoint rather
    than a snapshot. files: those of the metadata log's directory. Raises UnreadableInput. Source: SnapshotGenerator,
    MetadataImage.write; KIP-630.
    """
    found = _difference(directory, files, name)
    wrong = misnamed_snapshot(directory, files, name) if found is None else None
    if wrong is None or wrong.harm is None:
        return found
    return Contradiction(wrong.reason, wrong.harm, wrong.right, wrong.refuses_start)


def misnamed_snapshot(directory: Path, files: Files, name: str) -> Misnamed | None:
    """Return how the name of a whole snapshot is wrong; None if it is not, or if nothing tells it. files: those of the
    metadata log's directory. Raises UnreadableInput."""
    return misnamed(directory, files, _named(files, FileKind.LOG), name)


def _difference(directory: Path, files: Files, name: str) -> Contradiction | None:
    """Return what differs between a whole snapshot and the log below its offset (see `contradiction`); None if they
    agree. Raises UnreadableInput."""
    below, is_whole = _log_below(directory, files, _snapshot_offset(name))
    if below is None:
        return None
    image, _ = _snapshot(
        directory / name, files[name], MetadataImage(lenient=True), lambda _: None, around_damage=False
    )
    if is_whole:
        return _compared(list(differences(below, image)), list(lowered_epochs(below, image)))
    if (below.brokers or below.topics) and not (image.brokers or image.controllers or image.topics):
        return Contradiction("it has no broker, controller or topic, though the log below its offset has", STRAYS)
    return None


def _compared(found: Sequence[Difference], epochs: Sequence[Difference]) -> Contradiction | None:
    """Return the differences between the log and a snapshot in words; None if there are none. epochs: the leader epochs
    that are lower in the snapshot."""
    reasons, outcome = list[str](), OLDER
    lacking = [each for each in found if each.after is None]
    if found:
        first = (lacking or found)[0]
        more = f" ({len(found) - 1:,} more difference{'s' if len(found) > 2 else ''})" if len(found) > 1 else ""
        if lacking:
            reasons.append(f"it lacks {first.what} {first.name}, which the log has below its offset{more}")
        else:
            reasons.append(f"it has another {first.what} {first.name} than the log below its offset{more}")
    if epochs:
        first = epochs[0]
        count = f"{len(epochs):,} leader epoch{' is' if len(epochs) == 1 else 's are'} lower in it"
        reasons.append(f"{count}: {first.after} of {first.name}, which has {first.before} in the log")
        outcome = LOWER_EPOCHS
    if any(each.what in {"topic", "partition"} for each in lacking):
        outcome = STRAYS
    return Contradiction("; ".join(reasons), outcome) if reasons else None


def _log_below(directory: Path, files: Files, offset: int) -> tuple[MetadataImage | None, bool]:
    """Return the image of the log's records below `offset`, and whether all records below `offset` could be read.

    Reading begins with offset 0. If the log begins above 0, it begins with the oldest snapshot that is not older than
    the beginning of the log. The image is None if there is no such snapshot below `offset`, or if the log has no
    segment. Raises UnreadableInput.
    """
    logs = _named(files, FileKind.LOG)
    begin = int(logs[0].partition(".")[0]) if logs else 0
    image, at, is_whole = MetadataImage(lenient=True), 0, True
    if begin:
        older = [each for each in _named(files, FileKind.KRAFT_SNAPSHOT) if begin <= _snapshot_offset(each) < offset]
        if not older:
            return None, False
        image, at = _snapshot(directory / older[0], files[older[0]], image, lambda _: None, around_damage=False)
    if not logs or at >= offset:
        return None, False
    expected = begin
    for name in logs:
        source = ContentSource(str(directory / name), files[name])
        errors: list[UnreadableInput] = []
        try:
            for part in read_segment(source, resync=True):
                if isinstance(part, Damage):
                    is_whole = False
                    continue
                for i in range(part.batches.count):
                    row = BatchRow._make(part.batches.row(i))
                    if expected < offset:
                        is_whole = is_whole and row.base_offset == expected and not row.faults & UNREAD
                    expected = row.last_offset + 1
                for found in _records(part, None, source.name, errors.append):
                    if at <= found[0] < offset:
                        _apply(image, source.name, found, errors.append)
                part.release()
                if expected >= offset:
                    return image, is_whole and not errors
        finally:
            source.close()
        is_whole = is_whole and not errors
    return image, False


# reading the records of segments and snapshots


def read_records(path: Path) -> Iterator[MetadataRecord]:
    """Yield the records of a segment or snapshot up to the first damage, without control records.

    Raises UnreadableInput, also for a record that cannot be decoded.
    """
    source = FileSource(path)
    try:
        yield from records_of(source, refuse, around_damage=False)
    finally:
        source.close()


def records_of(
    source: Source, on_error: ErrorHandler, *, around_damage: bool, read_from: int = 0
) -> Iterator[MetadataRecord]:
    """Yield the records in sound batches, without control records. around_damage: read on after damage; otherwise
    reading ends at the first damage, and at the first batch of an unknown magic that Kafka reads. read_from: the offset
    from which on Kafka reads the log, which is that of the latest snapshot.

    on_error: called with an error for each damaged range of bytes, for each record that cannot be decoded, and, unless
    around_damage, for the batch of an unknown magic. Raises UnreadableInput.
    """
    for part in read_segment(source, resync=around_damage):
        if isinstance(part, Damage):
            if not around_damage:
                return
            reason = f"byte {part.position:,}: {part.length:,} bytes are no batch: {part.error.reason}"
            on_error(UnreadableInput(source.name, reason))
            continue
        cut_at = None if around_damage else _first_bad_crc(part)
        strange = None if around_damage else _first_unknown_magic(part, cut_at, read_from)
        stop = cut_at if strange is None else strange
        yield from _records(part, stop, source.name, on_error)
        if strange is not None:
            row = BatchRow._make(part.batches.row(strange))
            on_error(UnknownMagic(source.name, f"offset {row.base_offset:,}: {_unknown_magic(row)}"))
        part.release()
        if stop is not None:
            return


def _first_bad_crc(window: Window) -> int | None:
    at = window.batches.first_fault()
    while at >= 0 and not BatchRow._make(window.batches.row(at)).faults & FAULT_BAD_CRC:
        at = window.batches.first_fault(at + 1)
    return at if at >= 0 else None


def _first_unknown_magic(window: Window, stop: int | None, read_from: int = 0) -> int | None:
    """Return the first batch of a window with an unknown magic that ends at offset `read_from` or above; None if there
    is none before batch `stop` (None: the end of the window). The magic is above 2: a batch with a negative one has a
    wrong CRC, as Kafka computes it."""
    at = window.batches.first_fault()
    while at >= 0 and (stop is None or at < stop):
        row = BatchRow._make(window.batches.row(at))
        if row.faults & FAULT_BAD_MAGIC and row.last_offset >= read_from:
            return at
        at = window.batches.first_fault(at + 1)
    return None


def _unknown_magic(row: BatchRow) -> str:
    """Return the reason why Kafka's start fails at a batch of an unknown magic."""
    return f"magic {row.magic} is none that Kafka has (Invalid magic found in record)"


def _records(window: Window, stop: int | None, name: str, on_error: ErrorHandler) -> Iterator[MetadataRecord]:
    table = RecordTable(4096)
    for buffer in decode(window, table, last=stop):
        for i in range(table.count):
            row = RecordRow._make(table.row(i))
            batch = BatchRow._make(window.batches.row(row.batch))
            if batch.is_control or batch.faults & UNREAD:
                continue
            try:
                message, value = _message(row.value(buffer))
            except FormatError as error:
                on_error(BadRecord(name, f"offset {row.offset:,}: {error.reason}"))
            else:
                yield row.offset, message, value


def _message(value: bytes | None) -> tuple[str, dict[str, Any]]:
    from formats import internal_topic  # imported late: it compiles schemas

    found = internal_topic.decode(METADATA_TOPIC, None, value or b"")
    assert found.value is not None, "a metadata record is its value"
    return found.value_name, found.value


def offset_beyond_end(directory: Path, files: Files) -> UnreadableInput | None:
    """Return an error for the latest snapshot, or the batch with the highest offset, if its offset lies beyond the log
    end offset; else None.

    The log end offset is the offset after the last batch. Only batches before the first damage count. Kafka's
    controller keeps its state at the highest offset that it has replayed, and cannot append records at a lower one: the
    node does not get ready. The leader of the quorum writes LeaderChange at the log end offset and the first records
    after it, so an offset one beyond the end does no harm. Nor do a repeated batch and offsets missing between batches.
    Raises UnreadableInput. Source: SnapshotRegistry.getOrCreateSnapshot.
    """
    end, highest, found = 0, -1, None
    for name in _named(files, FileKind.LOG):
        source = ContentSource(str(directory / name), files[name])
        try:
            for part in read_segment(source, resync=False):
                if isinstance(part, Damage):
                    break
                for i in range(part.batches.count):
                    row = BatchRow._make(part.batches.row(i))
                    end = row.last_offset + 1
                    if row.last_offset > highest:
                        highest, found = row.last_offset, (source.name, row)
                part.release()
        finally:
            source.close()
    begin, latest = begin_of_reading(files), latest_snapshot(files)
    if found is not None and latest is not None and begin > end + 1:
        return UnreadableInput(str(directory / latest), f"offset {begin:,} is beyond the log's end, {end:,}")
    if found is None or highest <= end + 1:
        return None
    name, row = found
    return UnreadableInput(name, f"byte {row.position:,}: offset {row.last_offset:,} is beyond the log's end, {end:,}")


def start_refusal(directory: Path, files: Files) -> BadRecord | None:
    """Return the first record that contradicts those before it, at which Kafka's start ends; None if there is none.

    files: those that Kafka's start leaves. Raises UnreadableInput.
    """
    errors: list[UnreadableInput] = []
    replay(directory, files, errors.append, around_damage=False, lenient=False)
    return next((each for each in errors if isinstance(each, BadRecord)), None)


def snapshot_refusal(source: Source) -> str | None:
    """Return why Kafka does not start with a snapshot: damage, or no batch at all. Returns None if Kafka starts, which
    it does even if the end of the snapshot is missing. Raises UnreadableInput."""
    is_empty = True
    for part in read_segment(source, resync=False):
        if isinstance(part, Damage):
            if is_empty or not isinstance(part.error, Truncated):
                return f"byte {part.position:,}: {part.error.reason}"
            return None
        is_empty = False
        at = _first_bad_crc(part)
        strange = _first_unknown_magic(part, at)
        if strange is not None:
            row = BatchRow._make(part.batches.row(strange))
            return f"byte {row.position:,}: {_unknown_magic(row)}"
        if at is not None:
            return f"byte {BatchRow._make(part.batches.row(at)).position:,}: the CRC is not that of the batch"
        part.release()
    return "it holds no batch" if is_empty else None


def snapshot_records(source: Source) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield name and fields of each message in a snapshot.

    Raises UnreadableInput if the snapshot is damaged or lacks its header or its footer.
    """
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
