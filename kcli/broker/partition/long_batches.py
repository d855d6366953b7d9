"""Batches of a Produce request that take long to check. They are decompressed, and compressed again, in a thread.

A batch of 200 kB may decompress to gigabytes. The headers of a request's batches give an upper bound of the bytes to
process. If the bound is above AT_ONCE_BYTES, all batches of the request that are compressed, or are to be compressed,
are checked one after the other before the first is appended. Kafka checks them in the request's own thread, and has no
bound.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from formats.compression import DEFAULT_LIMIT
from kcli.broker.process.memory import return_free_pages
from kcli.broker.process.turns import checked
from kcli.log.live.validator import AppendRefused, AppendRules, CheckedBatch, check, most_work_bytes
from kcli.protocol.error_code import ErrorCode

AT_ONCE_BYTES: Final = 4 << 20
"""The greatest number of bytes that the event loop checks itself, in a few milliseconds; more bytes are checked in a
thread."""
REQUEST_LIMIT: Final = 16 * DEFAULT_LIMIT
"""The greatest number of bytes to which all long batches of one request together may decompress."""

KEPT_MAX_BYTES: Final = 16 << 20
"""The greatest number of decompressed bytes after which the C library may keep the memory that they took."""

Place = tuple[int, int]
"""The place of a batch in its request: the index of the topic, and the index of the partition in that topic."""
Batches = Mapping[Place, tuple[memoryview, AppendRules]]
Checked = Mapping[Place, CheckedBatch | AppendRefused]


def long_batches(batches: Batches) -> Batches:
    """Return the batches that are compressed or are to be compressed: these are to be checked in a thread. Return an
    empty mapping if all batches together have at most AT_ONCE_BYTES to process."""
    work = {place: most_work_bytes(records, rules) for place, (records, rules) in batches.items()}
    if sum(work.values()) <= AT_ONCE_BYTES:
        return {}
    return {place: batches[place] for place, size in work.items() if size > len(batches[place][0])}


async def check_apart(batches: Batches, now_ms: int) -> Checked:
    """Check the batches in threads, one after the other. Return, by the place of each batch in the request, the checked
    batch or the error with which it is refused. Once REQUEST_LIMIT bytes are decompressed, all further batches are
    refused. After large batches the freed memory is returned to the system."""
    outcome: dict[Place, CheckedBatch | AppendRefused] = {}
    left = REQUEST_LIMIT
    for place, (records, rules) in batches.items():
        if left <= 0:
            reason = f"the batches of one request decompress to more than {REQUEST_LIMIT:,} bytes"
            outcome[place] = AppendRefused(ErrorCode.INVALID_RECORD, reason)
            continue
        limit = min(DEFAULT_LIMIT, left)
        try:
            outcome[place] = found = await checked(_check, records, now_ms, rules, limit)
            left -= found.read_bytes
        except AppendRefused as refused:
            outcome[place] = refused.with_traceback(None)  # the frames of a traceback would keep the payload in memory
            left -= limit
    if REQUEST_LIMIT - left > KEPT_MAX_BYTES:
        await checked(return_free_pages)
    return outcome


def _check(records: memoryview, now_ms: int, rules: AppendRules, limit_bytes: int) -> CheckedBatch:
    return check(bytearray(records), now_ms, rules, limit_bytes=limit_bytes)
