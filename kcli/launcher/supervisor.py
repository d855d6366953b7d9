"""Start the processes of the nodes, watch them, restart those that die, and stop them together.

    stopped -> starting -> running -> stopping -> stopped
                  |  ^        |  ^- paused (SIGSTOP) -^
                  v  |        v
                  dead: the other nodes are notified; restarted after 0.5 s, then 1, 2, ... 30 s

The delay starts anew at 0.5 s for a node that has run for 30 s. To stop the cluster, every broker does its controlled
shutdown first, which needs the quorum of all controllers. Then the processes end, that of the active controller last:
the other controllers have a leader to the end, and the active controller does not wait for a successor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from enum import StrEnum
from itertools import cycle
from pathlib import Path
from typing import Any

from kcli.broker.process.unattended import begin
from kcli.errors import KcliError
from kcli.launcher.channel import Channel
from kcli.launcher.fork_server import ForkServer
from kcli.launcher.output import NodeOutput
from kcli.launcher.plan import NodePlan

log = logging.getLogger("kcli.launcher")

FIRST_BACKOFF_S, MAX_BACKOFF_S, FORGIVEN_AFTER_S = 0.5, 30.0, 30.0
BROKERS_STOP_S, PROCESS_STOPS_S = 60.0, 30.0
NEXT_CANDIDATE_S = 0.2


class State(StrEnum):
    """The state of a node; the module's docstring shows how it changes."""

    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    DEAD = "dead"


class NotReady(KcliError):
    """A node has ended, or was stopped, before it became ready."""


class Refused(KcliError):
    """The node's state does not allow the request, or no such node exists."""


class Child:
    """A node, and its process while it is running. leads: whether the node, once its broker had stopped,
    reported that it was the active controller."""

    def __init__(self, plan: NodePlan, config: Path) -> None:
        self.plan = plan
        self.config = config
        self.state = State.STOPPED
        self.pid: int | None = None
        self.started_ms = 0
        self.restarts = 0
        self.last_exit: int | None = None
        self.failures = 0
        self.channel: Channel | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.stays_down = False
        self.new_process()

    def new_process(self) -> None:
        """Make new futures for the events of the node's next process: it listens, is ready, has stopped its broker, has
        exited."""
        loop = asyncio.get_running_loop()
        self.leads = False
        self.listening: asyncio.Future[None] = loop.create_future()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.broker_stopped: asyncio.Future[None] = loop.create_future()
        self.exited: asyncio.Future[None] = loop.create_future()

    @property
    def id(self) -> int:
        """The node id."""
        return self.plan.id


