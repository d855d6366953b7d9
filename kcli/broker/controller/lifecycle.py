"""A broker's lifecycle: its registration with the controller, heartbeats, log directories, controlled shutdown.

    start      register, with retries for initial.broker.registration.timeout.ms; send heartbeats until the broker has
               read the metadata log up to its registration and is unfenced; report the cordoned directories
    run        send a heartbeat every broker.heartbeat.interval.ms, and at once after a directory failed or was
               cordoned; report the directories of replicas that lie in another directory than the metadata says
    shutdown   send heartbeats with want_shut_down, until the controller has elected other leaders for the broker's
               partitions and allows the shutdown; the other brokers send a heartbeat as soon as they have applied
               the metadata record of the controlled shutdown

A broker that is the only node of its cluster sends a heartbeat only after a change. A broker that was fenced for an
expired session is unfenced with its next heartbeat. Source: BrokerLifecycleManager, AssignmentsManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Final, Protocol
from uuid import UUID, uuid4

from kcli.broker.controller.registration import PROTOCOL_IDS
from kcli.broker.network.peers import Unanswered
from kcli.broker.process.unattended import begin
from kcli.errors import KcliError, error_text
from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.heartbeats import Heartbeat, HeartbeatAnswer
from kcli.metadata.metadata_version import CORDONED_DIRECTORIES
from kcli.metadata.registration import Broker as BrokerState
from kcli.metadata.registration import Endpoint
from kcli.metadata.registration_control import NO_EPOCH
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode
from kcli.protocol.topic_partition import TopicIdPartition

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.controller.requests import ControllerRequests
    from kcli.broker.log_dirs.directories import LogDir, LogDirs
    from kcli.metadata.image import MetadataImage

log = logging.getLogger("kcli.broker")

CATCH_UP_S: Final = 0.01
SHUTDOWN_INTERVAL_S: Final = 0.05
DUPLICATE_S: Final = 0.25
"""The delay, in seconds, until the broker registers again after DUPLICATE_BROKER_REGISTRATION: the session of its
previous process may not have expired yet."""
REQUEST_TIMEOUT_S: Final = 5.0
GIVE_UP_S: Final = 5.0
"""The time, in seconds, after which a controlled shutdown gives up if no controller responds."""
LAST_GIVES_UP_S: Final = 1.0
"""The time, in seconds, used in place of GIVE_UP_S if all other controllers are shutting down or fenced."""
SHUTDOWN_S: Final = 300.0
REASONS: Final = {
    ErrorCode.DUPLICATE_BROKER_REGISTRATION: "another process has this node id, or had it a moment ago",
    ErrorCode.INCONSISTENT_CLUSTER_ID: "the controller is of another cluster",
    ErrorCode.INVALID_REGISTRATION: "another broker has one of its log directories, or it has none",
    ErrorCode.UNSUPPORTED_VERSION: "it does not support a feature of the cluster",
}
"""Error code -> an explanation, as the response has no message."""
ASSIGNMENTS_MAX: Final = 2250
"""The greatest number of replicas in one AssignReplicasToDirs request, as in Kafka: half a megabyte."""


class NotRegistered(KcliError):
    """No controller has registered the broker within initial.broker.registration.timeout.ms."""


class OwnLogs(Protocol):
    """The methods of the log manager that the lifecycle calls."""

    dirs: LogDirs

    def is_cordoned(self, directory: LogDir) -> bool:
        """Whether the directory is cordoned, and so gets no new partitions."""


class BrokerLifecycle:
    """The registration and the heartbeats of one broker. Used on the event loop's thread.

    epoch: the broker epoch, NO_EPOCH before the registration.
    advertised: listener -> the host and port for clients.
    is_alone: whether the broker is the only node of its cluster.
    must_stop: called with the reason if the broker cannot continue.
    new_id: makes the incarnation id of the broker; tests replace it.
    """

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        logs: OwnLogs,
        requests: ControllerRequests,
        advertised: Mapping[str, tuple[str, int]],
        *,
        is_alone: bool,
        must_stop: Callable[[str], None] = lambda _: None,
        new_id: Callable[[], UUID] = uuid4,
    ) -> None:
        self.epoch = NO_EPOCH
        self._config, self._image, self._logs = config, image, logs
        self._node_id = config.node_id
        self._advertised = advertised
        self._is_alone = is_alone
        self._must_stop = must_stop
        self._incarnation_id = new_id()
        self._requests = requests
        self._loop = asyncio.get_running_loop()
        self._interval_s = config.broker_heartbeat_interval_ms / 1000
        self._task: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        self._soon = asyncio.Event()
        self._shutdown: asyncio.Future[None] | None = None
        self._is_up = False
        self._offline: dict[UUID, asyncio.TimerHandle | None] = {}
        self._assignments: dict[TopicIdPartition, UUID] = {}
        self._problem = ""

    # starting

    async def start(self, previous_epoch: int) -> None:
        """Register, and return when the broker is unfenced. previous_epoch: the broker epoch at the last clean
        shutdown, NO_EPOCH for none.

        Raises NotRegistered.
        """
        await self._register(previous_epoch)
        while True:
            answer = await self._try_to_beat()
            if answer is not None and not answer.is_fenced:
                break
            await self._await_own_registration()
        self._is_up = True
        await self._try_to_beat()

        def failed(error: BaseException) -> None:
            self._must_stop(f"heartbeats have failed: {error_text(error)}")

        self._task = begin(self._beat_again_and_again(), "heartbeats have failed", failed)
        self._report_soon()

    async def _register(self, previous_epoch: int) -> None:
        config, node_id = self._config, self._node_id
        state = BrokerState(
            id=node_id,
            epoch=NO_EPOCH,
            incarnation_id=self._incarnation_id,
            endpoints={
                name: Endpoint(name, host, port, PROTOCOL_IDS[config.protocols[name]])
                for name, (host, port) in self._advertised.items()
            },
            features=SUPPORTED_FEATURES,
            rack=config.broker_rack,
            directories=tuple(each.id for each in self._logs.dirs.online),
        )
        deadline = self._loop.time() + config.number("initial.broker.registration.timeout.ms") / 1000
        while True:
            left_s = deadline - self._loop.time()
            if left_s <= 0:
                raise NotRegistered(f"broker {node_id} was not registered in time: {self._problem}")
            wait_s = self._interval_s
            try:
                self.epoch = await self._requests.register_broker(state, previous_epoch, min(REQUEST_TIMEOUT_S, left_s))
            except Unanswered as error:
                self._warn(f"broker {node_id} is not registered yet: {error}")
            except Refused as refused:
                code, message = refused.error
                reason = REASONS.get(code, message)
                self._warn(f"broker {node_id} is not registered: {reason} ({code.name})")
                if code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                    wait_s = DUPLICATE_S
            else:
                self._problem = ""
                return
            await asyncio.sleep(max(min(wait_s, deadline - self._loop.time()), 0))

    async def _await_own_registration(self) -> None:
        """Wait until the image has this broker's registration, at most for a heartbeat interval."""
        image = self._image
        deadline = self._loop.time() + self._interval_s
        while self._loop.time() < deadline:
            await asyncio.sleep(CATCH_UP_S)
            known = image.brokers.get(self._node_id)
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
            if self._shutdown is not None:
                give_up_s = LAST_GIVES_UP_S if self._is_last() else GIVE_UP_S
                gives_up = silent_since is not None and self._loop.time() - silent_since > give_up_s
                if gives_up:
                    log.warning("no controller answers: shutting down all the same")
                if gives_up or (answer is not None and answer.should_shut_down):
                    self._shutdown.set_result(None)
                    return

    async def _wait(self) -> None:
        """Wait until the next heartbeat is due."""
        wait_s = None if self._is_alone else self._interval_s
        if self._shutdown is not None:
            wait_s = 0 if self._is_alone else SHUTDOWN_INTERVAL_S
        try:
            async with asyncio.timeout(wait_s):
                await self._soon.wait()
        except TimeoutError:
            pass
        self._soon.clear()

    async def _try_to_beat(self) -> HeartbeatAnswer | None:
        offline = tuple(self._offline)
        is_cordonable = self._is_up and self._image.metadata_version >= CORDONED_DIRECTORIES
        beat = Heartbeat(
            broker_id=self._node_id,
            broker_epoch=self.epoch,
            metadata_offset=self._image.offset,
            wants_shutdown=self._shutdown is not None,
            offline=offline,
            cordoned=self._cordoned() if is_cordonable else None,
        )
        try:
            timeout_s = min(REQUEST_TIMEOUT_S, self._config.broker_session_timeout_ms / 2000)
            if self._shutdown is not None and self._is_last():
                timeout_s = LAST_GIVES_UP_S
            answer = await self._requests.heartbeat(beat, timeout_s)
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
        """Whether every other controller is also a broker that is fenced or in controlled shutdown, so that the
        quorum may soon have no leader. False if there is no other controller."""
        image, own = self._image, self._node_id
        others = [image.brokers.get(each) for each in image.controllers if each != own]
        return bool(others) and all(
            each is not None and (each.fenced or each.in_controlled_shutdown) for each in others
        )

    def brokers_changed(self, brokers: Iterable[int]) -> None:
        """Send a heartbeat at once if one of the brokers whose registrations have changed is in controlled shutdown:
        the controller lets that broker stop when every broker's heartbeat has an offset past the change. Kafka's
        brokers wait for their next heartbeat."""
        own, image = self._node_id, self._image
        if not self._is_up or self._is_alone:
            return
        for each in brokers:
            state = image.brokers.get(each)
            if each != own and state is not None and state.in_controlled_shutdown and not state.fenced:
                self._soon.set()

    def _warn(self, problem: str) -> None:
        """Log a problem, but not the same one twice in a row."""
        if problem != self._problem:
            log.warning("%s", problem)
        self._problem = problem

    # directories

    def _cordoned(self) -> list[UUID]:
        return [each.id for each in self._logs.dirs.online if self._logs.is_cordoned(each)]

    def configured(self) -> None:
        """Send a heartbeat at once if a change of the broker's configuration has changed which log directories are
        cordoned."""
        known = self._image.brokers.get(self._node_id)
        if self._is_up and known is not None and set(known.cordoned or ()) != set(self._cordoned()):
            self._soon.set()

    def directory_failed(self, directory_id: UUID) -> None:
        """Report a failed log directory to the controller at once. If no report succeeds for
        log.dir.failure.timeout.ms, the broker must stop."""
        if self.epoch == NO_EPOCH or directory_id in self._offline:
            return

        def give_up() -> None:
            self._must_stop("the controller could not be informed of a failed log directory")

        timeout_s = self._config.log_dir_failure_timeout_ms / 1000
        self._offline[directory_id] = self._loop.call_later(timeout_s, give_up)
        self._soon.set()

    def assigned(self, topic_id: UUID, number: int, directory_id: UUID) -> None:
        """Report to the controller that a replica lies in the log directory `directory_id`, and not in the one that the
        metadata names. One request reports all replicas for which this method was called meanwhile."""
        self._assignments[topic_id, number] = directory_id
        if self._is_up and self._reporting is None:
            self._loop.call_soon(self._report_soon)

    def _report_soon(self) -> None:
        if self._assignments and self._reporting is None and self._is_up:
            self._reporting = begin(self._report_assignments(), "the log directories of replicas are not reported")

    async def _report_assignments(self) -> None:
        """Report the directories of replicas to the controller, with retries."""
        try:
            await self._send_assignments()
        finally:
            self._reporting = None

    async def _send_assignments(self) -> None:
        while self._assignments and self._is_up:
            keys = list(self._assignments)[:ASSIGNMENTS_MAX]
            reported = {key: self._assignments.pop(key) for key in keys}
            directories: dict[UUID, dict[UUID, list[int]]] = {}
            for (topic_id, number), directory in reported.items():
                directories.setdefault(directory, {}).setdefault(topic_id, []).append(number)
            assignments = [(directory, list(topics.items())) for directory, topics in directories.items()]
            try:
                await self._requests.assign_replicas(self._node_id, self.epoch, assignments, REQUEST_TIMEOUT_S)
            except Exception as error:  # noqa: BLE001  (after any error the report is sent again)
                self._warn(f"the log directories of replicas are not reported to the controller: {error}")
                self._assignments = reported | self._assignments
                if self._is_alone:
                    break
                await asyncio.sleep(self._interval_s)

    # controlled shutdown

    async def shut_down(self) -> None:
        """Ask the controller for a controlled shutdown: it elects other leaders for this broker's partitions, and
        fences the broker. Return when the controller allows the broker to stop, or when no controller has responded for
        too long, at the latest after SHUTDOWN_S. Return at once if the broker is not started, or has
        controlled.shutdown.enable=false."""
        if self._task is None or not self._is_up or not self._config.controlled_shutdown_enable:
            return
        if self._shutdown is None:
            self._shutdown = self._loop.create_future()
            self._soon.set()
        waits = {asyncio.ensure_future(self._shutdown), self._task}
        done, _ = await asyncio.wait(waits, timeout=SHUTDOWN_S, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            log.warning("the controller did not let the broker go: shutting down all the same")

    def stop(self) -> None:
        """Stop the heartbeats and reports."""
        self._is_up = False
        for task in (self._task, self._reporting):
            if task is not None:
                task.cancel()
        for timer in self._offline.values():
            if timer is not None:
                timer.cancel()
