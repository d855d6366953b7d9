"""The leader's side of Fetch (1) and FetchSnapshot (59). A Fetch at offset N acknowledges all records below N.

A Fetch at the end of the log waits, at most its max_wait_ms, until a record is appended or the high watermark rises. An
answer has at most controller.quorum.fetch.max.bytes, a piece of a snapshot at most
controller.quorum.fetch.snapshot.max.bytes, whatever the request asks for. Source: KafkaRaftClient, handleFetchRequest,
tryCompleteFetchRequest, handleFetchSnapshotRequest.
"""

from __future__ import annotations

from dataclasses import replace

from kcli.protocol.error_code import ErrorCode
from kcli.raft.core import Core, Parked
from kcli.raft.log import Validity, validate
from kcli.raft.messages import Fetch, FetchAnswer, FetchSnapshot, FetchSnapshotAnswer, OffsetAndEpoch, Token
from kcli.raft.states.leader import Leader
from kcli.raft.votes import has_other_cluster


def refuse_follower(core: Core, epoch: int) -> ErrorCode:
    """Return the error for a request that only the leader of `epoch` may answer; NONE if this node leads that epoch,
    and is not shutting down."""
    state = core.state
    if epoch < state.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > state.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if not isinstance(state, Leader):
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.BROKER_NOT_AVAILABLE if core.is_shutting_down else ErrorCode.NONE