class Supervisor:
    """All nodes of a cluster.

    config_of: returns the path of the server.properties of a node id. output: returns the NodeOutput for a new process
    of a node id. restart: whether to restart nodes that die.
    """

    def __init__(
        self,
        plans: Sequence[NodePlan],
        config_of: Callable[[int], Path],
        forks: ForkServer,
        output: Callable[[int], NodeOutput],
        *,
        restart: bool,
    ) -> None:
        self.children = {each.id: Child(each, config_of(each.id)) for each in plans}
        self.failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Set to the reason why the launcher must end: all nodes have ended, or the fork server has."""
        self._forks, self._output = forks, output
        self._wants_restarts, self._restarts = restart, False
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        forks.on_exit = self._exited
        forks.on_death = lambda: self._fail("the process that starts nodes has ended")

    # starting

    async def start_all(self) -> None:
        """Start a process for every node. Raises ForkServerDied."""
        for each in self.children.values():
            await self._start(each)

    async def all_ready(self) -> None:
        """Wait until every node is ready. Raises NotReady if one has ended. Dead nodes are restarted only after this
        has returned."""
        hastened = begin(self._hasten(), "no controller is made to stand for election")
        try:
            await asyncio.gather(*(each.ready for each in self.children.values()))
            self._restarts = self._wants_restarts
        finally:
            hastened.cancel()

    async def _hasten(self) -> None:
        """Shorten the first election: once all controllers listen, make each controller in turn a candidate, again and
        again until this task is cancelled, so that none waits for an election timeout."""
        voters = [each for each in self.children.values() if each.plan.is_controller]
        await asyncio.gather(*(each.listening for each in voters))
        for each in cycle(voters):
            if each.channel is not None:
                each.channel.say(elect=True)
            await asyncio.sleep(NEXT_CANDIDATE_S)

    async def _start(self, child: Child) -> None:
        if child.timer is not None:
            child.timer.cancel()
            child.timer = None
        child.new_process()
        child.ready.add_done_callback(lambda done: done.cancelled() or done.exception())
        child.state, child.stays_down = State.STARTING, False
        child.channel = channel = Channel(lambda message: self._take_message(child, message))
        child.started_ms = int(time.time() * 1000)
        try:
            with closing(channel.theirs), closing(self._output(child.id)) as output:
                child.pid = await self._forks.start(child.id, child.config, channel.theirs, output.writing_end)
        except BaseException:
            channel.close()
            child.channel, child.state = None, State.DEAD
            raise
        log.debug("node %d has pid %d", child.id, child.pid)
        self._notify_others(child, started=child.id)

    def _take_message(self, child: Child, message: dict[str, Any]) -> None:
        if "listening" in message:
            _done(child.listening)
        if "ready" in message:
            child.state = State.RUNNING if child.state == State.STARTING else child.state
            _done(child.ready)
        if "broker_stopped" in message:
            child.leads = message.get("leads", False)
            _done(child.broker_stopped)

    # processes that have ended

    def _exited(self, pid: int, status: int) -> None:
        child = next((each for each in self.children.values() if each.pid == pid), None)
        if child is None:
            return
        self._notify_others(child, died=child.id)
        assert child.channel is not None, "it had a process"
        child.channel.close()
        was, child.pid, child.channel, child.last_exit = child.state, None, None, status
        how = _ended_text(status)
        if not child.ready.done():
            child.ready.set_exception(NotReady(f"node {child.id} has ended before it was ready: {how}"))
        _done(child.broker_stopped)
        _done(child.exited)
        if was == State.STOPPING:
            child.state = State.STOPPED
            log.debug("node %d (pid %d) has stopped: %s", child.id, pid, how)
            return
        child.state = State.DEAD
        if self._is_stopping or child.stays_down or not self._restarts:
            log.warning("node %d (pid %d) has ended: %s", child.id, pid, how)
            self._fail_if_all_dead()
            return
        self._start_later(child, f"node {child.id} (pid {pid}) has ended: {how}")

    def _start_later(self, child: Child, reason: str) -> None:
        if time.time() * 1000 - child.started_ms > FORGIVEN_AFTER_S * 1000:
            child.failures = 0
        backoff_s = min(MAX_BACKOFF_S, FIRST_BACKOFF_S * 2**child.failures)
        child.failures += 1
        log.warning("%s; it is started again in %g s", reason, backoff_s)
        child.timer = asyncio.get_running_loop().call_later(backoff_s, self._start_again, child)

    def _start_again(self, child: Child) -> None:
        child.timer = None
        child.restarts += 1

        def failed(_: BaseException) -> None:
            if not self._is_stopping:
                self._start_later(child, f"node {child.id} could not be started")

        task = begin(self._start(child), f"node {child.id} is not started", failed)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _fail_if_all_dead(self) -> None:
        if not self._is_stopping and all(each.state == State.DEAD for each in self.children.values()):
            self._fail("all nodes have ended")

    def _fail(self, reason: str) -> None:
        if not self.failed.done():
            self.failed.set_result(reason)

    def _notify_others(self, child: Child, **fields: object) -> None:
        for each in self.children.values():
            if each is not child and each.channel is not None:
                each.channel.say(**fields)

    # commands for one node of the cluster

    def child(self, node: int) -> Child:
        """Return a node by its id. Raises Refused if there is none."""
        found = self.children.get(node)
        if found is None:
            known = ", ".join(map(str, self.children))
            raise Refused(f"no node {node}: there are {known}")
        return found

    async def start(self, node: int) -> None:
        """Start a node that has no process, and wait until it is ready. Raises Refused if the node has one,
        NotReady."""
        child = self.child(node)
        if child.pid is not None or child.state == State.STARTING:
            raise Refused(f"node {node} is {child.state}")
        await self._start(child)
        await asyncio.shield(child.ready)

    async def stop(self, node: int) -> None:
        """Stop a node with SIGTERM, and cancel its restart if it is dead and waits for one. Raises Refused if there is
        no such node."""
        child = self.child(node)
        if child.timer is not None:
            child.timer.cancel()
            child.timer = None
            child.state = State.STOPPED
        if child.pid is None:
            child.state = State.STOPPED
            return
        await self._end(child)

    async def restart(self, node: int) -> None:
        """Stop a node with SIGTERM if it runs, start it, and wait until it is ready. Raises Refused, NotReady."""
        child = self.child(node)
        await self.stop(node)
        child.failures = 0
        child.restarts += 1
        await self.start(node)

    async def kill(self, node: int, *, stays_down: bool) -> None:
        """Kill a node's process with SIGKILL; it is restarted like any that dies, unless `stays_down`. Raises
        Refused."""
        child = self._running(node)
        child.stays_down = stays_down
        self._signal(child, signal.SIGKILL)
        await asyncio.shield(child.exited)

    def pause(self, node: int) -> None:
        """Pause a node's process with SIGSTOP: its connections stay open, it answers nothing. Raises Refused."""
        child = self._running(node)
        self._signal(child, signal.SIGSTOP)
        child.state = State.PAUSED

    def resume(self, node: int) -> None:
        """Resume a paused process with SIGCONT. Raises Refused."""
        child = self._running(node)
        self._signal(child, signal.SIGCONT)
        if child.state == State.PAUSED:
            child.state = State.RUNNING if child.ready.done() else State.STARTING

    def _running(self, node: int) -> Child:
        child = self.child(node)
        if child.pid is None:
            raise Refused(f"node {node} is {child.state}: it has no process")
        return child

    # stopping

    async def stop_all(self) -> None:
        """Stop the cluster: controlled shutdown of the brokers, then SIGTERM, to the active controller last."""
        self._is_stopping = True
        for each in self.children.values():
            if each.timer is not None:
                each.timer.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        running = [each for each in self.children.values() if each.pid is not None]
        up = [each for each in running if each.ready.done()]
        for each in running:
            self._signal(each, signal.SIGCONT)
            each.state = State.STOPPING
        for each in up:
            assert each.channel is not None, "it runs"
            each.channel.say(stop="broker")
        if up:
            _, late = await asyncio.wait([each.broker_stopped for each in up], timeout=BROKERS_STOP_S)
            if late:
                log.warning("%d brokers have not stopped within %g s", len(late), BROKERS_STOP_S)
        for is_last in (False, True):
            await asyncio.gather(*(self._end(each) for each in running if each.leads == is_last))

    async def _end(self, child: Child) -> None:
        child.state = State.STOPPING
        self._signal(child, signal.SIGTERM)
        self._signal(child, signal.SIGCONT)
        try:
            await asyncio.wait_for(asyncio.shield(child.exited), PROCESS_STOPS_S)
        except TimeoutError:
            log.error("node %d has not stopped within %g s: killed", child.id, PROCESS_STOPS_S)  # noqa: TRY400 (a timeout has no useful traceback)
            self._signal(child, signal.SIGKILL)
            await child.exited

    def kill_all(self) -> None:
        """Kill all processes with SIGKILL."""
        for each in self.children.values():
            self._signal(each, signal.SIGKILL)

    def _signal(self, child: Child, number: signal.Signals) -> None:
        if child.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(child.pid, number)


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


def _ended_text(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
