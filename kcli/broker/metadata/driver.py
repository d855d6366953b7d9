"""Connects raft, which itself does no I/O, with the clock, the disk and the network.

    handle    passes a request of another node to raft; the response may be delayed
    send      sends raft's requests to other nodes: Fetch, whose response is delayed, has its own channel; all others
              share a channel
    flush     flushes the log in a thread, whenever it has unflushed bytes
    save      writes quorum-state in a thread; the responses and requests that follow from it wait until it is durable
    tick      calls raft at the time of raft's next deadline

After each event of raft `advance` is called, as the high watermark and the leader may have changed.

    an error of raft or of the disk      stops the node in an orderly way, as raft can no longer keep its promises
    an error in a request to a node      counts as no response: it is logged every LOG_AGAIN_S seconds, and raft retries
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Final

from kcli.broker.metadata.raft_log import QuorumStateFile
from kcli.broker.metadata.raft_requests import WIRES
from kcli.broker.network.peers import Channel, LoginFailed, Network, Unanswered, VersionMismatch
from kcli.broker.process.clock import Clock
from kcli.broker.process.unattended import begin
from kcli.broker.wire.answers import HangUp
from kcli.log.live.partition_log import PartitionLog
from kcli.protocol.error_code import ErrorCode
from kcli.raft.messages import Answer, Fetch, Outcome, Records, Request, Send
from kcli.raft.raft import Raft

logger = logging.getLogger("kcli.broker")
LOG_AGAIN_S: Final = 30.0
"""The shortest time, in seconds, between two log lines about the same unreachable node."""
DENIED: Final = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_SERVER_ERROR)
"""The errors with which another node's authorizer denies this node's requests; UNKNOWN_SERVER_ERROR while that node has
not loaded the ACLs."""


class MonotonicClock:
    """A clock whose time, in milliseconds since 1970, never goes back."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._base_ms = clock.now_ms() - loop.time() * 1000

    def now_ms(self) -> int:
        """Return the time in ms since 1970."""
        return int(self._base_ms + self._loop.time() * 1000)


