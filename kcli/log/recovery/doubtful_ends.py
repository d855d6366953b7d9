"""Whether an end of a log that one checkpoint alone states may be a wrong number.

The recovery point and the high watermark are written apart: after a power failure one of them may be above the end of
the log, which then has lost its last records. But if that one is above the end by many times the number of offsets that
the log has, while the other one is not, a wrong number is as likely.
"""

from __future__ import annotations

DOUBT_FACTOR = 4


def is_doubtful(ends: list[int], start: int, end: int) -> bool:
    """Return whether the only checkpoint that is above a log's end may be wrong.

    ends: what the recovery point and the high watermark say, as far as they are known. start, end: the first offset of
    the log, and the log end offset.
    """
    beyond = [each for each in ends if each > end]
    return len(beyond) == 1 and beyond[0] - end > DOUBT_FACTOR * (end - start) > 0
