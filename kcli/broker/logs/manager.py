"""All logs of a broker: opens them at its start, creates and deletes them as the metadata says, closes them at its
stop.

    start      open the logs of all log directories in parallel, each with num.recovery.threads.per.data.dir threads
    apply      after a change of the metadata: add new partitions at once and create their directories soon after;
               rename the directories of removed partitions to -delete, and remove them after file.delete.delay.ms; pass
               configurations to open logs
    fail       take a log directory offline after an I/O error, and keep using the other directories; if it is the
               directory of the metadata log or the last directory, the broker must stop
    stop       flush and close all logs, write the checkpoints and the marker of a clean shutdown

Threads do the work that waits for a disk; all else happens on the event loop's thread. A new log is created by a thread
for new logs, unless a request needs it earlier and creates it. Source: LogManager, ReplicaManager.applyDelta,
BrokerMetadataPublisher.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Final
from uuid import UUID

from formats.file_name import NEVER_TIERED, FileKind
from kcli.broker.config import BrokerConfig
from kcli.broker.log_dirs import checkpoints
from kcli.broker.log_dirs.checkpoints import CheckpointWriter
from kcli.broker.log_dirs.directories import LogDir, LogDirs, LogDirsRefused
from kcli.broker.log_dirs.loading import DirectoryLoading, LoadRules, jitter
from kcli.broker.log_dirs.topic_ids import check_topic_ids
from kcli.broker.logs.background import Background
from kcli.broker.logs.moves import FutureReplica, Moves
from kcli.broker.partition.partitions import Partition, Partitions
from kcli.broker.partition.replica_host import ALONE, ReplicaHost
from kcli.broker.process import descriptors
from kcli.broker.process.clock import Clock
from kcli.broker.process.unattended import Steps, report
from kcli.errors import KcliError, error_text
from kcli.log.config import InvalidConfig, LogConfig
from kcli.log.disk import Disk
from kcli.log.live.partition_log import LogFailed, OpenOptions, PartitionLog
from kcli.log.live.schema_rules import KnownSchemas, SchemaRules
from kcli.log.partition_directory import make_partition_directory, name_for_end, rename_for_end, topic_id_of
from kcli.metadata.changes import Changes
from kcli.metadata.image import BROKER_RESOURCE, TOPIC_RESOURCE, MetadataImage
from kcli.metadata.partition import LOST, MIGRATING, UNASSIGNED, from_uuid
from kcli.metadata.partition import Partition as PartitionState
from kcli.metadata_log.lost import has_replica, other_topic, why_stray
from kcli.protocol.topic_partition import TopicPartition

log = logging.getLogger("kcli.broker")

GUARDS: Final = 64
"""The number of locks that all partitions' directories share."""
SHORTAGE_LOG_MS: Final = 30_000
"""The shortest time between two warnings of too few descriptors, in ms."""


@dataclass(frozen=True, slots=True)
class Listeners:
    """Callbacks of the log manager.

    directory_failed(directory): a log directory has failed, and is offline.
    assigned(topic id, number, directory id): a partition lies in another directory than the metadata says.
    must_stop(reason): the broker cannot run without the failed directory.
    """

    directory_failed: Callable[[LogDir], None] = lambda _: None
    assigned: Callable[[UUID, int, UUID], None] = lambda *_: None
    must_stop: Callable[[str], None] = lambda _: None


class NotClosed(KcliError):
    """Logs were not closed as a clean shutdown requires."""


