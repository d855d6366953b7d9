"""A follower's side of Fetch (1) and FetchSnapshot (59): how it applies the leader's answers to its log.

    diverging   truncate the log to the offset where it diverges from the leader's, never below the high watermark
    snapshot    fetch the leader's snapshot piece by piece, then drop the log and fetch records from the snapshot's end
                on
    records     append them; the high watermark becomes the leader's, but no more than the log's end

Source: KafkaRaftClient, handleFetchResponse, handleFetchSnapshotResponse; KIP-595, KIP-630.
"""

from __future__ import annotations

from kcli.protocol.error_code import ErrorCode
from kcli.raft.core import Core
from kcli.raft.errors import RaftFault
from kcli.raft.log import truncation_offset
from kcli.raft.messages import FetchAnswer, FetchSnapshotAnswer, Node, OffsetAndEpoch
from kcli.raft.states.follower import Follower
from kcli.raft.votes import common_answer


def fetch_answered(core: Core, source: Node, answer: FetchAnswer, now_ms: int) -> bool:
    """Apply the answer to a Fetch: truncate the log, begin to fetch a snapshot, or append records. Returns whether the
    answer was usable. Raises RaftFault."""
    handled = common_answer(core, answer, now_ms)
    if handled is not None:
        return handled
    state = core.state
    if not isinstance(state, Follower):
        return False
    if answer.error is not ErrorCode.NONE:
        return False
    state = core.answered_by(state, source, answer, now_ms)
    if answer.diverging is not None:
        _truncate(core, answer.diverging)
    elif answer.snapshot is not None:
        if state.snapshot is not None:
            state.snapshot.close()
        state.snapshot = core.log.begin_snapshot(answer.snapshot)
    else:
        _append(core, state, answer)
    state.fetched(now_ms)
    return True


def _truncate(core: Core, diverging: OffsetAndEpoch) -> None:
    committed = core.committed_offset
    if diverging.offset < committed:
        raise RaftFault(
            f"the leader wants the log cut at {diverging.offset:,}, but all before {committed:,} is committed"
        )
    offset = truncation_offset(core.log, diverging)
    core.log.truncate(offset)
    core.flushed_offset = min(core.flushed_offset, offset)
    core.controls.truncate_new(offset)


def _append(core: Core, state: Follower, answer: FetchAnswer) -> None:
    if len(answer.records):
        core.log.append_as_follower(answer.records, state.epoch)
        core.controls.appended(answer.records)
    if answer.high_watermark >= 0:
        _follow_high_watermark(core, state, answer.high_watermark)


def _follow_high_watermark(core: Core, state: Follower, offset: int) -> None:
    """Raise this node's high watermark to the leader's, but no higher than the log's end. A lower offset is ignored: a
    new leader's high watermark may be lower at first."""
    offset = min(offset, core.log.end_offset)
    if state.high_watermark is None or offset > state.high_watermark:
        state.high_watermark = offset
        core.move_committed(offset)


def snapshot_answered(core: Core, answer: FetchSnapshotAnswer, now_ms: int) -> bool:
    """Write the piece of a snapshot in an answer; after the last piece the log begins at the snapshot's end. If the
    leader no longer has the snapshot, drop the pieces and fetch records again. Returns whether the answer was usable.
    Raises RaftFault."""
    handled = common_answer(core, answer, now_ms)
    if handled is not None:
        return handled
    state = core.state
    if not isinstance(state, Follower):
        return False
    if answer.error is ErrorCode.SNAPSHOT_NOT_FOUND or answer.snapshot is None:
        if state.snapshot is not None:
            state.snapshot.close()
        state.snapshot = None
        state.fetched(now_ms)
        return True
    if answer.error is not ErrorCode.NONE:
        return False
    writer = state.snapshot
    if writer is None or writer.id != answer.snapshot or writer.size != answer.position:
        raise RaftFault(f"a piece of snapshot {answer.snapshot} at {answer.position:,} that was not requested")
    writer.append(answer.data)
    if writer.size == answer.size:
        writer.freeze()
        state.snapshot = None
        if not core.log.truncate_to_latest_snapshot():
            raise RaftFault(f"snapshot {answer.snapshot} is not ahead of the log, which ends at {core.log_end}")
        core.flushed_offset = core.log.end_offset
        core.controls.load()
        _follow_high_watermark(core, state, core.log.end_offset)
    state.fetched(now_ms)
    return True
