"""The records of a Fetch response, for services that replay a small topic."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kcli.errors import UnreadableInput
from kcli.log.source import BytesSource
from kcli.log.stored_batches import batches_of


class Record(NamedTuple):
    """One record of the log. timestamp_ms: in ms since 1970."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def records_in(
    data: bytes, first: int, where: str, aborted: Iterable[tuple[int, int]] = ()
) -> tuple[list[Record], int]:
    """Return the records from offset `first` on, and the offset behind them. aborted: producer id and first offset of
    each aborted transaction, whose records are left out. Raises UnreadableInput; where names the topic."""
    records: list[Record] = []
    end = first
    waiting = sorted(((offset, producer) for producer, offset in aborted), reverse=True)
    aborting: set[int] = set()
    for row, stored in batches_of(BytesSource(_whole_batches(data), where)):
        end = max(end, row.last_offset + 1)
        while waiting and waiting[-1][0] <= row.last_offset:
            aborting.add(waiting.pop()[1])
        if row.is_control:
            aborting.discard(row.producer_id)
        elif not (row.is_transactional and row.producer_id in aborting):
            records += [
                Record(each.offset, each.key, each.value, row.max_timestamp) for each in stored if each.offset >= first
            ]
    return records, end


def _whole_batches(data: bytes) -> bytes:
    """Return the batches without the incomplete one at the end of a Fetch response."""
    position = 0
    while position + 12 <= len(data):
        after = position + 12 + int.from_bytes(data[position + 8 : position + 12], signed=True)
        if after > len(data) or after < position + 12:
            break
        position = after
    if not position and data:
        raise UnreadableInput("Fetch response", f"a batch that {len(data):,} bytes do not hold")
    return data[:position]
