"""The metadata log of a node in a quorum: raft decides its contents, the high watermark and the leader.

    start     open the log; load the image of the latest snapshot; take part in the quorum (driver.py)
    advance   after each event of raft, apply the committed records, at most READ_BYTES in a turn of the event loop;
              then lead or resign if this node has become the leader or is no longer the leader
    lead      when all records before this node's epoch are committed and in the image, copy the image to the draft,
              write the first records of an active controller, call on_leadership
    resign    let uncommitted appends fail with NotController, drop the draft, call on_leadership
    snapshot  replace the image by that of a fetched snapshot

Brokers are observers: they follow in the same way, and never lead. Source: KafkaRaftClient, QuorumController,
MetadataLoader.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from formats.batch_writer import Pair
from kcli.broker.metadata.activation import activation
from kcli.broker.metadata.config import MetadataLogConfig
from kcli.broker.metadata.driver import RaftDriver
from kcli.broker.metadata.errors import NotController
from kcli.broker.metadata.log import Append, MetadataLog, apply, retrieve_exception
from kcli.broker.metadata.quorum_view import QuorumView, of_leader
from kcli.broker.metadata.raft_log import QuorumStateFile, RaftMetadataLog
from kcli.broker.network.peers import Network
from kcli.broker.process.clock import Clock
from kcli.errors import KcliError
from kcli.log.disk import Disk
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.result import Refused
from kcli.metadata_log.bootstrap import read_bootstrap
from kcli.metadata_log.records import Replayed, batches_in
from kcli.metadata_log.snapshot_file import SnapshotId, read_snapshot
from kcli.protocol.error_code import ErrorCode
from kcli.raft.config import RaftConfig
from kcli.raft.errors import InvalidUpdateVersion, NotLeader
from kcli.raft.messages import Answer, OffsetAndEpoch, Request
from kcli.raft.raft import Raft
from kcli.raft.states.leader import Leader
from kcli.raft.voters import address

READ_BYTES: Final = 256 << 10
"""The greatest number of bytes of the metadata log that are read and applied in one turn of the event loop."""
SHUT_DOWN_MS: Final = 5000

logger = logging.getLogger("kcli.broker")


class ReplicatedMetadataLog(MetadataLog):
    """The metadata log of a node whose quorum has, or may get, other nodes. Call `start` once, and `close` at the
    end."""

    def __init__(
        self,
        log_directory: Path,
        raft: RaftConfig,
        network: Network,
        *,
        config: MetadataLogConfig | None = None,
        disk: Disk | None = None,
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        """Open or create the log in metadata.log.dir, which must be formatted and locked. chance: the random
        numbers for the delays of elections. Raises StartRefused, UnreadableInput, OSError."""
        super().__init__(log_directory, config=config, disk=disk, clock=clock)
        self._raft_config = raft
        self._store = store = QuorumStateFile(self._log.directory, self._disk)
        self._raft_log = RaftMetadataLog(self._log, self._snapshots, self._disk, self._clock)
        chance = random.Random() if chance is None else chance  # noqa: S311  (delays of elections are no secret)
        self._raft = Raft(raft, self._raft_log, store, chance)
        self._network = network
        self._driver: RaftDriver | None = None
        self._applied = 0
        self._applied_epoch = 0
        self._unreported: list[Record] = []
        self._leads: int | None = None  # the epoch in which this node is the active controller, else None
        self._known_leader: tuple[int | None, int] = (None, 0)
        self._is_advancing = self._must_advance = self._is_held = False
        self._moved: list[asyncio.Future[None]] = []
        self._work: asyncio.Task[None] | None = None
        try:
            store.load()
            self._load_snapshot(self.image)
            self._start_upkeep(self._bytes_since())
        except BaseException:
            self._log.close_handles()
            raise

    def _load_snapshot(self, image: MetadataImage) -> None:
        latest = self._snapshots.latest
        if latest is None:
            return
        path = self._snapshots.path(latest)
        for batch in read_snapshot(path):
            for control in batch.controls:
                self._last_timestamp_ms = control.value.get("lastContainedLogTimestamp", self._last_timestamp_ms)
            for name, _, value in batch.records:
                image.apply(name, value, latest.offset - 1)
        image.offset = latest.offset - 1
        self._applied, self._applied_epoch = latest
        self._log.update_high_watermark(latest.offset)

    def _bytes_since(self) -> int:
        offset = self._applied
        if offset >= self._log.log_end_offset:
            return 0
        return self._log.size

    def start(self) -> None:
        """Take part in the quorum. Call once, on the running loop."""
        self._driver = RaftDriver(
            self._raft,
            self._log,
            self._store,
            self._network,
            self._clock,
            in_thread=self._in_thread,
            advance=self._advance,
            failed=self._fail,
        )
        self._log.on_stale_epochs = lambda: None  # the flush after each append writes leader-epoch-checkpoint
        self._driver.start()

    @property
    def driver(self) -> RaftDriver:
        """The driver of raft, which connects it with the clock, the disk and the network."""
        assert self._driver is not None, "started"
        return self._driver

    # state

    @property
    def raft(self) -> Raft:
        """The raft state machine, for reading only."""
        return self._raft

    @property
    def is_leader(self) -> bool:
        return self._leads is not None

    @property
    def leader_id(self) -> int | None:
        return self._raft.leader_id if self._driver is not None else None

    @property
    def leader_address(self) -> tuple[str, int] | None:
        if self._driver is None:
            return None
        found = address(self._raft.leader_endpoints, self._raft_config.listener)
        return None if found is None else (found.host, found.port)

    @property
    def epoch(self) -> int:
        return self._raft.epoch if self._driver is not None else 0

    @property
    def kraft_version(self) -> int:
        return self._raft.kraft_version

    def kraft_upgrade(self, *, validate_only: bool) -> Callable[[int], None]:
        return partial(self._upgrade_kraft, validate_only=validate_only)

    def _upgrade_kraft(self, level: int, *, validate_only: bool) -> None:
        """Raise kraft.version to `level`; with `validate_only` only check that this is possible. Raises Refused if it
        is not, and NotController."""
        driver, epoch = self.driver, self.epoch
        try:
            outcome = self._raft.upgrade_kraft_version(epoch, level, driver.now_ms, validate_only=validate_only)
        except InvalidUpdateVersion as error:
            raise Refused(ErrorCode.INVALID_UPDATE_VERSION, str(error)) from None
        except NotLeader as error:
            raise NotController(str(error)) from None
        driver.do(lambda: outcome)

    @property
    def applied_offset(self) -> int:
        """The offset after the last record in the image."""
        return self._applied

    @property
    def is_caught_up(self) -> bool:
        """Whether the image has all records below the high watermark. False while the high watermark is unknown."""
        high_watermark = self._raft.high_watermark if self._driver is not None else None
        return high_watermark is not None and self._applied >= high_watermark

    @property
    def view(self) -> QuorumView:
        state = self._raft.state
        if not isinstance(state, Leader):
            raise NotController("this node does not lead the quorum")
        return of_leader(state, self._log.log_end_offset)

    # requests of other nodes, reports of the launcher

    def handle(self, request: Request) -> asyncio.Future[Answer]:
        """Pass another node's request to raft. Return a future with the response."""
        return self.driver.handle(request)

    async def caught_up(self) -> None:
        """Wait until the high watermark is known, and the image has all records below it."""
        while not self.is_caught_up:
            await self.moved()

    def moved(self) -> asyncio.Future[None]:
        """Return a future that is done at the next change of the image or of the leader."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._moved.append(future)
        return future

    def stand_for_election(self) -> None:
        """Stand for election at once if no leader is known."""
        if self._driver is not None:
            driver = self._driver
            driver.do(lambda: self._raft.stand_for_election(driver.now_ms))

    def peer_died(self, node_id: int) -> None:
        """Report to raft that the process of a node has ended, so that raft does not wait until the node times out."""
        if self._driver is not None:
            driver = self._driver
            driver.do(lambda: self._raft.peer_died(node_id, driver.now_ms))

    # following the committed records and the leader

    def _advance(self) -> None:
        """Apply committed records; become the active controller or resign, if the leader has changed; then call
        `on_leader`. Repeat this if raft has advanced meanwhile."""
        if self._is_advancing:
            self._must_advance = True
            return
        self._is_advancing = True
        try:
            self._must_advance = True
            while self._must_advance:
                self._must_advance = False
                self._advance_once()
        finally:
            self._is_advancing = False

    def _advance_once(self) -> None:
        if self._leads is not None and not (self._raft.is_leader and self._raft.epoch == self._leads):
            self._resign()
        if self._leads is not None:
            self.next_offset = self._log.log_end_offset
        before = self._applied
        if not self._is_held:
            self._apply_committed()
        if self._leads is None:
            self._maybe_lead()
        leader = self._raft.leader_id, self._raft.epoch
        if leader != self._known_leader:
            self._known_leader = leader
            self._call_all(self.on_leader)
        elif self._applied == before:
            return
        moved, self._moved = self._moved, []
        for each in moved:
            if not each.done():
                each.set_result(None)

    def _apply_committed(self) -> None:
        high_watermark = self._raft.high_watermark
        if high_watermark is None:
            return
        if self._applied < self._log.log_start_offset:
            self._reload()
        if self._leads is not None:
            self._apply_own(high_watermark)
        elif self._applied < high_watermark:
            self._apply_log(high_watermark)
        if self._upkeep.is_snapshot_due(self._clock.now_ms()) and not self._closed:
            _ = self.take_snapshot()
        if self._can_snapshot:
            self._take_turns()

    def _apply_own(self, high_watermark: int) -> None:
        """Apply the committed appends of this node from the queue, without reading the log."""
        count = 0
        for each in self._queue:
            if each.end_offset > high_watermark:
                break
            count += 1
        done, self._queue[:count] = self._queue[:count], []
        for each in done:
            apply(self.image, each.records, each.first_offset)
            self._applied = each.end_offset
            self._applied_epoch = self._raft.epoch
            if each.batches:
                self._last_timestamp_ms = int.from_bytes(each.batches[-1][35:43])
                self._upkeep.appended(sum(map(len, each.batches)))
            if each.records:
                self._call_listeners(each.records)
            if not each.done.done():
                each.done.set_result(each.end_offset - 1)
        if not self._queue:
            self._applied = high_watermark  # all other records below the high watermark are control records

    def _apply_log(self, high_watermark: int) -> None:
        before = self._applied
        data = self._raft_log.read(self._applied, READ_BYTES)
        for batch in batches_in(data, str(self._log.directory), self._applied):
            if batch.last_offset >= high_watermark:
                break
            self._take(batch)
        if self._unreported and not self.image.in_transaction:
            records, self._unreported = self._unreported, []
            self._call_listeners(records)
        if before < self._applied < high_watermark:
            asyncio.get_running_loop().call_soon(self._go_on)

    def _take(self, batch: Replayed) -> None:
        for offset, (name, _, value) in enumerate(batch.records, batch.base_offset):
            self.image.apply(name, value, offset)
        self._unreported += batch.records
        self._applied, self._applied_epoch = batch.last_offset + 1, batch.epoch
        self.image.offset = batch.last_offset
        if not batch.controls:
            self._last_timestamp_ms = batch.timestamp_ms
        self._upkeep.appended(batch.size_bytes)

    def _go_on(self) -> None:
        if self._failure is None and not self._closed:
            try:
                self._advance()
            except Exception as error:  # noqa: BLE001  (after any error raft's promises cannot be kept)
                self.driver.end()
                self._fail(error)

    def _reload(self) -> None:
        """Replace the image by that of a fetched snapshot, which contains the state of all records below the new log
        start offset."""
        image = MetadataImage()
        self._unreported.clear()
        self._load_snapshot(image)
        self.image.become(image)
        self._call_listeners([])

    # leading

    def _maybe_lead(self) -> None:
        begin, high_watermark = self._raft.epoch_start_offset, self._raft.high_watermark
        if begin is None or high_watermark is None or high_watermark <= begin or self._applied < high_watermark:
            return
        self._leads = self._raft.epoch
        self.next_offset = self._log.log_end_offset
        self._draft = self.image.copy()
        bootstrap = [] if self.image.metadata_version else read_bootstrap(self._directory)
        records = activation(self.image, bootstrap, self.config.min_insync_replicas)
        if records:
            self.append(records).add_done_callback(retrieve_exception)
        logger.info("node %d is the active controller of epoch %d", self._raft_config.node_id, self._leads)
        self._call_all(self.on_leadership)

    def _resign(self) -> None:
        self._leads = None
        self._draft = None
        self._end_queue(NotController("another node became the active controller"))
        self._call_all(self.on_leadership)

    def _appended(self, one: Append) -> None:
        self.driver.append(one.batches)
        self.next_offset = self._log.log_end_offset

    # upkeep

    def _take_turns(self) -> None:
        if self._work is None and self._can_snapshot:
            self._work = asyncio.get_running_loop().create_task(self._take_snapshot())

    async def _take_snapshot(self) -> None:
        self._is_held = True
        try:
            await self._begin_snapshot()
        except Exception as error:  # noqa: BLE001  (after any error raft's promises cannot be kept)
            self.driver.end()
            self._fail(error)
        finally:
            self._is_held = False
            self._work = None
            self._go_on()

    def _snapshot_at(self) -> tuple[SnapshotId, Sequence[Pair]]:
        return SnapshotId(self._applied, self._applied_epoch), self._raft.controls.snapshot_header(self._applied)

    def _snapshot_written(self, which: SnapshotId) -> None:
        if which in self._snapshots.ids:
            self._raft.snapshot_written(OffsetAndEpoch(*which))

    def _clean_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self._clean)

    def _clean(self) -> None:
        if self._failure is None and not self._closed:
            try:
                self._upkeep.clean(self._log, self._clock.now_ms())
            except (OSError, KcliError) as error:
                self.driver.end()
                self._fail(error)

    async def close(self) -> None:
        if self._closed:
            return
        self._stop_timers()
        if self._driver is not None:
            await self._driver.shut_down(SHUT_DOWN_MS)
        self._closed = True
        if self._leads is not None:
            self._resign()
        while (task := self._work or self._upkeep.writing) is not None:
            await asyncio.wait([task])
        await self._close_files()
