"""Blocks of a damaged .log file that lie in another .log file, as where two writes went to each other's file. The torn
batches, and what the bytes that lie there instead look like, follow from it. Source:
kcli.log.recovery.displaced_blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.foreign_records import OF_ORDER, offset_of
from kcli.inspector.verify.log_findings import LIES_ELSEWHERE
from kcli.log.partition_view import Content, FileRange
from kcli.log.recovery.displaced_blocks import Displaced, displaced_blocks, is_exchange, logs_around

KIND = "block-displaced"
OF_OFFSETS = ("offsets-order", "offsets-overlap", "offset-range", "offset-gap")
"""Kinds of findings that what lies in the block's place causes behind it."""


def displaced(
    log: Path, size: int, base: int, following: int | None
) -> Iterator[tuple[Finding, Callable[[Finding], bool], Displaced]]:
    """Yield a finding for each block of a damaged .log file that lies in another .log file, with a predicate for its
    consequences among the other findings. size: bytes of the file. base: its base offset. following: that of the next
    segment, None for the last one. Raises UnreadableInput."""
    content = Content((FileRange(log, 0, size),))
    others = [each for each in logs_around(log.parent) if not each.samefile(log)]
    for block in displaced_blocks(log.name, content, base, following, others):
        finding = _finding(log, block)
        yield finding, _follows(finding, block), block


def _finding(log: Path, block: Displaced) -> Finding:
    is_own = block.log.parent == log.parent
    owner = block.log.name if is_own else f"{block.log.parent.name}/{block.log.name}"
    stop = block.position + block.length
    has_both = is_exchange(log, block)
    found = f"bytes {block.position:,}..{stop - 1:,} of this file are in {owner}, at the same place"
    found += ", and those of that file are here" if has_both else ", where a write went by mistake"
    of_one = next_steps.salvage(log.parent)
    return Finding(
        path=str(log),
        kind=KIND,
        severity="error",
        position=block.begin,
        offset=block.first_offset,
        length=block.end - block.begin,
        expected=f"{block.batches:,} batches from offset {block.first_offset:,} to {block.last_offset:,}",
        found=f"{found}; no offset is lost",
        action=LIES_ELSEWHERE,
        command=of_one if is_own or has_both else next_steps.salvage_log_directory(log.parent.parent),
        next_valid_position=block.end,
    )


def _follows(finding: Finding, block: Displaced) -> Callable[[Finding], bool]:
    log = Path(finding.path)

    def follows(other: Finding) -> bool:
        path = Path(other.path)
        if path == block.log and path.parent == log.parent and other.kind == KIND:
            return f" in {log.name}, at the same place, and " in str(other.found)
        if path == log and other.position is not None:
            return block.begin <= other.position < block.end or other.kind in (*OF_OFFSETS, *OF_ORDER)
        if path.parent != log.parent:
            return False
        is_index = path.stem == log.stem and other.kind.startswith(("index-", "timeindex-"))
        is_linked = other.kind in OF_ORDER or other.kind.startswith("txnindex-")
        return offset_of(other) >= block.first_offset and (is_index or is_linked)

    return follows
