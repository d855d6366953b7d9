"""How a follower begins its log above the offsets that the leader has only in tiered storage, without fetching these.

    asked of the leader   the log start offset; the start: the earliest local offset, with its leader epoch (or with
                          follower.fetch.last.tiered.offset.enable the earliest offset that is not in the tier yet,
                          KIP-1023); the end offset of the epoch before
    read from the tier    the leader epochs and the producer snapshot of the segment with the offset before the start
    then                  the log is emptied, begins at the end of that segment, and has these epochs and producers

Source: AbstractFetcherThread.handleOffsetsMovedToTieredStorage, TierStateMachine; KIP-405.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from kcli.errors import KcliError
from kcli.log.live.partition_log import EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD

if TYPE_CHECKING:
    from formats.checkpoint import EpochEntry
    from kcli.broker.partition.partitions import Partition

UNKNOWN = -1


class NotInTier(KcliError):
    """The state of a log is not in the tier, or not yet: the follower tries again."""


class TierState(NamedTuple):
    """The state of a log below next_offset, read from the tier. snapshot: the bytes of the producer snapshot, None if
    the tier has none."""

    next_offset: int
    epochs: tuple[EpochEntry, ...]
    snapshot: bytes | None


class TierStates(Protocol):
    """Reads the state of logs from the tier."""

    async def state_behind(self, partition: Partition, epoch: int, offset: int) -> TierState:
        """Return the state of the log at the end of the tiered segment that has `offset` in leader epoch `epoch`.
        Raises NotInTier, KcliError (of the store), OSError, FormatError."""


class Leader(Protocol):
    """Requests to the leader of one partition. They raise Unanswered without a response, and ListOffsetsFailed
    (fetcher.py) for a response with an error code."""

    async def offset(self, timestamp: int) -> tuple[int, int]:
        """Return the offset and leader epoch that ListOffsets gives for a special timestamp, such as EARLIEST."""

    async def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the leader's largest epoch that is not above `epoch`, and its end offset (OffsetForLeaderEpoch)."""


class Start(NamedTuple):
    """Where a follower's log begins. log_start: the leader's log start offset. state: the state below the first local
    offset, read from the tier; None if the local log begins at log_start."""

    log_start: int
    state: TierState | None


async def find_start(
    leader: Leader, tier: TierStates | None, partition: Partition, *, behind_last_tiered: bool
) -> Start:
    """Return the start of a follower's log. behind_last_tiered: whether the local log begins after the last offset in
    the tier, instead of at the start of the leader's local log. tier: None if this broker has no tiered storage. Raises
    NotInTier, and the errors of `leader` and `tier`."""
    if tier is None or not partition.log.is_tiered:
        raise NotInTier(f"{partition}: this broker has no tiered storage for it")
    log_start, _ = await leader.offset(EARLIEST)
    start, epoch = UNKNOWN, UNKNOWN
    if behind_last_tiered:
        start, epoch = await leader.offset(EARLIEST_PENDING_UPLOAD)
    if start == UNKNOWN:
        start, epoch = await leader.offset(EARLIEST_LOCAL)
        if behind_last_tiered and start != log_start:
            raise NotInTier(f"{partition}: the leader does not know yet what is in the tier")
    if start <= log_start:
        return Start(log_start, None)
    if epoch > 0:
        earlier, end = await leader.end_of_epoch(epoch - 1)
        epoch = earlier if end >= start else epoch
    return Start(log_start, await tier.state_behind(partition, epoch, start - 1))
