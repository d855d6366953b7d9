"""The metadata log of a node that is the only voter: records are committed once they are written and flushed.

    start    open and replay the log, lead a new epoch, write the first records of an active controller
    append   queue the records; in each round, write all queued records, flush once in a thread, move the high
             watermark, apply the records to the image, call the listeners

Within a round nothing else changes the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from formats.batch_writer import Pair, write_batch
from formats.control_record import parse
from kcli.broker.metadata.activation import activation
from kcli.broker.metadata.config import MetadataLogConfig
from kcli.broker.metadata.load import Replay
from kcli.broker.metadata.log import SLICE_RECORDS, Append, MetadataLog, apply
from kcli.broker.metadata.quorum import Quorum
from kcli.broker.metadata.quorum_view import QuorumView, of_only_voter
from kcli.broker.process.clock import Clock
from kcli.log.disk import Disk
from kcli.log.live.validator import Origin
from kcli.metadata.image import MetadataImage
from kcli.metadata_log.bootstrap import read_bootstrap
from kcli.metadata_log.records import CONTROL
from kcli.metadata_log.snapshot_file import SnapshotId
from kcli.raft.voters import Endpoints

TIMESTAMP: Final = slice(35, 43)
"""The positions, in a batch, of the bytes of its largest timestamp."""


class LoneMetadataLog(MetadataLog):
    """The metadata log of a node that is the only voter of its quorum."""

    def __init__(
        self,
        log_directory: Path,
        *,
        node_id: int,
        directory_id: str,
        endpoints: Endpoints = (),
        config: MetadataLogConfig | None = None,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Open or create the log in metadata.log.dir, which must be formatted and locked. Begin a new leader epoch.

        directory_id: the directory id in the meta.properties of log_directory. endpoints: this node's endpoints in
        controller.quorum.voters. The constructor waits for some flushes. Raises StartRefused, UnreadableInput,
        NotTheOnlyVoter, OSError.
        """
        super().__init__(log_directory, config=config, disk=disk, clock=clock)
        self.quorum = Quorum(node_id, directory_id, endpoints)
        self._draft = draft = MetadataImage()
        self._clean_due = False
        self._turn: asyncio.Task[None] | None = None
        self._log.update_high_watermark(self._log.log_end_offset)
        try:
            replay = Replay((self.image, draft), self.quorum)
            replay.run(self._log, self._snapshots)
            self._last_timestamp_ms = replay.last_timestamp_ms
            self._start_upkeep(replay.bytes_since_snapshot)
            self.next_offset = self._log.log_end_offset
            self._lead(draft)
        except BaseException:
            self._log.close_handles()
            raise

    def _lead(self, draft: MetadataImage) -> None:
        """Begin a leader epoch, and write the first records of an active controller."""
        latest = self._snapshots.latest
        last_epoch = self._log.latest_epoch or (0 if latest is None else latest.epoch)
        begin = self.quorum.begin_epoch(self._disk, self._log.directory, last_epoch, self.next_offset)
        self._write(write_batch(begin, self._clock.now_ms(), attributes=CONTROL))
        self.next_offset += len(begin)
        bootstrap = [] if self.image.metadata_version else read_bootstrap(self._directory)
        records = activation(self.image, bootstrap, self.config.min_insync_replicas)
        if records:
            prepared, batches = self._prepare(draft, records)
            for data in batches:
                self._write(data)
            apply(draft, prepared, self.next_offset)
            apply(self.image, prepared, self.next_offset)
            self.next_offset += len(prepared)
        self._log.flush(self._clock.now_ms())
        self._log.update_high_watermark(self._log.log_end_offset)
        draft.take_changes()

    @property
    def is_leader(self) -> bool:
        return True

    @property
    def leader_id(self) -> int | None:
        return self.quorum.node_id

    @property
    def leader_address(self) -> tuple[str, int] | None:
        return None

    @property
    def epoch(self) -> int:
        """The current leader epoch, which began when this node started."""
        return self.quorum.epoch

    @property
    def kraft_version(self) -> int:
        return self.quorum.kraft_version

    def kraft_upgrade(self, *, validate_only: bool) -> Callable[[int], None]:
        return partial(self._upgrade_kraft, validate_only=validate_only)

    def _upgrade_kraft(self, level: int, *, validate_only: bool) -> None:
        """Queue the control records that raise kraft.version to `level`. Do nothing if kraft.version has that level
        already, if the control records are queued already, or with `validate_only`. A later `append` without records
        waits for their commit."""
        if level == self.kraft_version or validate_only or any(each.controls for each in self._queue):
            return
        records = self.quorum.upgrade()
        batch = write_batch(records, self._clock.now_ms(), attributes=CONTROL)
        done: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        controls = [parse(key, value) for key, value in records]
        self._queue.append(Append((), self.next_offset, [batch], done, controls))
        self.next_offset += len(controls)
        self._take_turns()

    @property
    def view(self) -> QuorumView:
        quorum = self.quorum
        return of_only_voter(quorum.node_id, quorum.directory, self.epoch, self.next_offset, self.high_watermark)

    # appending to the metadata log

    def _appended(self, one: Append) -> None:  # noqa: ARG002  (the caller passes the append)
        self._take_turns()

    def _write(self, data: bytearray) -> None:
        self._log.append_as_leader(data, self.quorum.epoch, self._clock.now_ms(), origin=Origin.COORDINATOR)
        self._last_timestamp_ms = int.from_bytes(data[TIMESTAMP])
        self._upkeep.appended(len(data))

    def _take_turns(self) -> None:
        if self._turn is None:
            self._turn = asyncio.get_running_loop().create_task(self._turns())

    async def _turns(self) -> None:
        try:
            while self._queue or self._clean_due or self._can_snapshot:
                if self._queue:
                    await self._commit()
                if self._can_snapshot:
                    await self._begin_snapshot()
                if self._clean_due:
                    self._clean_due = False
                    self._upkeep.clean(self._log, self._clock.now_ms())
        except Exception as error:  # noqa: BLE001 (after any error the log is not used any more)
            self._fail(error)
        finally:
            self._turn = None

    async def _commit(self) -> None:
        """Write, flush and apply queued records, at most as many as may be applied in one turn of the event loop."""
        group = self._group()
        for each in group:
            for data in each.batches:
                self._write(data)
        flush = self._log.begin_flush()
        if flush is not None:
            await self._in_thread(flush.run)
            self._log.end_flush(flush, self._clock.now_ms())
        self._log.update_high_watermark(self._log.log_end_offset)
        for each in group:
            apply(self.image, each.records, each.first_offset)
            self.quorum.follow(each.controls, each.first_offset)
            if each.records:
                self._call_listeners(each.records)
            if not each.done.done():
                each.done.set_result(each.end_offset - 1)
        del self._queue[: len(group)]
        if self._upkeep.is_snapshot_due(self._clock.now_ms()) and not self._closed:
            _ = self.take_snapshot()

    def _group(self) -> list[Append]:
        count = 0
        for i, each in enumerate(self._queue):
            count += len(each.records)
            if count > SLICE_RECORDS and i:
                return self._queue[:i]
        return self._queue[:]

    # upkeep

    def _snapshot_at(self) -> tuple[SnapshotId, Sequence[Pair]]:
        return SnapshotId(self._log.high_watermark, self.quorum.epoch), self.quorum.controls()

    def _snapshot_written(self, which: SnapshotId) -> None:
        """Do nothing, as there is no other node that could fetch the snapshot."""

    def _clean_soon(self) -> None:
        self._clean_due = True
        self._take_turns()

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._stop_timers()
        while (task := self._turn or self._upkeep.writing) is not None:
            await asyncio.wait([task])
        await self._close_files()
