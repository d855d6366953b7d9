"""Records of `__remote_log_metadata` for tests: built one by one, or a random life of a partition's segments."""

from __future__ import annotations

import random
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from typing import Any

from formats.internal_topic import DecodedRecord, encode
from kcli.tier.metadata import TOPIC
from kcli.tier.segment import SegmentState, TieredPartition

PARTITION = TieredPartition("orders", 0, "KlEWaF5xTFCF8vBhf0Z2Xg")
Epochs = Sequence[tuple[int, int]]


def uuid(number: int) -> str:
    """A UUID in base64."""
    return urlsafe_b64encode(number.to_bytes(16)).decode().rstrip("=")


def record(name: str, key_type: int, value: dict[str, Any]) -> bytes:
    """The value of a record."""
    decoded = DecodedRecord(key_type=key_type, key_name=None, key=None, value_version=0, value_name=name, value=value)
    _, data = encode(TOPIC, decoded)
    assert data is not None
    return data


def _segment_id(segment_id: str, partition: TieredPartition) -> dict[str, Any]:
    whose = {"name": partition.topic, "id": partition.topic_id, "partition": partition.partition}
    return {"topicIdPartition": whose, "id": segment_id}


def started(
    segment_id: str,
    start: int,
    end: int,
    epochs: Epochs = (),
    *,
    size: int = 100,
    state: int = SegmentState.COPY_SEGMENT_STARTED,
    partition: TieredPartition = PARTITION,
    has_txn_index: bool = False,
) -> bytes:
    """The record of a segment whose copy begins. epochs: epoch and first offset; by default epoch 0."""
    value = {
        "remoteLogSegmentId": _segment_id(segment_id, partition),
        "startOffset": start,
        "endOffset": end,
        "brokerId": 1,
        "maxTimestampMs": 1_700_000_000_000,
        "eventTimestampMs": 1_700_000_000_001,
        "segmentLeaderEpochs": [{"leaderEpoch": epoch, "offset": at} for epoch, at in epochs or [(0, start)]],
        "segmentSizeInBytes": size,
        "customMetadata": None,
        "remoteLogSegmentState": state,
        "txnIndexEmpty": not has_txn_index,
    }
    return record("RemoteLogSegmentMetadataRecord", 0, value)


def updated(segment_id: str, state: int, time_ms: int = 2, *, partition: TieredPartition = PARTITION) -> bytes:
    """The record of a segment's next state."""
    value = {
        "remoteLogSegmentId": _segment_id(segment_id, partition),
        "brokerId": 2,
        "eventTimestampMs": time_ms,
        "customMetadata": None,
        "remoteLogSegmentState": state,
    }
    return record("RemoteLogSegmentMetadataUpdateRecord", 1, value)


def deleted(state: int, *, partition: TieredPartition = PARTITION) -> bytes:
    """The record of a partition's deletion."""
    whose = {"name": partition.topic, "id": partition.topic_id, "partition": partition.partition}
    value = {"topicIdPartition": whose, "brokerId": 1, "eventTimestampMs": 3, "remotePartitionDeleteState": state}
    return record("RemotePartitionDeleteMetadataRecord", 2, value)


def life(seed: int, length: int = 40) -> list[bytes]:
    """Records of a partition whose leaders copy and delete segments, with mistakes: states out of order, unknown
    segments, copies of the same offsets."""
    dice = random.Random(seed)
    records: list[bytes] = []
    states: dict[str, int] = {}
    epoch = end = number = 0
    for _ in range(length):
        what = dice.random()
        if what < 0.4 or not states:
            number += 1
            segment_id = uuid(number)
            start = max(0, end + dice.choice((0, 0, 0, -dice.randrange(30), dice.randrange(10))))
            last = start + dice.randrange(40)
            epochs = [(epoch, start)]
            while last > epochs[-1][1] and dice.random() < 0.3:
                epoch += dice.choice((1, 1, 2))
                epochs.append((epoch, dice.randrange(epochs[-1][1] + 1, last + 1)))
            if dice.random() < 0.1:
                epoch = max(0, epoch - 1)
            records.append(started(segment_id, start, last, epochs))
            states[segment_id] = 0
            end = last + 1
            if dice.random() < 0.8:
                records.append(updated(segment_id, 1, len(records)))
                states[segment_id] = 1
            continue
        segment_id = dice.choice(sorted(states))
        state = states[segment_id] + 1 if dice.random() < 0.6 else dice.randrange(4)
        if dice.random() < 0.05:
            segment_id = uuid(1_000 + number)
        elif state < 4:
            states[segment_id] = state
        records.append(updated(segment_id, min(state, 3), len(records)))
    return records