class RaftDriver:
    """Runs raft on one node: passes time, requests and responses to raft, and carries out what raft returns.

    store: writes quorum-state. in_thread(call): runs a function that waits for the disk. advance(): called after each
    event of raft. failed(error): called when this node has left the quorum because of an error.
    """

    def __init__(
        self,
        raft: Raft,
        log: PartitionLog,
        store: QuorumStateFile,
        network: Network,
        clock: Clock,
        *,
        in_thread: Callable[[Callable[[], object]], Awaitable[None]],
        advance: Callable[[], None],
        failed: Callable[[Exception], None],
    ) -> None:
        self.raft = raft
        self._log, self._store, self._network, self._config = log, store, network, raft.config
        self._loop = asyncio.get_running_loop()
        self._clock = MonotonicClock(clock, self._loop)
        self._in_thread, self._advance, self._failed = in_thread, advance, failed
        self._tokens = count(1)
        self._pending: dict[int, asyncio.Future[Answer]] = {}
        self._channels: dict[tuple[str, int, bool], Channel] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._flushing: asyncio.Task[None] | None = None
        self._saving: asyncio.Task[None] | None = None
        self._held: deque[tuple[int, Outcome]] = deque()  # (version of quorum-state to be durable first, outcome)
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False
        self._named: dict[str, float] = {}

    @property
    def now_ms(self) -> int:
        """The current time for raft, in ms since 1970; it never goes back."""
        return self._clock.now_ms()

    def start(self) -> None:
        """Take part in the quorum. First flush the log: raft takes all records in it for durable, but a killed process
        may have left some that were not flushed."""
        self._log.flush(self.now_ms)
        self.do(lambda: self.raft.start(self.now_ms))

    def handle(self, request: Request) -> asyncio.Future[Answer]:
        """Return a future with the response to another node's request."""
        token = next(self._tokens)
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._pending[token] = answer
        if self._is_over:
            self._hang_up()
        self.do(lambda: self.raft.handle(token, request, self.now_ms))
        return answer

    def append(self, batches: Sequence[Records]) -> None:
        """Append batches as the leader. Raises NotLeader."""
        self.do(lambda: self.raft.append(batches, self.now_ms))

    def do(self, call: Callable[[], Outcome]) -> None:
        """Call `call`, a function that passes an event to raft. Carry out the Outcome that `call` returns, once the
        quorum-state that raft has saved by then is durable. If `call` or a write fails, leave the quorum, and report
        the error to `failed`."""
        self._guarded(lambda: self._take(call()))

    def _take(self, outcome: Outcome) -> None:
        self._held.append((self._store.version, outcome))
        self._settle()
        self._advance()
        self._flush_soon()

    def _guarded(self, call: Callable[[], None]) -> None:
        if self._is_over:
            return
        try:
            call()
        except Exception as error:  # noqa: BLE001  (after any error raft's promises cannot be kept)
            self.end()
            self._failed(error)
            return
        self._set_timer()

    def _settle(self) -> None:
        """Send the answers and requests that raft has made, once the quorum-state which they depend on is durable. If
        some still wait, begin to write their quorum-state."""
        if not self._store.waits and self._store.durable_version < self._store.version:
            self._store.write()
        while self._held and self._held[0][0] <= self._store.durable_version:
            self._carry_out(self._held.popleft()[1])
        if self._held and self._saving is None:
            self._saving = self._loop.create_task(self._save())

    def _carry_out(self, outcome: Outcome) -> None:
        for token, answer in outcome.answers:
            waiting = self._pending.pop(token, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(answer)
        for send in outcome.messages:
            self._exchange_soon(send)
        for doubt in outcome.doubts:
            self._warn("doubt", f"the quorum: {doubt}")

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self.raft.deadline_ms()
        if deadline_ms is not None and not self._is_over:
            delay_s = max(0, deadline_ms - self.now_ms) / 1000
            self._timer = self._loop.call_later(delay_s, self._tick)

    def _tick(self) -> None:
        self._timer = None
        self.do(lambda: self.raft.tick(self.now_ms))

    # the disk

    def _flush_soon(self) -> None:
        if self._flushing is None and self._log.log_end_offset > self.raft.flushed_offset and not self._is_over:
            self._flushing = self._loop.create_task(self._flush())

    async def _save(self) -> None:
        try:
            await self._in_thread(self._store.write)
        except Exception as error:  # noqa: BLE001  (without its vote on disk this node must not take part)
            self.end()
            self._failed(error)
            return
        finally:
            self._saving = None
        self._guarded(self._settle)

    async def _flush(self) -> None:
        try:
            flush = self._log.begin_flush()
            if flush is not None:
                await self._in_thread(flush.run)
                self._log.end_flush(flush, self.now_ms)
        except Exception as error:  # noqa: BLE001  (a log that cannot be flushed is not to be used any more)
            self.end()
            self._failed(error)
            return
        finally:
            self._flushing = None
        self.do(lambda: self.raft.flushed(self._log.recovery_point, self.now_ms))

    # sending requests to other nodes of the quorum

    def _exchange_soon(self, send: Send) -> None:
        task = begin(self._exchange(send), "an exchange with another node of the quorum failed")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _exchange(self, send: Send) -> None:
        wire = WIRES[type(send.request)]
        address = f"{send.to.host}:{send.to.port}"
        answer: Answer | None = None
        try:
            channel = self._channel(send)
            timeout_s = self._config.request_timeout_ms / 1000
            response = await channel.call(wire.api, wire.version, timeout_s=timeout_s, **wire.fields(send.request))
            answer = wire.answer(response, self._config.listener)
        except VersionMismatch as error:
            self._warn(address, f"the quorum's node at {address} has no common version: {error}")
        except LoginFailed:
            pass  # the network has logged the error
        except Unanswered as error:
            self._warn(address, f"the quorum's node at {address} does not answer: {error}")
        except Exception as error:
            self._warn(
                address, f"the quorum's node at {address} cannot be sent a request: {type(error).__name__}: {error}"
            )
            logger.debug("%s", address, exc_info=error)
        else:
            self._named.pop(address, None)
            if answer.top_error == ErrorCode.INCONSISTENT_CLUSTER_ID:
                own = self._config.cluster_id
                self._warn(address, f"INCONSISTENT_CLUSTER_ID: the node at {address} is not of cluster {own}")
            elif answer.top_error in DENIED:
                reason = "refuses this one, which must be among super.users there if there is an authorizer"
                self._warn(address, f"{answer.top_error.name}: the node at {address} {reason}")
        self.do(lambda: self.raft.answered(send, answer, self.now_ms))

    def _channel(self, send: Send) -> Channel:
        key = send.to.host, send.to.port, isinstance(send.request, Fetch)
        channel = self._channels.get(key)
        if channel is None:
            name = f"raft-client-{self._config.node_id}"
            channel = self._channels[key] = self._network.channel(send.to.host, send.to.port, name)
        return channel

    def _warn(self, address: str, reason: str) -> None:
        """Log a problem with another node of the quorum, for each `address` at most once in LOG_AGAIN_S seconds."""
        now = self._loop.time()
        if now - self._named.get(address, -LOG_AGAIN_S) >= LOG_AGAIN_S:
            self._named[address] = now
            logger.warning("%s", reason)

    # shutdown

    async def shut_down(self, timeout_ms: int) -> None:
        """If this node is the leader, resign, and keep running until another node leads or timeout_ms is over. Then
        call `end`."""
        deadline = self._loop.time() + timeout_ms / 1000
        if not self.raft.is_leader:
            deadline = 0.0
        self.do(lambda: self.raft.shutdown(self.now_ms, timeout_ms))
        while not (self._is_over or self.raft.is_shut_down) and self._loop.time() < deadline:  # noqa: ASYNC110  (nothing sets an event at the deadline)
            await asyncio.sleep(0.01)
        self.end()
        if at_work := [each for each in (self._flushing, self._saving) if each is not None]:
            await asyncio.wait(at_work)
        if self._store.durable_version < self._store.version:
            try:
                await self._in_thread(self._store.write)
            except OSError as error:
                logger.warning("quorum-state is as it was before the shutdown: %s", error)

    def end(self) -> None:
        """Leave the quorum: send no more requests and no more responses."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks:
            task.cancel()
        for channel in self._channels.values():
            channel.close()
        self._hang_up()

    def _hang_up(self) -> None:
        for waiting in self._pending.values():
            if not waiting.done():
                waiting.set_exception(HangUp("this node takes part in the quorum no more"))
        self._pending.clear()