def handle_fetch(core: Core, token: Token, request: Fetch, now_ms: int) -> None:
    """Answer a Fetch; if there is nothing new for it, keep it in `core.parked` until there is, or its max_wait_ms is
    over.

    Errors: INVALID_REQUEST, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE,
    UNKNOWN_SERVER_ERROR for another node that has this node's id; for the whole response INCONSISTENT_CLUSTER_ID.
    """
    if has_other_cluster(core, request.cluster_id):
        core.answer(token, FetchAnswer(top_error=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    if request.max_wait_ms < 0 or request.offset < 0 or not 0 <= request.last_fetched_epoch <= request.epoch:
        core.answer(token, _empty(core, ErrorCode.INVALID_REQUEST))
        return
    answer = _try(core, request, now_ms)
    is_new = (
        answer.error is not ErrorCode.NONE
        or len(answer.records)
        or answer.diverging is not None
        or answer.snapshot is not None
        or answer.high_watermark > request.high_watermark
    )
    if is_new or request.max_wait_ms == 0:
        core.answer(token, answer)
    else:
        core.parked.append(Parked(token, request, now_ms + request.max_wait_ms, answer))
    _let_observer_follow(core, request, now_ms)


def _let_observer_follow(core: Core, request: Fetch, now_ms: int) -> None:
    """Give up the leadership, and enter the observer's epoch, if an observer has been in a higher epoch for the fetch
    timeout. A single Vote request, which any client can send, raises the observer's epoch; the observer then follows no
    leader of a lower epoch, and begins no election itself. Kafka's leader stays: the observer gets no metadata until
    the next election."""
    state = core.state
    if not isinstance(state, Leader) or request.epoch <= state.epoch or not core.is_in_reach(request.epoch):
        return
    observer = state.observers.get(request.replica)
    if observer is None:
        return
    if observer.ahead_since_ms < 0:
        observer.ahead_since_ms = now_ms
    elif now_ms - observer.ahead_since_ms >= core.config.fetch_timeout_ms:
        core.to_unattached(request.epoch, now_ms)


def refetch(core: Core, parked: Parked, now_ms: int) -> None:
    """Answer a parked Fetch: records have come, the high watermark has risen, or this node no longer leads."""
    if isinstance(core.state, Leader):
        core.answer(parked.token, _try(core, parked.request, now_ms))
    else:
        core.answer(parked.token, _empty(core, ErrorCode.NOT_LEADER_OR_FOLLOWER))


def _try(core: Core, request: Fetch, now_ms: int) -> FetchAnswer:
    error = refuse_follower(core, request.epoch)
    state = core.state
    if error is ErrorCode.NONE and request.replica.id == core.key.id:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    if error is not ErrorCode.NONE or not isinstance(state, Leader):
        return _empty(core, error)
    latest, end = core.log.latest_snapshot, OffsetAndEpoch(request.offset, request.last_fetched_epoch)
    if request.offset == 0 and latest is not None and latest.offset:
        validity, where = Validity.SNAPSHOT, latest
    else:
        validity, where = validate(core.log, *end)
    if validity is Validity.VALID:
        records = core.log.read(request.offset, min(max(request.max_bytes, 0), core.config.fetch_max_bytes))
        if state.fetched(request.replica, request.offset, core.log.end_offset, now_ms):
            core.committed(state, now_ms)
        return _answer(core, state, records=records)
    if validity is Validity.SNAPSHOT:
        return _answer(core, state, snapshot=where)
    return _answer(core, state, diverging=where)


def _answer(
    core: Core,
    state: Leader,
    *,
    records: bytes | bytearray | memoryview = b"",
    diverging: OffsetAndEpoch | None = None,
    snapshot: OffsetAndEpoch | None = None,
) -> FetchAnswer:
    return FetchAnswer(
        leader_id=state.leader_id,
        epoch=state.epoch,
        endpoints=state.leader_endpoints,
        high_watermark=-1 if state.high_watermark is None else state.high_watermark,
        log_start_offset=core.log.start_offset,
        diverging=diverging,
        snapshot=snapshot,
        records=records,
    )


def _empty(core: Core, error: ErrorCode) -> FetchAnswer:
    state = core.state
    return FetchAnswer(
        error=error,
        leader_id=state.leader_id,
        epoch=state.epoch,
        endpoints=state.leader_endpoints,
        log_start_offset=core.log.start_offset,
    )


def expire_parked(core: Core, now_ms: int) -> int:
    """Answer the parked fetches whose max_wait_ms is over. Returns when the next one's max_wait_ms is over, in ms since
    1970; a time that never comes if no Fetch is parked."""
    due = [each for each in core.parked if each.deadline_ms <= now_ms]
    core.parked = [each for each in core.parked if each.deadline_ms > now_ms]
    for each in due:
        core.answer(each.token, each.otherwise)
    return min((each.deadline_ms for each in core.parked), default=now_ms + (1 << 62))


def handle_fetch_snapshot(core: Core, token: Token, request: FetchSnapshot, now_ms: int) -> None:
    """Answer a FetchSnapshot with a piece of a snapshot. Errors: those of Fetch, SNAPSHOT_NOT_FOUND,
    POSITION_OUT_OF_RANGE."""
    if has_other_cluster(core, request.cluster_id):
        core.answer(token, FetchSnapshotAnswer(top_error=ErrorCode.INCONSISTENT_CLUSTER_ID))
        return
    error = refuse_follower(core, request.epoch)
    if error is ErrorCode.NONE and request.replica.id == core.key.id:
        error = ErrorCode.UNKNOWN_SERVER_ERROR
    state = core.state
    answer = FetchSnapshotAnswer(
        error=error, leader_id=state.leader_id, epoch=state.epoch, endpoints=state.leader_endpoints
    )
    if isinstance(state, Leader) and error is ErrorCode.NONE:
        answer = _piece(core, state, request, answer, now_ms)
    core.answer(token, answer)


def _piece(
    core: Core, state: Leader, request: FetchSnapshot, answer: FetchSnapshotAnswer, now_ms: int
) -> FetchSnapshotAnswer:
    snapshot, position = request.snapshot, request.position
    size = core.log.snapshot_size(snapshot) if snapshot.offset else None
    if size is None:
        return replace(answer, error=ErrorCode.SNAPSHOT_NOT_FOUND)
    if not 0 <= position < size:
        return replace(answer, error=ErrorCode.POSITION_OUT_OF_RANGE)
    max_bytes = min(max(request.max_bytes, 0), core.config.fetch_snapshot_max_bytes)
    data = core.log.read_snapshot(snapshot, position, max_bytes)
    state.note_following(request.replica, now_ms)
    return replace(answer, snapshot=snapshot, size=size, position=position, data=data)
