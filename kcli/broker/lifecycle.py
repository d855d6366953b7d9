"""A broker's life as its controller sees it.

    start      register (again and again, until initial.broker.registration.timeout.ms is over), heartbeats until it is
               unfenced, having read the metadata log as far as its registration; say which directories are cordoned
    run        a heartbeat every broker.heartbeat.interval.ms, at once where a directory failed or was cordoned; where
               replicas lie that were placed in other directories than the metadata says
    shutdown   heartbeats that say so, until the controller has given the broker's leaderships away and lets it go; the
               others tell at once that they have read of it

A broker that is all of its cluster sends a heartbeat only where it has something to say. One that was fenced, because
it was not heard of in time, is unfenced with its next heartbeat. Source: BrokerLifecycleManager, AssignmentsManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

from kcli.broker.controller.asking import Asking
from kcli.broker.network.peers import Unanswered
from kcli.broker.unattended import begin
from kcli.errors import KcliError, error_text
from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.heartbeats import Heartbeat, HeartbeatAnswer
from kcli.metadata.metadata_version import CORDONED_DIRECTORIES
from kcli.metadata.registration import Broker as BrokerState
from kcli.metadata.registration import Endpoint
from kcli.metadata.registration_control import NO_EPOCH
from kcli.metadata.result import ErrorCode, Refused

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.logs.directories import LogDirs

log = logging.getLogger("kcli.broker")

PLAINTEXT: Final = 0
CATCH_UP_S: Final = 0.01
GOING_S: Final = 0.05
DUPLICATE_S: Final = 0.25
"""How long to wait for the session of the process before this one to end."""
ASK_S: Final = 5.0
GIVE_UP_S: Final = 5.0
"""A broker that wants to go does not wait longer for controllers that do not answer at all."""
LAST_GIVES_UP_S: Final = 1.0
"""And not that long where all of them have gone before it."""
SHUTDOWN_S: Final = 300.0
REASONS: Final = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "another process has this node id, or had it a moment ago",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the controller is of another cluster",
    ErrorCode.INVALID_REGISTRATION: "another broker has one of its log directories, or it has none",
    ErrorCode.UNSUPPORTED_VERSION: "it does not support a feature of the cluster",
}
"""Of errors that are answered without a word."""
ASSIGNMENTS_MAX: Final = 2250
"""Of one request, as Kafka has it: half a megabyte."""


class NotRegistered(KcliError):
    """No controller took the broker's registration in time."""


