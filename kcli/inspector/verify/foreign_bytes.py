"""Causes of damage that the check of a .log file reports as a batch with a wrong length, CRC or magic, or as a batch
cut off by the file's end.

    what the check sees                                  cause

    the damage begins with a header that no batch has    bytes of something else, written over batches or put between
                                                         them: a text, a fill pattern, the header of an archive
    the length leads beyond the end of the file, but
    sound batches follow the damage                      the length is wrong, and maybe other bytes of the batch
    the CRC is right for all bytes of the damage         only the length is wrong
    the CRC is right where a batch of magic 2 has it     only the magic is wrong
    the next batch lies behind or before the byte        bytes were inserted, or lost: the batches behind it are whole
    to which the length leads                            (kcli.log.recovery.shifted_batches)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from formats.archive import archive_named
from formats.batch_prefix import MAGICS, OFFSET_BOUND, PREFIX
from kcli.inspector.verify.findings import STOPS, Finding
from kcli.log.recovery.batch_length import wrong_length
from kcli.log.recovery.batch_magic import RightMagic, wrong_magic
from kcli.log.recovery.shifted_batches import shifts_in, torn_by_loss
from kcli.log.source import FileSource, Source

OFFSET_BYTES = 8
KINDS = ("truncated", "batch-length", "batch-crc", "batch-magic")
OF_CRC = ("batch-crc", "batch-magic")
PUTS_MAGIC = "salvage puts the magic right, in a copy"
SHOWN_BYTES = 24
HEAD_BYTES = 512
TAR_MAGIC, TAR_MAGIC_AT = b"ustar", 257
REPLACED = "\N{REPLACEMENT CHARACTER}".encode()
REPLACED_LEAST = 4
"""The least number of replacement characters in a damaged batch that a program has put there."""
REPLACED_BYTES = 1 << 16
AROUND_BYTES = 1 << 16
AROUND_LEAST = 1 << 11
"""So many bytes of compressed records hardly ever have no CR."""
SIGNATURES = {
    b"PK\x03\x04": "a zip",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"Rar!": "a rar archive",
    b"Salted__": "a file that openssl has encrypted",
    b"U2FsdGVkX1": "a file that openssl has encrypted, in base64",
    b"-----BEGIN PGP MESSAGE": "a message that PGP has encrypted",
    b"age-encryption.org": "a file that age has encrypted",
    b"version https://git-lfs": "a pointer of Git LFS, in place of the file",
    b"<!DOCTYPE": "a page in HTML, as a failed download leaves it",
    b"<html": "a page in HTML, as a failed download leaves it",
    b"<?xml": "XML, such as the error of an object store",
    b"Dumping ": "the output of kafka-dump-log, from which no log can be made",
    b"SQLite format 3": "a database of SQLite",
    b"PAR1": "a Parquet file",
    b"\x7fELF": "a program",
    b"HTTP/1": "the head of an HTTP answer, which curl -i writes before the file",
}
"""By its first bytes, what a file is."""


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
            replaced = _replaced_text(source, each.position, each.length or 0)
        yield replace(found, found=f"{replaced}: {found.found}") if replaced else found


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
    shifted = _shifted_text(source, position, position + size)
    if shifted:
        kind = "batch-length" if finding.kind == "truncated" else finding.kind
        return replace(finding, kind=kind, found=f"{shifted}: {finding.found}")
    if finding.kind in OF_CRC:
        return finding
    head = _read(source, position)
    bytes_text = f"{size:,} bytes at byte {position:,} are no batch"
    if not _may_begin_batch(head):
        return replace(finding, kind="foreign-bytes", found=f"{bytes_text}{_text_of(head[: finding.length])}")
    if finding.kind == "truncated" and finding.next_valid_position is not None:
        return replace(finding, kind="batch-length", found=f"{bytes_text}: by its length {finding.found}")
    return finding


def _replaced_text(source: Source, position: int, size: int) -> str:
    """Return words which say that a program has replaced bytes by U+FFFD; "" if there are none."""
    data = bytearray(min(size, REPLACED_BYTES))
    count = bytes(data[: source.read_at(position, memoryview(data))]).count(REPLACED)
    if count < REPLACED_LEAST:
        return ""
    return f"{count:,} times EF BF BD, as where a program has read the file as UTF-8, and what is none as U+FFFD"


def _shifted_text(source: Source, start: int, stop: int) -> str:
    """Return words which say that bytes were inserted into the batches in bytes [start, stop), or lost from them; "" if
    they have their sizes. A sound batch, or the end of the file, is at `stop`."""
    shifts = shifts_in(source, start, stop)
    if not shifts:
        torn = torn_by_loss(source, start, stop)
        if torn is None:
            return ""
        begin, end = torn
        batches = f"batch of offset {begin:,}" if begin == end else f"batches of offsets {begin:,}..{end:,}"
        what = f"{stop - start:,} bytes are left of the {batches}"
        return f"{what}, as {_how_lost(source, start)}; the batches behind are whole"
    first = shifts[0]
    where = "here" if len(shifts) == 1 else f"here, in the first of {len(shifts):,} such batches"
    if first.inserted is not None:
        last = first.inserted + first.by - 1
        run = f"bytes {first.inserted:,}..{last:,}" if first.by > 1 else f"byte {last:,}"
        return f"{first.by:,} too many bytes {where}: without {run} the CRC is right, and salvage takes them out"
    if first.crs:
        crs = "a missing CR" if len(first.crs) == 1 else f"{len(first.crs):,} missing CRs"
        lost = f"{crs} {where}, as after a conversion of line ends (dos2unix, tr -d)"
        return f"{lost}: with what is missing the CRC is right, and salvage puts it back"
    how = "where bytes were inserted, or a text was replaced by a longer one (sed -i)"
    how = how if first.by > 0 else f"{_how_lost(source, start)}, or a text was replaced by a shorter one (sed -i)"
    amount = f"{abs(first.by):,} {'too many' if first.by > 0 else 'missing'} bytes {where}"
    return f"{amount}, as {how}; the batches behind are whole"


def _how_lost(source: Source, start: int) -> str:
    """Return words for what has taken bytes from a batch at byte `start`."""
    data = bytearray(AROUND_BYTES)
    around = data[: source.read_at(max(0, start - AROUND_BYTES // 2), memoryview(data))]
    if 13 not in around and len(around) > AROUND_LEAST:
        return "where CRs were removed, of which none is left (tr -d '\\r'), or a block was lost"
    return "where a block was lost"


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
    head = bytearray(HEAD_BYTES)
    return bytes(head[: source.read_at(position, memoryview(head))])


def _may_begin_batch(head: bytes) -> bool:
    """Whether a batch may begin with these bytes. True if they are too few for an offset."""
    if len(head) < OFFSET_BYTES:
        return True
    if not 0 <= int.from_bytes(head[:OFFSET_BYTES], signed=True) < OFFSET_BOUND:
        return False
    return len(head) < PREFIX.size or PREFIX.unpack_from(head)[3] in MAGICS


def _text_of(head: bytes) -> str:
    """Return words that say what begins with these bytes, if it is known, or that show them, if these are ASCII text;
    else ""."""
    known = next((what for begin, what in SIGNATURES.items() if head.startswith(begin)), None)
    known = "a tar" if head[TAR_MAGIC_AT:].startswith(TAR_MAGIC) else known
    archive = archive_named(head) if known is None else None
    if known is not None or archive is not None:
        return f": they are those of {known or f'a file that {archive} has compressed'}"
    if len(head) == HEAD_BYTES and 0 not in head and not head.isascii():
        return ": they have no NUL, as after tr -d '\\0'"
    text = head[:SHOWN_BYTES].decode("ascii", "replace").split("\0")[0].splitlines()
    is_text = bool(text) and len(text[0]) >= OFFSET_BYTES and text[0].isprintable() and text[0].isascii()
    return f": they begin with {text[0]!r}" if is_text else ""
