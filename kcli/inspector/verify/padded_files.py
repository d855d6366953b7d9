"""A log directory whose files end in NULs, up to a multiple of one block size: a copy in blocks, as by dd with
conv=sync or from a tape, has filled the last block of each file. Kafka's text files have no NUL, so that these show
it."""

from __future__ import annotations

import os
from math import gcd
from pathlib import Path

from formats.file_name import FileKind
from kcli.inspector.verify.findings import Finding
from kcli.log.log_directory import LogDirectory

TEXTS = (
    FileKind.META_PROPERTIES,
    FileKind.RECOVERY_POINTS,
    FileKind.REPLICATION_OFFSETS,
    FileKind.LOG_START_OFFSETS,
    FileKind.CLEANER_OFFSETS,
)
OF_PARTITIONS = (FileKind.PARTITION_METADATA, FileKind.LEADER_EPOCHS)
PADDED_LEAST = 4
"""The least number of text files that end in NULs."""
BLOCK_LEAST = 512
OF_SMALL_FILES = ("-content", "-count", "-crc", "-version", "-truncated")
"""The ends of the kinds of findings that NULs behind its content make in a small file."""


def padded_to(home: Path) -> int:
    """Return the block size in bytes to which all text files of a log directory are padded with NULs; 0 if they are
    not. Raises UnreadableInput, OSError."""
    if not _ends_in_nul(home / FileKind.META_PROPERTIES):
        return 0
    texts = [home / name for name in TEXTS]
    for each in LogDirectory(home).partitions():
        texts += (each.path / name for name in OF_PARTITIONS)
    texts = [path for path in texts if path.is_file() and path.stat().st_size]
    if len(texts) < PADDED_LEAST or not all(map(_ends_in_nul, texts)):
        return 0
    common = gcd(*(path.stat().st_size for path in texts))
    block = common & -common
    return block if block >= BLOCK_LEAST else 0


def _ends_in_nul(path: Path) -> bool:
    if not path.is_file() or not path.stat().st_size:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\0"


def is_of_padding(block: int, finding: Finding) -> bool:
    """Return whether a finding is about the NULs that fill the last block of a file, or about a small file that these
    have damaged. block: the size of a block; 0 if nothing is padded."""
    path = Path(finding.path)
    if not block or not path.is_file() or path.stat().st_size % block:
        return False
    if finding.kind == "batch-length":
        return path.stat().st_size - block <= (finding.position or 0)
    is_small = finding.kind.endswith(OF_SMALL_FILES) and finding.kind != "batch-crc"
    return is_small or finding.kind in ("bootstrap-checkpoint", "txnindex-order", "index-length", "timeindex-length")
