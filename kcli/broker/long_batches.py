"""Batches of a Produce request that take long to check: they are decompressed, and compressed anew, in a thread.

A batch of 200 kB may decompress to gigabytes. What a request can ask for at most is seen from the headers of its
batches; where that is more than some milliseconds' worth, all its batches that are compressed, or will be, are checked
one after the other before the first is appended. Kafka checks them in the request's own thread, and has no bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from formats.compression import DEFAULT_LIMIT
from kcli.broker.turns import checked
from kcli.log.validator import AppendError, AppendRefused, AppendRules, CheckedBatch, check, most_work_bytes

AT_ONCE_BYTES: Final = 4 << 20
"""Checked on the event loop in a few milliseconds."""
REQUEST_LIMIT: Final = 16 * DEFAULT_LIMIT
"""What the long batches of one request may decompress to, together."""

Place = tuple[int, int]
"""Where a batch is in its request: in which topic, and which partition of that."""
Batches = Mapping[Place, tuple[memoryview, AppendRules]]
Checked = Mapping[Place, CheckedBatch | AppendRefused]


def long_batches(batches: Batches) -> Batches:
    """Those that are to be checked in a thread; none where all of them together do not take long."""
    work = {place: most_work_bytes(records, rules) for place, (records, rules) in batches.items()}
    if sum(work.values()) <= AT_ONCE_BYTES:
        return {}
    return {place: batches[place] for place, size in work.items() if size > len(batches[place][0])}


async def check_apart(batches: Batches, now_ms: int) -> Checked:
    """Each batch, ready to be appended, or why it is refused."""
    outcome: dict[Place, CheckedBatch | AppendRefused] = {}
    left = REQUEST_LIMIT
    for place, (records, rules) in batches.items():
        if left <= 0:
            reason = f"the batches of one request decompress to more than {REQUEST_LIMIT:,} bytes"
            outcome[place] = AppendRefused(AppendError.INVALID_RECORD, reason)
            continue
        limit = min(DEFAULT_LIMIT, left)
        try:
            outcome[place] = found = await checked(_check, records, now_ms, rules, limit)
            left -= found.read_bytes
        except AppendRefused as refused:
            outcome[place] = refused.with_traceback(None)  # whose frames hold the payload, and this one
            left -= limit
    return outcome


def _check(records: memoryview, now_ms: int, rules: AppendRules, limit_bytes: int) -> CheckedBatch:
    return check(bytearray(records), now_ms, rules, limit_bytes=limit_bytes)
