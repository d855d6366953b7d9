"""A producer's batches that its snapshot left out, taken back from the log.

A snapshot has the last batch of each producer; one that had several on their way when the broker went sends all of them
again, and the earlier ones are duplicates that the state behind a snapshot no longer knows. Kafka answers them with
OUT_OF_ORDER_SEQUENCE_NUMBER, which some clients do not survive; here the headers in front of the oldest batch that is
known are looked at first.
"""

from __future__ import annotations

from formats.kernels.log import PRODUCER_BATCHES_KEPT, BatchTable, ProducerTable, scan
from kcli.log.live_segments import LiveSegments

LOOKED_AT_BYTES = 8 << 20


def recall(segments: LiveSegments, producers: ProducerTable, producer_id: int) -> bool:
    """Take up to five batches of the producer's epoch into `producers`. Returns whether there is a new one."""
    known = producers.last_batches(producer_id)
    if not known or len(known) == PRODUCER_BATCHES_KEPT:
        return False
    missing, left = PRODUCER_BATCHES_KEPT - len(known), LOOKED_AT_BYTES
    _, last_offset, _, _ = known[0]
    i = segments.index_of(last_offset)
    head = segments.all[i].locate(last_offset)
    end = segments.all[i].size if head is None else head.position
    found = 0
    while found < missing and left > 0:
        segment = segments.all[i]
        start = segment.offsets.end_within(max(end - left, 0))
        data = segment.log.read(end - start, start)
        table = BatchTable()
        scan(data, 0, len(data), start, table, check_crc=False)
        found += producers.recall(producer_id, table)
        left -= len(data)
        if start or not i:
            break
        i -= 1
        end = segments.all[i].size
    return found > 0
