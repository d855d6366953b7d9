"""Undo what has changed the bytes of a .log file, if this leads to sound batches: a transfer in text mode, such as
FTP's ASCII mode or a conversion to UTF-8; or the insertion or loss of bytes of which the CRCs tell what they were."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

from kcli.log.partition_view import Content, ContentSource, FileRange
from kcli.log.recovery.displaced_blocks import has_damage
from kcli.log.recovery.salvage import Lost, behind_damage
from kcli.log.recovery.shifted_batches import Shift, as_before, known_shifts
from kcli.log.text_mode import TextMode, size_before


class BeforeTransfer(NamedTuple):
    """A .log file as it was before a transfer in text mode, or before bytes were inserted or lost. sound: the numbers
    of its batches with a right CRC and of their records, and their first and last offset. mode: what the transfer has
    done; None if there was none. shifts: the batches that had other sizes before."""

    content: Content
    sound: Lost
    mode: TextMode | None
    shifts: Sequence[Shift] = ()


def before_transfer(name: str, content: Content) -> BeforeTransfer | None:
    """Return a .log file as it was before a transfer in text mode; None if there was no such transfer. Raises
    UnreadableInput.

    content: the content of a whole file on disk; for any other content None is returned. The CRCs decide: there was
    such a transfer if, once it is undone, the file has more records in batches with a right CRC; or as many, but with a
    lower last offset, since no CRC covers a base offset.
    """
    whole = content.parts[0] if len(content.parts) == 1 else None
    if not isinstance(whole, FileRange) or whole.text_mode is not None:
        return None
    for mode in TextMode:
        with closing(ContentSource(name, content)) as source:
            size = size_before(source, mode)
        if size is None:
            continue
        before = Content((FileRange(whole.path, 0, size, mode),))
        sound, after = behind_damage(name, before, 0), behind_damage(name, content, 0)
        if (sound.records, -_offset(sound)) > (after.records, -_offset(after)):
            return BeforeTransfer(before, sound, mode)
    return None


def before_shifts(name: str, content: Content) -> BeforeTransfer | None:
    """Return a .log file as it was before bytes were inserted into its batches, or lost from them; None if there was
    nothing of which the CRCs tell. Raises UnreadableInput."""
    found = known_shifts(name, content) if has_damage(name, content) else []
    if not found:
        return None
    before = as_before(content, found)
    return BeforeTransfer(before, behind_damage(name, before, 0), None, found)


def _offset(sound: Lost) -> int:
    """Return the highest offset of the sound batches; -1 if there are none. A base offset into which the transfer has
    put a CR is higher than before."""
    return -1 if sound.last_offset is None else sound.last_offset