class LogManager:
    """The logs of one broker. dirs: its log directories, locked. image: the metadata image, which the log manager only
    reads."""

    def __init__(
        self,
        config: BrokerConfig,
        dirs: LogDirs,
        image: MetadataImage,
        disk: Disk,
        clock: Clock,
        listeners: Listeners | None = None,
    ) -> None:
        self.config = config
        self.dirs = dirs
        self.disk = disk
        self.clock = clock
        self.partitions = Partitions(image)
        self.futures: dict[TopicPartition, FutureReplica] = {}
        self.host: ReplicaHost = ALONE
        self.writers = {each: CheckpointWriter(disk, each) for each in dirs.data}
        self.background = Background(self)
        self.preferred: dict[TopicPartition, LogDir] = {}
        """The log directories that AlterReplicaLogDirs has set for replicas that are not on this broker yet."""
        self.moves = Moves(self)
        self._node_id = dirs.node_id
        self._image = image
        self._listeners = listeners or Listeners()
        self._known_schemas: KnownSchemas | None = None
        self._defaults: LogConfig | None = config.log_config({})
        self._configs: dict[str, LogConfig] = {}
        self._counts: Counter[LogDir] = Counter()
        self._guards = [Lock() for _ in range(GUARDS)]
        self._leaving: dict[Path, Partition] = {}
        self._maker = ThreadPoolExecutor(1, "log-maker")
        self._is_stopping = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_started = False
        self._shortage_logged_ms = -SHORTAGE_LOG_MS

    # starting

    async def start(self) -> None:
        """Open the logs on disk, and create the logs of new partitions. Raises LogDirsRefused."""
        began = self.clock.now_ms()
        self._loop = asyncio.get_running_loop()
        descriptors.raise_limit()
        for directory in self.dirs.online:
            await asyncio.to_thread(check_topic_ids, directory, self._owner_of)
        expiration_ms = self.config.producer_id_expiration_ms
        rules = LoadRules(
            self.disk,
            began,
            self.config_of,
            self._is_stray,
            self._is_aside,
            self.may_be_tiered,
            expiration_ms,
        )
        loadings = [DirectoryLoading(each, rules) for each in self.dirs.online]
        threads = self.config.num_recovery_threads_per_data_dir
        with ThreadPoolExecutor(max(1, len(loadings)) * threads, "log-recovery") as pool:
            in_thread = partial(self._loop.run_in_executor, pool)
            await asyncio.gather(*(in_thread(each.prepare) for each in loadings))
            await asyncio.gather(*(in_thread(each.work) for each in loadings if not each.error for _ in range(threads)))
        for each in loadings:
            if descriptors.is_shortage(each.error):
                raise LogDirsRefused(
                    f"{error_text(each.error)}: the logs in {each.directory.path} need more open files than the limit "
                    f"(ulimit -n) of {descriptors.limit()} allows: raise it"
                )
            if each.error is not None:
                self.directory_failed(each.directory, each.error)
        if not self.dirs.online:
            raise LogDirsRefused(f"no log directory is left: {self.dirs.data[0].error}")
        self._configs.clear()
        self._take(loadings)
        self._place_all()
        self._is_started = True
        if any(each.opened_log is None for each in self.partitions):
            await asyncio.wrap_future(self._maker.submit(self._make_all))
        count = sum(len(each.logs) for each in loadings)
        log.info("loaded %d logs in %d ms", count, self.clock.now_ms() - began)
        self.background.start({each.directory: each.cleaned for each in loadings})
        self.moves.resume()
        self._check_descriptors()

    def _is_stray(self, number: int, topic_id: str | None) -> bool:
        return why_stray(self._image, number, topic_id, self._node_id) is not None

    def _is_aside(self, partition: TopicPartition, topic_id: str | None) -> bool:
        return other_topic(self._image, partition, topic_id, self._node_id) is not None

    def _owner_of(self, partition: TopicPartition, topic_id: str | None) -> str | None:
        topic = other_topic(self._image, partition, topic_id, self._node_id)
        is_opened = topic is not None and has_replica(self._image, partition, self._node_id)
        return topic.name if topic is not None and is_opened else None

    def _take(self, loadings: list[DirectoryLoading]) -> None:
        """Add a Partition for each loaded log. Delete the logs of partitions that the metadata no longer has, and the
        directories with names that end in -delete. Raises LogDirsRefused if a partition lies in two log directories."""
        homes: dict[TopicPartition, LogDir] = {}
        for each in loadings:
            for path in each.deleted:
                self.background.delete_tree(each.directory, path, None)
            if each.error is not None:
                continue
            each.directory.is_loaded = True
            for key, future in each.futures.items():
                self.futures[key] = FutureReplica(each.directory, future)
            for key, found in each.logs.items():
                topic, number = key
                if other := homes.get(key):
                    raise LogDirsRefused(
                        f"{key} lies in {other.path} and in {each.directory.path}: a move between them was "
                        "interrupted; remove the copy that is older"
                    )
                homes[key] = each.directory
                known = self._image.topic(topic)
                if known is None or number not in known.partitions:  # the topic was deleted meanwhile
                    self.background.delete_tree(each.directory, found.directory, found)
                    continue
                self._add(topic, number, known.id, known.partitions[number], each.directory).opened(found)

    def _place_all(self) -> None:
        for topic in list(self._image.topics.values()):
            for number, state in topic.partitions.items():
                if self._node_id in state.replicas and self.partitions.get(topic.name, number) is None:
                    self._new(topic.name, number, topic.id, state)

    # what the metadata says

    def apply(self, changes: Changes) -> None:
        """Apply a change of the metadata image. Directories are created and renamed later, in a thread."""
        if not self._is_started:  # `start` applies the whole image at its end
            return
        made, left = False, False
        for topic in changes.topics_deleted.values():
            for number in topic.partitions:
                removed = self.partitions.get(topic.name, number)
                if removed is not None and removed.topic_id == topic.id:
                    left = self._remove(removed) or left
        for kind, name in changes.configs:
            if kind == TOPIC_RESOURCE:
                self._configs.pop(name, None)
                self._reconfigure(name)
            elif kind == BROKER_RESOURCE:
                self.reconfigured()
        for topic_id, number in changes.partitions:
            known, state = self._image.topic_by_id(topic_id), self._image.partition(topic_id, number)
            if known is None or state is None:
                continue
            here = self.partitions.get(known.name, number)
            if self._node_id not in state.replicas:
                left = (here is not None and self._remove(here)) or left
            elif here is not None and here.topic_id == topic_id:
                here.update(state)
            else:
                self._new(known.name, number, topic_id, state)
                made = True
        if made:
            self._in_maker(self._make_all, "new partitions are not made")
        if left:
            self._in_maker(self._rename_all, "directories of deleted partitions are not renamed")

    def check_schemas_with(self, known: KnownSchemas) -> None:
        """Check the schema ids of records with a registry, on topics that demand it. Before that, such topics accept no
        records."""
        self._known_schemas = known
        for topic in {each.topic for each in self.partitions}:
            self._reconfigure(topic)

    def reconfigured(self) -> None:
        """Apply a change of the broker's configuration to all logs."""
        self._defaults = None
        self._configs.clear()
        for topic in {each.topic for each in self.partitions}:
            self._reconfigure(topic)
        self.background.reconfigured()

    def _reconfigure(self, topic: str) -> None:
        known = self._image.topic(topic)
        for number in known.partitions if known else ():
            here = self.partitions.get(topic, number)
            opened = here.opened_log if here else None
            if opened is not None and here is not None:
                was_compacted, was_tiered = opened.config.compact, opened.is_tiered
                local_start = opened.local_log_start_offset
                opened.set_config(self.config_of(topic))
                self._check_schemas(topic, opened)
                if was_tiered and not opened.is_tiered and here.is_leader:  # Kafka's TopicConfigHandler
                    here.delete_records(local_start)
                if was_compacted and not opened.config.compact:
                    self.background.compactor.abort(here)

    def config_of(self, topic: str) -> LogConfig:
        """The configuration of a topic's logs; the broker's defaults if the topic's own configurations are invalid. May
        be called in any thread."""
        found = self._configs.get(topic)
        if found is None:
            own = self._image.topic_configs(topic)
            try:
                found = self.config.log_config(own) if own else self.default_log_config
            except InvalidConfig as error:
                log.warning("configuration of topic %s: %s: the broker's is used", topic, error)
                found = self.default_log_config
            self._configs[topic] = found
        return found

    def may_be_tiered(self, topic: str) -> bool:
        """Whether a topic may have tiered storage; its configuration decides whether it has. May be called in any
        thread."""
        return self.config.remote_log_storage_system_enable and topic not in NEVER_TIERED

    @property
    def default_log_config(self) -> LogConfig:
        """The log configuration of a topic without configuration of its own."""
        if self._defaults is None:
            self._defaults = self.config.log_config({})
        return self._defaults

    # new partitions

    def _add(self, topic: str, number: int, topic_id: UUID, state: PartitionState, home: LogDir | None) -> Partition:
        added = Partition(topic, number, topic_id, state, self._node_id, home, self._make)
        added.on_failed = self.partition_failed
        added.on_opened = self._opened
        added.on_rolled = self.background.flush_soon
        added.on_removed = self.background.remove_later
        added.host = self.host
        self.partitions.add(added)
        if home is not None:
            self._counts[home] += 1
            if state.directory(self._node_id) != home.id:
                self._listeners.assigned(topic_id, number, home.id)
        return added

    def _opened(self, partition: Partition, opened: PartitionLog) -> None:
        """Set the current configuration of a log that was just opened, as the configuration may have changed while the
        log was being opened (KAFKA-8813). From now on leader-epoch-checkpoint is written in a thread."""
        opened.on_stale_epochs = lambda: self.background.epochs_changed(partition)
        config = self.config_of(partition.topic)
        if opened.config is not config:
            opened.set_config(config)
        self._check_schemas(partition.topic, opened)

    def _check_schemas(self, topic: str, opened: PartitionLog) -> None:
        """Have a log check the schema ids of its records, if its configuration says so."""
        rules = SchemaRules.of(topic, opened.config, self._known_schemas)
        if rules != opened.append_rules.schemas:
            opened.set_schemas(rules)

    def _new(self, topic: str, number: int, topic_id: UUID, state: PartitionState) -> None:
        home = self.preferred.pop(TopicPartition(topic, number), None)
        if home is None or not home.is_online:
            home = self._choose(state)
        added = self._add(topic, number, topic_id, state, home)
        if home is None:
            log.warning("%s is not made: it may lie in a log directory that is offline", added)

    def _choose(self, state: PartitionState) -> LogDir | None:
        """Return the log directory for a new partition: the one that the metadata names, else the one with the fewest
        partitions among the online directories that are not cordoned (the first online one if all are). None if the
        partition may lie in a directory that is offline."""
        assigned = state.directory(self._node_id)
        home = self.dirs.by_id(assigned) if assigned not in (MIGRATING, UNASSIGNED, LOST) else None
        if home is not None:
            return home
        online = self.dirs.online
        if not online or (len(online) < len(self.dirs.data) and assigned != UNASSIGNED):
            return None
        open_ones = [each for each in online if not self.is_cordoned(each)] or online[:1]
        return min(open_ones, key=lambda each: self._counts[each])

    # replicas that move

    def add_future(self, key: TopicPartition, directory: LogDir, future: PartitionLog) -> None:
        """Add the future log of a replica that is being moved to `directory`."""
        self.futures[key] = FutureReplica(directory, future)

    def moved(self, partition: Partition, home: LogDir) -> None:
        """After a replica's move, count the replica in its new log directory and no longer in `home`, its previous log
        directory. Report the new directory to the controller, and write the checkpoints of both directories."""
        assert partition.directory is not None, "it has just come there"
        self._counts[home] -= 1
        self._counts[partition.directory] += 1
        self._listeners.assigned(partition.topic_id, partition.number, partition.directory.id)
        for each in (home, partition.directory):
            self.background.checkpoint_soon(each)

    def is_cordoned(self, directory: LogDir) -> bool:
        """Whether the log directory is cordoned, and so gets no new partitions (KIP-1066)."""
        cordoned = self.config.words("cordoned.log.dirs")
        return "*" in cordoned or str(directory.path) in cordoned

    def _in_maker(self, work: Callable[[], None], what: str) -> None:
        """Run `work` in the thread that creates logs. `work` handles I/O errors itself; other errors are logged
        with the words `what`."""

        def ended(done: Future[None]) -> None:
            if (error := done.exception()) is not None:
                report(what, error)

        self._maker.submit(work).add_done_callback(ended)

    def _guard_of(self, path: Path) -> Lock:
        """Return the lock to hold while the partition directory `path` is created or renamed, or its entry in
        `_leaving` is changed. There are GUARDS locks, not one, since a thread holds a lock while it waits for the
        device, and the event loop, which needs the locks of other partitions meanwhile, should not wait."""
        return self._guards[hash(path) % GUARDS]

    def _make_all(self) -> None:
        """Create the logs of the partitions that have none. Runs in the thread that creates logs."""
        assert self._loop is not None, "started"
        for each in self.partitions:
            if self._is_stopping:  # the next start creates them
                return
            if each.opened_log is None and not (each.is_offline or each.is_deleted):
                try:
                    made = self._make(each)
                except (OSError, KcliError) as error:
                    if not each.is_deleted:
                        self._loop.call_soon_threadsafe(each.failed, error)
                else:
                    self._loop.call_soon_threadsafe(each.opened, made)

    def _make(self, new: Partition) -> PartitionLog:
        """Return the log of a new partition. If no other thread has created or opened it, open the log in the
        partition's directory, or create it if there is no such directory. A directory of another topic with the same
        name is renamed to -stray before. Raises OSError; KcliError, also if the partition was deleted meanwhile."""
        assert new.directory is not None, "it is online"
        path = new.directory.path / str(new)
        with self._guard_of(path):
            if new.made is not None:
                return new.made
            if new.is_deleted:
                raise LogFailed(f"{new} is deleted")
            if (leaving := self._leaving.pop(path, None)) is not None:
                self._rename(leaving)
            topic_id = from_uuid(new.topic_id)
            is_new = not path.exists()
            if not is_new and topic_id_of(path) != topic_id:
                log.warning("%s is of another topic %s: set aside", path, new.topic)
                rename_for_end(self.disk, path, new.topic, new.number, "stray")
                is_new = True
            if is_new:
                self.writers[new.directory].forget(TopicPartition(new.topic, new.number))
                make_partition_directory(self.disk, path, topic_id)
            options = OpenOptions(
                clean=is_new,
                producer_expiration_ms=self.config.producer_id_expiration_ms,
                jitter=jitter,
                may_be_tiered=self.may_be_tiered(new.topic),
            )
            now_ms = self.clock.now_ms()
            made = new.made = PartitionLog(path, self.disk, self.config_of(new.topic), now_ms, options)
        log.info("created log for partition %s in %s", new, path)
        return made

    # removed partitions

    def _remove(self, removed: Partition) -> bool:
        """Stop serving a partition that was removed from this broker. Return whether its directory is now to be renamed
        to -delete; False if its log directory is offline or unknown."""
        self.partitions.remove(removed)
        self.moves.abort(removed)
        removed.delete()
        self.background.forget(removed)
        if removed.directory is None or not removed.directory.is_online:
            return False
        self._counts[removed.directory] -= 1
        path = removed.directory.path / str(removed)
        with self._guard_of(path):
            # a partition may be created and removed again before its directory is renamed: the first Partition
            # with that path has the files open
            self._leaving.setdefault(path, removed)
        return True

    def _rename_all(self) -> None:
        """Rename the directories of removed partitions to -delete. Runs in the thread that creates logs."""
        assert self._loop is not None, "started"
        homes = set()
        for path in list(self._leaving):
            with self._guard_of(path):
                leaving = self._leaving.pop(path, None)
                if leaving is None:
                    continue
                homes.add(leaving.directory)
                try:
                    self._rename(leaving)
                except OSError as error:
                    self._loop.call_soon_threadsafe(leaving.failed, error)
        for home in homes:
            if home is not None:
                self._loop.call_soon_threadsafe(self.background.checkpoint_soon, home)

    def _rename(self, leaving: Partition) -> None:
        assert self._loop is not None, "started"
        assert leaving.directory is not None, "checked when it was removed"
        opened = leaving.opened_log or leaving.made
        path = leaving.directory.path / str(leaving)
        if not path.exists():
            return
        target = path.with_name(name_for_end(leaving.topic, leaving.number, "delete"))
        if opened is None:
            self.disk.rename(path, target)
        else:
            opened.rename(target)
        log.info("log of partition %s is renamed to %s and is to be deleted", leaving, target)
        self._loop.call_soon_threadsafe(self.background.delete_tree, leaving.directory, target, opened)

    # failing

    def partition_failed(self, failed: Partition, error: Exception) -> None:
        """Take the log directory of a partition offline after an I/O error."""
        if failed.directory is not None:
            self.directory_failed(failed.directory, error)

    def _short_of_descriptors(self, error: BaseException) -> None:
        now_ms = self.clock.now_ms()
        if now_ms - self._shortage_logged_ms >= SHORTAGE_LOG_MS:
            self._shortage_logged_ms = now_ms
            log.warning("%s: raise the limit of open files (ulimit -n), %s", error_text(error), descriptors.limit())
            self.background.spawn(self.background.release_descriptors())

    def files_to_come(self) -> int:
        """Return the number of descriptors that the logs will need when all logs are in use, in addition to those open
        now."""
        unused = sum(
            not (each.is_offline or (each.opened_log is not None and each.opened_log.is_in_use))
            for each in self.partitions
        )
        return descriptors.FILES_OF_A_LOG * unused

    def _check_descriptors(self) -> None:
        """Log a warning if the limit of open files is too low for all logs."""
        most = descriptors.limit()
        needed = descriptors.in_use() + self.files_to_come()
        if most is not None and needed > most - descriptors.for_upkeep(most):
            log.warning(
                "%d partitions may need %d open files, and the limit (ulimit -n) is %d: raise it",
                len(self.partitions),
                needed,
                most,
            )

    def directory_failed(self, directory: LogDir, error: BaseException) -> None:
        """Take a log directory offline after `error`, unless the error is a lack of descriptors, which is no fault of
        the disk."""
        if not directory.is_online:
            return
        if descriptors.is_shortage(error):
            self._short_of_descriptors(error)
            return
        log.error("stopping serving logs in %s: %s", directory.path, error_text(error))
        directory.fail(error)
        for each in self.partitions:
            if each.directory is directory:
                each.go_offline()
                self.background.forget(each)
                if each.opened_log is not None:  # responses to Fetches may still read the log's files
                    self.background.later(self.default_log_config.file_delete_delay_ms, each.opened_log.close_handles)
        for key in [key for key, future in self.futures.items() if future.directory is directory]:
            del self.futures[key]
        self._listeners.directory_failed(directory)
        if directory is self.dirs.metadata:
            reason = error_text(error)
            self._listeners.must_stop(f"the log directory of the metadata log, {directory.path}, has failed: {reason}")
        elif not self.dirs.online:
            self._listeners.must_stop(f"all log directories have failed, {directory.path} last: {error_text(error)}")

    # for checkpoints

    def logs_in(self, directory: LogDir) -> Iterator[tuple[TopicPartition, PartitionLog]]:
        """Yield the partition and log of each log in one directory, including the future logs of replicas that are
        being moved there."""
        for each in self.partitions:
            if each.directory is directory and each.opened_log is not None:
                yield each.key, each.opened_log
        for key, future in self.futures.items():
            if future.directory is directory:
                yield key, future.log

    # stopping

    def stop_making(self) -> None:
        """From now on create only logs that a request waits for, as the broker is stopping."""
        self._is_stopping = True

    async def stop(self, broker_epoch: int = -1) -> None:
        """Flush and close all logs, so that the next start need not recover any. broker_epoch: the epoch for the
        clean-shutdown marker. If a step fails, the other steps are still taken, and then NotClosed is raised."""
        self.stop_making()
        steps = Steps()
        with steps.step("the log manager is not stopped in order"):
            self.moves.stop()
            await self.background.stop()
        self._maker.shutdown()
        await asyncio.sleep(0)  # run the callbacks of the thread that creates logs
        loop = asyncio.get_running_loop()
        threads = self.config.num_recovery_threads_per_data_dir
        online = self.dirs.online
        with ThreadPoolExecutor(max(1, len(online)) * threads, "log-closing") as pool:
            await asyncio.gather(
                *(loop.run_in_executor(pool, self._close, each, broker_epoch, threads, steps) for each in online)
            )
        for each in self.partitions:
            if each.is_offline and each.opened_log is not None:
                each.opened_log.close_handles()
        self.dirs.unlock()
        if steps.failures:
            raise NotClosed("the next start recovers them")

    def _close(self, directory: LogDir, broker_epoch: int, threads: int, steps: Steps) -> None:
        """Close all logs of one directory, and write its checkpoints. Write the clean-shutdown marker only if all logs
        were closed. Errors are collected in `steps`."""
        logs = list(self.logs_in(directory))
        now_ms = self.clock.now_ms()
        failed: list[tuple[Path, Exception]] = []

        def close(each: tuple[TopicPartition, PartitionLog]) -> None:
            try:
                each[1].close(now_ms)
            except Exception as error:  # noqa: BLE001  (after any error the other logs are still closed)
                failed.append((each[1].directory, error))

        with ThreadPoolExecutor(threads, "log-closing") as pool:
            for _ in (pool.map if threads > 1 else map)(close, logs):
                pass
        with steps.step(f"no checkpoints in {directory.path}"):
            self.writers[directory].write(
                {
                    FileKind.RECOVERY_POINTS: checkpoints.recovery_points(logs),
                    FileKind.LOG_START_OFFSETS: checkpoints.log_starts(logs),
                    FileKind.REPLICATION_OFFSETS: checkpoints.high_watermarks(logs),
                }
            )
        with steps.step(f"{directory.path} is not marked as closed cleanly"):
            if failed:
                path, error = failed[0]
                raise NotClosed(f"{len(failed)} of {len(logs)} logs are not closed, {path} first: {error_text(error)}")
            if directory.was_clean or directory.is_loaded:
                self.writers[directory].mark_clean(broker_epoch)
