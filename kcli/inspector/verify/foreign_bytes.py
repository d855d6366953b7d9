"""Causes of damage that the check of a .log file reports as a batch with a wrong length, CRC or magic, or as a batch
cut off by the file's end.

    what the check sees                                  cause

    the damage begins with a header that no batch has    bytes of something else, written over batches or put between
                                                         them: a text, a fill pattern, the header of an archive
    the length leads beyond the end of the file, but
    sound batches follow the damage                      the length is wrong, and maybe other bytes of the batch
    the CRC is right for all bytes of the damage         only the length is wrong
    the CRC is right where a batch of magic 2 has it     only the magic is wrong
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from kcli.inspector.verify.findings import STOPS, Finding
from kcli.log.recovery.batch_length import wrong_length
from kcli.log.recovery.batch_magic import RightMagic, wrong_magic
from kcli.log.source import FileSource, Source

PREFIX = struct.Struct(">qiib")  # base offset, length, leader epoch, magic
OFFSET_BYTES = 8
OFFSET_BOUND = 1 << 60
"""An offset that no log reaches; text and the signatures of archives give larger ones."""
MAGICS = range(3)
KINDS = ("truncated", "batch-length", "batch-crc", "batch-magic")
OF_CRC = ("batch-crc", "batch-magic")
PUTS_MAGIC = "salvage puts the magic right, in a copy"
SHOWN_BYTES = 24


def told_apart(path: Path, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield the findings in a .log file, some with another kind. batch-length: a wrong length is the only damage of a
    batch, or sound batches follow a batch that by its length ends beyond the file's end. foreign-bytes: no batch can
    begin with the bytes of a finding of a wrong length or of a cut batch. batch-magic: a wrong magic is the only damage
    of a batch. Raises UnreadableInput."""
    for each in findings:
        if each.kind not in KINDS or each.position is None:
            yield each
            continue
        with closing(FileSource(path)) as source:
            found = _told(source, each, each.position, each.length or 0)
        yield found


def _told(source: Source, finding: Finding, position: int, size: int) -> Finding:
    """Return the finding of damage in these bytes, with what `told_apart` finds out about them."""
    wrong = wrong_length(source, position, size)
    if wrong is not None:
        found = f"length {wrong.before:,}, which no CRC covers"
        expected = f"{wrong.length:,}, with which the CRC is right"
        return replace(finding, kind="batch-length", found=found, expected=expected)
    magic = wrong_magic(source, position, size)
    if magic is not None:
        return _of_magic(finding, magic)
    if finding.kind in OF_CRC:
        return finding
    head = _read(source, position)
    bytes_text = f"{size:,} bytes at byte {position:,} are no batch"
    if not _may_begin_batch(head):
        return replace(finding, kind="foreign-bytes", found=f"{bytes_text}{_text_of(head[: finding.length])}")
    if finding.kind == "truncated" and finding.next_valid_position is not None:
        return replace(finding, kind="batch-length", found=f"{bytes_text}: by its length {finding.found}")
    return finding


def begin_text(path: Path) -> str | None:
    """Return the words which say that a file begins with no batch; None if the file is empty, or may begin with a
    batch. Raises UnreadableInput."""
    with closing(FileSource(path)) as source:
        head = _read(source, 0)
    return None if _may_begin_batch(head) else f"which begin with no batch{_text_of(head)}"


def _of_magic(finding: Finding, wrong: RightMagic) -> Finding:
    """Return the finding about a batch, with its wrong magic as the cause."""
    action = finding.action or ""
    if action.startswith(STOPS):
        action = f"{action.partition(':')[0]}; {PUTS_MAGIC}"
    found = f"magic {wrong.before}, which no CRC covers"
    expected = f"magic {wrong.magic}, with which the CRC is right"
    return replace(finding, kind="batch-magic", found=found, expected=expected, action=action)


def _read(source: Source, position: int) -> bytes:
    head = bytearray(SHOWN_BYTES)
    return bytes(head[: source.read_at(position, memoryview(head))])


def _may_begin_batch(head: bytes) -> bool:
    """Whether a batch may begin with these bytes. True if they are too few for an offset."""
    if len(head) < OFFSET_BYTES:
        return True
    if not 0 <= int.from_bytes(head[:OFFSET_BYTES], signed=True) < OFFSET_BOUND:
        return False
    return len(head) < PREFIX.size or PREFIX.unpack_from(head)[3] in MAGICS


def _text_of(head: bytes) -> str:
    """Return words that show the first bytes, if these are ASCII text; else ""."""
    text = head.decode("ascii", "replace").split("\0")[0].splitlines()
    is_text = bool(text) and len(text[0]) >= OFFSET_BYTES and text[0].isprintable() and text[0].isascii()
    return f": they begin with {text[0]!r}" if is_text else ""
