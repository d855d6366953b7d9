"""Leader epochs of the batches of a log, and batches that have a wrong one.

No CRC covers the leader epoch in a batch's header. Epochs never decrease along a log, so that a single batch between
two batches of one epoch must have that epoch, too. If the epoch in its header differs from that one in a single bit,
the bit was flipped.

No batch follows the last one. For the last batch, the last entry of leader-epoch-checkpoint is the evidence: a leader
adds its epoch to that file before it appends a batch with this epoch. If that entry has the epoch of the batch before,
and the last batch has another epoch, which differs in a single bit and is lower, or higher by so much that the metadata
log would have it, the bit was flipped.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, groupby, islice, tee
from typing import NamedTuple, Self

from formats.kernels.batches import FAULT_BAD_CRC, FAULT_SHORT_HEADER
from formats.kernels.columns import BatchRow
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.partition_view import Content, ContentSource, Part
from kcli.log.segment_reader import Damage, read_segment

EPOCH = struct.Struct(">i")
EPOCH_AT = 12
MAGIC_WITH_EPOCH = 2
WRONG_MAX = 1_000
"""The largest number of batches of a partition whose leader epoch is put right."""
FAR = 16
"""The least number by which the epoch of the last batch must exceed all known epochs to be taken for one with a flipped
bit. A lower epoch may be right: a crash may lose the last epochs both from leader-epoch-checkpoint and from the
metadata log."""
_EPOCH_BITS = 2**32 - 1


@dataclass(frozen=True, slots=True)
class RightEpoch:
    """A sound batch with a flipped bit in its leader epoch. before: the epoch in the file. leader_epoch: that of the
    batches beside it."""

    file: str
    position: int
    before: int
    leader_epoch: int


class _Batch(NamedTuple):
    """A sound batch: its leader epoch, its base offset, and the .log file and byte where it begins."""

    epoch: int
    base_offset: int
    file: str
    position: int
    magic: int


class _Run(NamedTuple):
    """Successive sound batches of one leader epoch. first, end: the first and the last of them; batches: their
    number."""

    first: _Batch
    end: _Batch
    batches: int

    @property
    def epoch(self) -> int:
        """The leader epoch of all batches in the run."""
        return self.first.epoch

    @classmethod
    def of(cls, batches: Iterable[_Batch]) -> Self:
        """Return the run of these batches, of which there is at least one."""
        found = iter(batches)
        first = end = next(found)
        count = 1
        for end in found:  # noqa: B007 (the last one is kept)
            count += 1
        return cls(first, end, count)

    def right_epoch(self, before: Self | None, behind: Self | None, last: Self | None) -> int | None:
        """Return the right epoch of a run that is a single batch with a flipped bit in its epoch; None for any other
        run.

        before: the run before this one. behind, last: the two runs after this one. If `behind` is a single batch, and
        `last` has the epoch of this run, then the batch in `behind` has the flipped bit. A batch whose offset is not
        between those beside it was moved with its epoch.
        """
        if self.batches > 1 or before is None or behind is None or before.epoch != behind.epoch:
            return None
        if not before.end.base_offset < self.first.base_offset < behind.first.base_offset:
            return None
        is_other = behind.batches == 1 and last is not None and last.epoch == self.epoch
        return before.epoch if _differs_in_a_bit(self.epoch, before.epoch) and not is_other else None


def leader_epochs(logs: Iterable[tuple[str, Content]]) -> LeaderEpochCache:
    """Return the leader epochs of the sound batches, without those that are due to a flipped bit, and without those
    below the epoch of an earlier batch, which Kafka's start leaves out, too.

    logs: name and content of each .log file, in the order of their offsets. Raises UnreadableInput.
    """
    epochs = LeaderEpochCache()
    latest = -1
    for run, right in _judged(logs):
        if run.epoch > latest and right is None:
            latest = run.epoch
            epochs.assign(latest, run.first.base_offset)
    return epochs


def wrong_epochs(logs: Iterable[tuple[str, Content]]) -> list[RightEpoch]:
    """Return the first WRONG_MAX batches with a flipped bit in their leader epoch.

    logs: name and content of each .log file, in the order of their offsets. Raises UnreadableInput.
    """
    wrong = (
        RightEpoch(run.first.file, run.first.position, run.epoch, right)
        for run, right in _judged(logs)
        if right is not None and run.first.magic >= MAGIC_WITH_EPOCH
    )
    return list(islice(wrong, WRONG_MAX))


def right_last_epoch(epoch: int, before: int | None, stated: int, known: int | None) -> int | None:
    """Return the right leader epoch of a log's last batch if a bit of its epoch was flipped; else None.

    epoch: that of the batch, which no other batch before it has. before: that of the batch before; None if there is
    none. stated: that of the last entry in leader-epoch-checkpoint, which begins at or below the batch. known: that of
    the partition in the metadata log; None if it is not known.
    """
    if before not in (None, stated) or not _differs_in_a_bit(epoch, stated):
        return None
    is_far = epoch >= max(stated, known or 0) + FAR
    is_below = epoch < stated and before is not None
    return stated if is_below or is_far else None


def wrong_last_epoch(
    logs: Iterable[tuple[str, Content]], stated: tuple[int, int], known: int | None = None
) -> RightEpoch | None:
    """Return the last batch of the .log files if a bit of its leader epoch was flipped; else None.

    logs: name and content of each .log file, in the order of their offsets. stated: epoch and start offset of the last
    entry in leader-epoch-checkpoint. known: as in `right_last_epoch`. Raises UnreadableInput.
    """
    runs = deque((_Run.of(group) for _, group in groupby(_batches(logs), key=lambda batch: batch.epoch)), maxlen=2)
    if not runs:
        return None
    last, before = runs[-1], runs[0].epoch if len(runs) > 1 else None
    if last.batches > 1 or last.first.magic < MAGIC_WITH_EPOCH or last.first.base_offset < stated[1]:
        return None
    right = right_last_epoch(last.epoch, before, stated[0], known)
    return None if right is None else RightEpoch(last.first.file, last.first.position, last.epoch, right)


def is_in(wrong: RightEpoch, content: Content) -> bool:
    """Return whether a .log file with this content has the wrong leader epoch at its position. Raises
    UnreadableInput."""
    begin = wrong.position + EPOCH_AT
    source = ContentSource(wrong.file, content.between(begin, begin + EPOCH.size))
    try:
        found = bytearray(EPOCH.size)
        return source.read_at(0, memoryview(found)) == EPOCH.size and found == EPOCH.pack(wrong.before)
    finally:
        source.close()


def with_right_epochs(content: Content, wrong: Iterable[RightEpoch]) -> Content:
    """Return the content of a .log file with the wrong leader epochs in its batches corrected. wrong: the position and
    right epoch of each such batch, in order."""
    parts: list[Part] = []
    end = 0
    for each in wrong:
        begin = each.position + EPOCH_AT
        parts += [*content.between(end, begin).parts, EPOCH.pack(each.leader_epoch)]
        end = begin + EPOCH.size
    return Content((*parts, *content.between(end, content.size).parts))


def _differs_in_a_bit(epoch: int, other: int) -> bool:
    """Whether two leader epochs differ in a single one of their 32 bits."""
    return ((epoch ^ other) & _EPOCH_BITS).bit_count() == 1


def _judged(logs: Iterable[tuple[str, Content]]) -> Iterator[tuple[_Run, int | None]]:
    """Yield the runs of batches of one leader epoch, each with the right epoch if a bit of its epoch was flipped, else
    with None. Raises UnreadableInput."""
    runs = (_Run.of(group) for _, group in groupby(_batches(logs), key=lambda batch: batch.epoch))
    ahead = tee(chain((None,), runs, (None, None)), 4)
    windows = zip(*(islice(each, number, None) for number, each in enumerate(ahead)), strict=False)
    for before, run, behind, last in windows:
        if run is not None:
            yield run, run.right_epoch(before, behind, last)


def _batches(logs: Iterable[tuple[str, Content]]) -> Iterator[_Batch]:
    """Yield the sound batches of the .log files `logs`, in order. Raises UnreadableInput."""
    for name, content in logs:
        source = ContentSource(name, content)
        try:
            for part in read_segment(source):
                if isinstance(part, Damage):
                    continue
                for i in range(part.batches.count):
                    row = BatchRow._make(part.batches.row(i))
                    if row.base_offset >= 0 and not row.faults & (FAULT_BAD_CRC | FAULT_SHORT_HEADER):
                        yield _Batch(row.leader_epoch, row.base_offset, name, row.position, row.magic)
                part.release()
        finally:
            source.close()
