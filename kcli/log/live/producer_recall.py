"""The batches of a producer that the producer snapshot left out, read back from the log.

A producer snapshot has only the last batch of each producer. A producer that had several batches in flight when the
broker stopped sends all of them again, and the state from the snapshot does not show that the earlier ones are
duplicates. Kafka answers them with OUT_OF_ORDER_SEQUENCE_NUMBER, at which some clients fail. Before kcli answers so, it
reads the headers of the producer's batches before the oldest known one.
"""

from __future__ import annotations

from formats.kernels.batches import BatchTable
from formats.kernels.producers import PRODUCER_BATCHES_KEPT, ProducerTable
from formats.kernels.scan import scan
from kcli.log.live.segments import LiveSegments

LOOKED_AT_BYTES = 8 << 20


def recall(segments: LiveSegments, producers: ProducerTable, producer_id: int) -> bool:
    """Read from the log the producer's batches before its oldest one in `producers`, and add them to `producers`, until
    five batches of the producer are known or LOOKED_AT_BYTES have been read. Returns whether a batch was added."""
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
