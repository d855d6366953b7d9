"""Transaction markers in the partitions that this broker leads.

    control record   key    version int16, type int16: 0 abort, 1 commit
                     value  version int16, coordinator epoch int32

Source: EndTransactionMarker, ReplicaManager; KIP-98.
"""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from formats.batch_writer import write_batch
from formats.control_record import ControlType
from kcli.coordinator.machine import GROUPS_TOPIC
from kcli.log.live.partition_log import LogFailed
from kcli.log.live.validator import CONTROL, TRANSACTIONAL, AppendRefused, Origin
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.coordinators.context import CoordinatorContext
    from kcli.broker.coordinators.runtime import Coordinator
    from kcli.broker.partition.partitions import Partition

MARKER_KEY, MARKER_VALUE = struct.Struct(">hh"), struct.Struct(">hi")


@dataclass(frozen=True, slots=True)
class Marker:
    """A transaction marker. coordinator_epoch: the leader epoch of the transaction coordinator's partition."""

    producer_id: int
    producer_epoch: int
    commit: bool
    coordinator_epoch: int
    transaction_version: int


class LocalMarkers:
    """Writes transaction markers to the partitions that this broker leads. groups: the group coordinator, which makes
    the transaction's offsets valid (commit) or drops them (abort) when a marker is appended to __consumer_offsets."""

    def __init__(self, context: CoordinatorContext, groups: Coordinator) -> None:
        self._context, self._groups = context, groups

    def write(self, topic: str, number: int, marker: Marker) -> ErrorCode | asyncio.Future[ErrorCode]:
        """Append a transaction marker to one partition. Return NONE if the marker is committed at once, or the error
        if it is not appended; if the commit waits for followers, return a future of the result."""
        context = self._context
        partition = context.partitions.get(topic, number)
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if topic == GROUPS_TOPIC and not self._groups.is_loaded(number):
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        code = partition.check_leader_epoch()
        if code is not None:
            return code
        try:
            if partition.lacks_replicas:
                return ErrorCode.NOT_ENOUGH_REPLICAS
            end_offset = _append(partition, marker, context.clock.now_ms())
        except AppendRefused as refused:
            return refused.error
        except (OSError, LogFailed) as failure:
            partition.failed(failure)
            return ErrorCode.KAFKA_STORAGE_ERROR
        if topic == GROUPS_TOPIC:
            self._groups.marker_written(number, marker.producer_id, marker.producer_epoch, commit=marker.commit)
        if partition.log.high_watermark >= end_offset:
            return ErrorCode.NONE
        return partition.wait_committed(end_offset, context.config.number("request.timeout.ms") / 1000)


def _append(partition: Partition, marker: Marker, now_ms: int) -> int:
    """Append the marker. Return the offset after that of the marker. Raises AppendRefused, LogFailed, OSError."""
    kind = ControlType.COMMIT if marker.commit else ControlType.ABORT
    data = write_batch(
        [(MARKER_KEY.pack(0, kind), MARKER_VALUE.pack(0, marker.coordinator_epoch))],
        now_ms,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )
    appended = partition.append_as_leader(
        data, now_ms, origin=Origin.COORDINATOR, transaction_version=marker.transaction_version
    )
    return appended.last_offset + 1
