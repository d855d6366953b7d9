"""A snapshot of the metadata log whose footer is cut off, or torn: Kafka's start takes all its records, as it needs no
footer.

    told        bytes of the footer are left, with the length of its batch
    not told    the snapshot ends where a batch ends: batches of records before the footer may be missing, too
    not so      the torn batch is a longer one, and so has records

Source: RecordsSnapshotReader, which reads batches up to the end of the file; RecordsSnapshotWriter; KIP-630.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from formats import control_record
from formats.control_record import ControlType
from formats.errors import FormatError, Truncated
from formats.kernels.batches import FAULT_BAD_CRC
from formats.kernels.columns import BatchRow
from kcli.log.batch_records import UNREADABLE
from kcli.log.partition_view import Content, ContentSource
from kcli.log.segment_reader import LENGTH_AT, LOG_OVERHEAD_BYTES, Damage, read_segment
from kcli.log.stored_batches import batches_of
from kcli.metadata_log.records import control_batch, encode_control


def _footer(base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    footer = encode_control(ControlType.SNAPSHOT_FOOTER, {})
    return bytes(control_batch([footer], timestamp_ms, base_offset=base_offset, epoch=epoch))


FOOTER_BYTES: Final = len(_footer(0, 0, 0))
"""The size of the batch with the footer in bytes."""


class CutFooter(NamedTuple):
    """The footer that a snapshot lacks. position: the byte at which it begins. left: the number of its bytes that are
    left. is_told: whether these bytes show that it is the footer. footer: the bytes of a whole footer."""

    position: int
    left: int
    is_told: bool
    footer: bytes

    @property
    def reason(self) -> str:
        """What is missing of the footer, in words."""
        return f"{self.left} of {FOOTER_BYTES} bytes of its footer" if self.left else "no footer"


def cut_footer(name: str, content: Content) -> CutFooter | None:
    """Return the footer that a snapshot lacks at its end; None if it has one, or if other batches are damaged or torn.
    Raises UnreadableInput."""
    source = ContentSource(name, content)
    first, last, left = None, None, 0
    try:
        for part in read_segment(source, resync=False):
            if isinstance(part, Damage):
                left = content.size - part.position
                if not isinstance(part.error, Truncated) or left >= FOOTER_BYTES:
                    return None
                break
            rows = [BatchRow._make(part.batches.row(i)) for i in range(part.batches.count)]
            part.release()
            if any(row.faults & (UNREADABLE | FAULT_BAD_CRC) for row in rows):
                return None
            first, last = first or rows[0], rows[-1]
        if first is None or last is None or not first.is_control or (last.is_control and last != first):
            return None
        position = last.position + last.size
        torn = bytearray(left)
        source.read_at(position, memoryview(torn))
    finally:
        source.close()
    is_told = len(torn) >= LENGTH_AT.stop
    if is_told and int.from_bytes(torn[LENGTH_AT]) != FOOTER_BYTES - LOG_OVERHEAD_BYTES:
        return None
    if _types(name, content.between(0, first.position + first.size))[:1] != [ControlType.SNAPSHOT_HEADER]:
        return None
    footer = _footer(last.last_offset + 1, last.leader_epoch, last.max_timestamp)
    return CutFooter(position, left, is_told, footer)


def with_footer(content: Content, cut: CutFooter) -> Content:
    """Return the content of a snapshot with a whole footer."""
    return Content((*content.between(0, cut.position).parts, cut.footer))


def whole_batches(name: str, content: Content) -> Content:
    """Return the content of a snapshot without the torn batch at its end, if there is one. Raises UnreadableInput."""
    source = ContentSource(name, content)
    try:
        for part in read_segment(source, resync=False):
            if isinstance(part, Damage):
                return content.between(0, part.position) if isinstance(part.error, Truncated) else content
            part.release()
    finally:
        source.close()
    return content


def _types(name: str, content: Content) -> list[int]:
    """Return the types of the control records in a snapshot's batches. Raises UnreadableInput."""
    source = ContentSource(name, content)
    try:
        return [control_record.parse_key(each.key).type for _, stored in batches_of(source) for each in stored]
    except FormatError:
        return []
    finally:
        source.close()
