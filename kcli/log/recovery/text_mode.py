"""Undo a transfer in text mode, such as FTP's ASCII mode or a conversion to UTF-8, that has changed the bytes of a .log
file, if this leads to sound batches."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from kcli.log.partition_view import Content, ContentSource, FileRange
from kcli.log.recovery.salvage import Lost, behind_damage
from kcli.log.text_mode import TextMode, size_before


class BeforeTransfer(NamedTuple):
    """A .log file as it was before a transfer in text mode. sound: the numbers of its batches with a right CRC and of
    their records, and their first and last offset. mode: what the transfer has done."""

    content: Content
    sound: Lost
    mode: TextMode


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


def _offset(sound: Lost) -> int:
    """Return the highest offset of the sound batches; -1 if there are none. A base offset into which the transfer has
    put a CR is higher than before."""
    return -1 if sound.last_offset is None else sound.last_offset
