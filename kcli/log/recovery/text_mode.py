"""The bytes of a log before a transfer as text, as FTP does in ASCII mode, where these are batches."""

from __future__ import annotations

from typing import NamedTuple

from kcli.log.partition_view import Content, ContentSource, FileRange
from kcli.log.recovery.salvage import Lost, behind_damage
from kcli.log.text_mode import size_before


class BeforeTransfer(NamedTuple):
    """A log as it was before a transfer as text. sound: its batches with a right CRC."""

    content: Content
    sound: Lost


def before_transfer(name: str, content: Content) -> BeforeTransfer | None:
    """The log before a transfer as text; None where there was none. Raises UnreadableInput.

    content: the whole of a file on disk; None is returned for one of which a part cannot be read. The CRCs decide: the
    log before has more records in batches with a right CRC, or, as no CRC covers a base offset, as many with offsets
    that are lower.
    """
    whole = content.parts[0] if len(content.parts) == 1 else None
    if not isinstance(whole, FileRange) or whole.is_before_text_mode:
        return None
    source = ContentSource(name, content)
    try:
        size = size_before(source)
    finally:
        source.close()
    if size is None:
        return None
    before = Content((FileRange(whole.path, 0, size, is_before_text_mode=True),))
    sound, after = behind_damage(name, before, 0), behind_damage(name, content, 0)
    is_restored = (sound.records, -_offset(sound)) > (after.records, -_offset(after))
    return BeforeTransfer(before, sound) if is_restored else None


def _offset(sound: Lost) -> int:
    """The highest offset of sound batches: a CR in the base offset of a batch makes the offset higher than it was."""
    return -1 if sound.last_offset is None else sound.last_offset