class BrokerLifecycle:
    """See above. All of it on the event loop's thread.

    epoch: of the broker as it is registered, NO_EPOCH before. must_stop: hears why the broker cannot go on.
    """

    def __init__(
        self,
        broker: Broker,
        dirs: LogDirs,
        *,
        must_stop: Callable[[str], None] = lambda _: None,
        new_id: Callable[[], UUID] = uuid4,
    ) -> None:
        self.epoch = NO_EPOCH
        self._broker = broker
        self._dirs = dirs
        self._must_stop = must_stop
        self._incarnation_id = new_id()
        self._asking = Asking(broker)
        self._loop = asyncio.get_running_loop()
        self._interval_s = broker.config.broker_heartbeat_interval_ms / 1000
        self._task: asyncio.Task[None] | None = None
        self._telling: asyncio.Task[None] | None = None
        self._soon = asyncio.Event()
        self._gone: asyncio.Future[None] | None = None
        self._is_up = False
        self._offline: dict[UUID, asyncio.TimerHandle | None] = {}
        self._assignments: dict[tuple[UUID, int], UUID] = {}
        self._problem = ""

    # starting

    async def start(self, previous_epoch: int) -> None:
        """Register, and come back unfenced. previous_epoch: at the last clean shutdown, NO_EPOCH where there was none.

        Raises NotRegistered.
        """
        await self._register(previous_epoch)
        while True:
            answer = await self._try_to_beat()
            if answer is not None and not answer.is_fenced:
                break
            await self._see_own_registration()
        self._is_up = True
        await self._try_to_beat()

        def failed(error: BaseException) -> None:
            self._must_stop(f"heartbeats have failed: {error_text(error)}")

        self._task = begin(self._beat_again_and_again(), "heartbeats have failed", failed)
        self._tell_assignments()

    async def _register(self, previous_epoch: int) -> None:
        broker, config = self._broker, self._broker.config
        state = BrokerState(
            id=broker.node_id,
            epoch=NO_EPOCH,
            incarnation_id=self._incarnation_id,
            endpoints={name: Endpoint(name, host, port, PLAINTEXT) for name, (host, port) in broker.advertised.items()},
            features=SUPPORTED_FEATURES,
            rack=config.broker_rack,
            directories=tuple(each.id for each in self._dirs.online),
        )
        deadline = self._loop.time() + config.number("initial.broker.registration.timeout.ms") / 1000
        while True:
            left_s = deadline - self._loop.time()
            if left_s <= 0:
                raise NotRegistered(f"broker {broker.node_id} was not registered in time: {self._problem}")
            wait_s = self._interval_s
            try:
                self.epoch = await self._asking.register_broker(state, previous_epoch, min(ASK_S, left_s))
            except Unanswered as error:
                self._warn(f"broker {broker.node_id} is not registered yet: {error}")
            except Refused as refused:
                code, message = refused.error
                reason = REASONS.get(code, message)
                self._warn(f"broker {broker.node_id} is not registered: {reason} ({code.name})")
                if code is ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                    wait_s = DUPLICATE_S
            else:
                self._problem = ""
                return
            await asyncio.sleep(max(min(wait_s, deadline - self._loop.time()), 0))

    async def _see_own_registration(self) -> None:
        """Wait until the image has it, but not for long."""
        image = self._broker.image
        deadline = self._loop.time() + self._interval_s
        while self._loop.time() < deadline:
            await asyncio.sleep(CATCH_UP_S)
            known = image.brokers.get(self._broker.node_id)
            if known is not None and known.epoch == self.epoch:
                return

    # heartbeats

    async def _beat_again_and_again(self) -> None:
        silent_since: float | None = None
        while True:
            await self._wait()
            began = self._loop.time()
            answer = await self._try_to_beat()
            silent_since = None if answer is not None else began if silent_since is None else silent_since
            if self._gone is not None:
                give_up_s = LAST_GIVES_UP_S if self._is_last() else GIVE_UP_S
                gives_up = silent_since is not None and self._loop.time() - silent_since > give_up_s
                if gives_up:
                    log.warning("no controller answers: shutting down all the same")
                if gives_up or (answer is not None and answer.should_shut_down):
                    self._gone.set_result(None)
                    return

    async def _wait(self) -> None:
        """Until the next heartbeat is due."""
        wait_s = None if self._broker.is_alone else self._interval_s
        if self._gone is not None:
            wait_s = 0 if self._broker.is_alone else GOING_S
        try:
            async with asyncio.timeout(wait_s):
                await self._soon.wait()
        except TimeoutError:
            pass
        self._soon.clear()

    async def _try_to_beat(self) -> HeartbeatAnswer | None:
        broker, offline = self._broker, tuple(self._offline)
        is_cordonable = self._is_up and broker.image.metadata_version >= CORDONED_DIRECTORIES
        beat = Heartbeat(
            broker_id=broker.node_id,
            broker_epoch=self.epoch,
            metadata_offset=broker.image.offset,
            wants_shutdown=self._gone is not None,
            offline=offline,
            cordoned=self._cordoned() if is_cordonable else None,
        )
        try:
            timeout_s = min(ASK_S, broker.config.broker_session_timeout_ms / 2000)
            if self._gone is not None and self._is_last():
                timeout_s = LAST_GIVES_UP_S
            answer = await self._asking.heartbeat(beat, timeout_s)
        except Unanswered as error:
            self._warn(f"no answer to heartbeats: {error}")
        except Refused as refused:
            self._warn(f"heartbeats are refused, {refused.error.code.name}: {refused.error.message}")
        except KcliError as error:
            if not self._is_up:
                raise
            self._warn(f"no heartbeat: {error}")
        else:
            self._problem = ""
            for directory in offline:
                if (timer := self._offline[directory]) is not None:
                    timer.cancel()
                    self._offline[directory] = None
            return answer
        return None

    def _is_last(self) -> bool:
        """Have all other controllers, as brokers, gone or said that they go?"""
        image, own = self._broker.image, self._broker.node_id
        others = [image.brokers.get(each) for each in image.controllers if each != own]
        return bool(others) and all(
            each is not None and (each.fenced or each.in_controlled_shutdown) for each in others
        )

    def others_changed(self, brokers: Iterable[int]) -> None:
        """Brokers are not as they were: one that wants to go waits until all have told that they know. Kafka's tell it
        with their next heartbeat."""
        own, image = self._broker.node_id, self._broker.image
        if not self._is_up or self._broker.is_alone:
            return
        for each in brokers:
            state = image.brokers.get(each)
            if each != own and state is not None and state.in_controlled_shutdown and not state.fenced:
                self._soon.set()

    def _warn(self, problem: str) -> None:
        """Once, as long as it is the same."""
        if problem != self._problem:
            log.warning("%s", problem)
        self._problem = problem

    # directories

    def _cordoned(self) -> list[UUID]:
        return [each.id for each in self._dirs.online if self._broker.logs.is_cordoned(each)]

    def configured(self) -> None:
        """The broker's configuration has changed, and with it perhaps which directories are cordoned."""
        known = self._broker.image.brokers.get(self._broker.node_id)
        if self._is_up and known is not None and set(known.cordoned or ()) != set(self._cordoned()):
            self._soon.set()

    def directory_failed(self, directory_id: UUID) -> None:
        """Tell the controller at once; a broker that cannot tell it in log.dir.failure.timeout.ms must not go on."""
        if self.epoch == NO_EPOCH or directory_id in self._offline:
            return

        def give_up() -> None:
            self._must_stop("the controller could not be told of a log directory that failed")

        timeout_s = self._broker.config.log_dir_failure_timeout_ms / 1000
        self._offline[directory_id] = self._loop.call_later(timeout_s, give_up)
        self._soon.set()

    def assigned(self, topic_id: UUID, number: int, directory_id: UUID) -> None:
        """A partition was placed in another directory than the metadata says: tell it, with others, soon."""
        self._assignments[topic_id, number] = directory_id
        if self._is_up and self._telling is None:
            self._loop.call_soon(self._tell_assignments)

    def _tell_assignments(self) -> None:
        if self._assignments and self._telling is None and self._is_up:
            self._telling = begin(self._tell(), "the controller is not told where replicas lie")

    async def _tell(self) -> None:
        """Tell of all of them; what was not taken is told again."""
        try:
            await self._tell_all()
        finally:
            self._telling = None

    async def _tell_all(self) -> None:
        while self._assignments and self._is_up:
            keys = list(self._assignments)[:ASSIGNMENTS_MAX]
            told = {key: self._assignments.pop(key) for key in keys}
            directories: dict[UUID, dict[UUID, list[int]]] = {}
            for (topic_id, number), directory in told.items():
                directories.setdefault(directory, {}).setdefault(topic_id, []).append(number)
            assignments = [(directory, list(topics.items())) for directory, topics in directories.items()]
            try:
                await self._asking.assign_replicas(self._broker.node_id, self.epoch, assignments, ASK_S)
            except Exception as error:  # noqa: BLE001  (whatever it is, it is tried again)
                self._warn(f"the controller is not told where replicas lie: {error}")
                self._assignments = told | self._assignments
                if self._broker.is_alone:
                    break
                await asyncio.sleep(self._interval_s)

    # going

    async def shut_down(self) -> None:
        """Have the controller give away what this broker leads, and be fenced. Back at once where it is not up, and
        with controlled.shutdown.enable=false."""
        if self._task is None or not self._is_up or not self._broker.config.controlled_shutdown_enable:
            return
        if self._gone is None:
            self._gone = self._loop.create_future()
            self._soon.set()
        waits = {asyncio.ensure_future(self._gone), self._task}
        done, _ = await asyncio.wait(waits, timeout=SHUTDOWN_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            log.warning("the controller did not let the broker go: shutting down all the same")

    def stop(self) -> None:
        """No more heartbeats."""
        self._is_up = False
        for task in (self._task, self._telling):
            if task is not None:
                task.cancel()
        for timer in self._offline.values():
            if timer is not None:
                timer.cancel()
