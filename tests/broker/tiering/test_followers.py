"""Followers of a leader whose log begins in tiered storage: they begin behind it, with its epochs and producers, and
can lead; brokers in one process, with real logs and a store in a directory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from formats.file_name import FileKind
from kcli.broker.partition.partitions import Partition
from kcli.broker.tiering.reading import TierReading
from kcli.log.live.partition_log import PartitionLog
from kcli.metadata.partition import from_uuid
from kcli.protocol.error_code import ErrorCode
from kcli.tier.cache import SegmentCache
from kcli.tier.layout import object_name
from kcli.tier.metadata import RemoteLogMetadata
from kcli.tier.segment import SegmentState, TieredPartition
from tests.broker.log_dirs import TOPIC_ID
from tests.broker.replication.brokers import Brokers, run, until
from tests.broker.replication.test_brokers import contents, ends, in_sync
from tests.broker.tiering.test_fetch import Hanging
from tests.broker.tiering.tier_reader import Known, Quota, next_offset, records_of
from tests.tier.records import started, updated, uuid

NONE = ErrorCode.NONE
TIERED = TieredPartition("t", 0, from_uuid(TOPIC_ID))
OPTIONS = {
    "remote_log_storage_system_enable": "true",
    "log_local_retention_bytes": "1",
    "replica_lag_time_max_ms": "1000",
}


class Tier:
    """A store, what is in it, and the brokers that use it. Nothing is copied but by `copy`."""

    def __init__(self, home: Path, cluster: Brokers) -> None:
        (home / "tier").mkdir()
        self.store = Hanging(home / "tier")
        self.metadata = RemoteLogMetadata()
        self.metadata.caches[TIERED] = SegmentCache()
        self.home, self.cluster = home, cluster
        self.count = 0

    async def start(self, *node_ids: int) -> None:
        """Start brokers that have the tier."""
        begun = self.cluster.nodes.copy()
        await self.cluster.start(*node_ids)
        assert begun.keys().isdisjoint(node_ids)
        for node_id in node_ids:
            broker = self.cluster.nodes[node_id]
            reading = TierReading(broker.config, self.store, Known(self.metadata.caches), Quota())
            await reading.start()
            broker.tier, broker.replicas.tier = reading.reader, reading.states

    def copy(self, log: PartitionLog) -> None:
        """Copy all closed segments of a leader's log that are not in the tier yet."""
        for each in log.closed_segments(log.highest_tiered_offset + 1, log.last_stable_offset):
            self.count += 1
            segment_id = uuid(self.count)
            paths = {
                FileKind.LOG: each.log_path,
                FileKind.OFFSET_INDEX: each.offset_index_path,
                FileKind.TIME_INDEX: each.time_index_path,
                FileKind.TXN_INDEX: each.txn_index_path,
                FileKind.PRODUCER_SNAPSHOT: each.producer_snapshot_path,
            }
            contents = {kind: path.read_bytes() for kind, path in paths.items() if path is not None}
            contents[FileKind.REMOTE_LEADER_EPOCHS] = log.epochs_to(each.next_offset)
            for kind, data in contents.items():
                self.store.write(object_name(TIERED, each.base_offset, segment_id, kind), [data])
            epochs = [tuple(entry) for entry in log.epoch_starts(each.base_offset, each.next_offset)]
            last = each.next_offset - 1
            whose = {"partition": TIERED}
            self.metadata.replay(started(segment_id, each.base_offset, last, epochs, size=each.size, **whose))  # type: ignore[arg-type]
            self.metadata.replay(updated(segment_id, SegmentState.COPY_SEGMENT_FINISHED, **whose))  # type: ignore[arg-type]
            log.update_highest_tiered(last)


async def fill(tier: Tier, leader: int, *, segments: int = 4, first: int = 0) -> list[bytes]:
    """Produce to the leader, some batches in each segment, and copy the closed ones. Returns the values."""
    values, now_ms = [], tier.cluster.nodes[leader].clock.now_ms()
    partition = tier.cluster.partition(leader)
    for number in range(segments):
        for i in range(3):
            batch = [b"%d-%d-%d-%d" % (first, number, i, each) for each in range(2)]
            sequence = (number * 3 + i) * 2
            code, _ = await tier.cluster.produce(
                leader, *batch, acks=1, producer=(first + 7, 0), sequence=sequence, timestamp_ms=now_ms
            )
            assert code == NONE
            values += batch
        if number < segments - 1:
            partition.log.roll(0)
    await until(lambda: partition.log.high_watermark == partition.log.log_end_offset)
    tier.copy(partition.log)
    return values


def forget_locally(partition: Partition) -> None:
    """Delete the local segments that the tier has."""
    for removal in partition.log.delete_old_segments(1 << 60):
        removal.run()


async def read_all(tier: Tier, node_id: int) -> list[bytes]:
    """The values of all records from offset 0 on, as a consumer reads them."""
    at, values = 0, []
    end = tier.cluster.partition(node_id).log.high_watermark
    while at < end:
        found = await tier.cluster.fetch(node_id, at)
        assert found.error_code == NONE, found
        records, table = records_of(memoryview(found.records))
        values += [each[4] or b"" for each in records if each[0] >= at]
        at = next_offset(table)
    return values


def state(cluster: Brokers, node_id: int) -> tuple[object, ...]:
    """What a follower has to have as its leader has it."""
    log = cluster.partition(node_id).log
    entry = cluster.partition(node_id).producer(7)
    assert entry is not None
    return log.log_start_offset, log.log_end_offset, log.high_watermark, log.leader_epochs, entry


def tiering(home: Path, check: Callable[[Tier], Awaitable[None]], **options: str) -> None:
    async def with_tier(cluster: Brokers) -> None:
        tier = Tier(home, cluster)
        try:
            await check(tier)
        finally:
            tier.store.gate.set()

    run(home, with_tier, **OPTIONS, **options)


@pytest.mark.parametrize("has_records", [False, True])
def test_a_follower_begins_behind_the_tier_and_leads(tmp_path: Path, has_records: bool) -> None:
    async def check(tier: Tier) -> None:
        cluster = tier.cluster
        await tier.start(1, *([2] if has_records else []))
        cluster.create_topic(replicas=(1, 2))
        cluster.configure("remote.storage.enable", "true")
        if has_records:
            assert await cluster.produce(1, b"first") == (NONE, 0)
            await until(lambda: ends(cluster) == {(1, 1)})
            await cluster.stop(2)
        cluster.change(isr=[1])
        values = [b"first"] if has_records else []
        values += await fill(tier, 1)
        cluster.change(leader=1, isr=[1])  # another leader epoch
        values += await fill(tier, 1, first=1)
        leader = cluster.partition(1)
        forget_locally(leader)
        begin = leader.log.local_log_start_offset
        assert begin > 30
        assert leader.log.leader_epochs[0].start_offset == 0 < leader.log.leader_epochs[1].start_offset < begin
        await tier.start(2)
        await until(lambda: len(ends(cluster)) == 1 and in_sync(cluster) == (1, 2))
        follower = cluster.partition(2).log
        assert follower.local_log_start_offset == follower.first_base_offset == begin
        assert state(cluster, 2) == state(cluster, 1)
        assert await cluster.produce(1, b"goes on") == (NONE, leader.log.log_end_offset - 1)
        await until(lambda: len(ends(cluster)) == 1)
        values.append(b"goes on")
        await cluster.kill(1)
        cluster.change(leader=2, isr=[2])
        assert await read_all(tier, 2) == values
        assert (await cluster.produce(2, b"more"))[0] == NONE
        await cluster.stop(2)
        await tier.start(2)  # what was built lasts
        assert cluster.partition(2).log.log_start_offset == 0
        assert await read_all(tier, 2) == [*values, b"more"]

    tiering(tmp_path, check)


def test_a_follower_begins_behind_the_last_tiered_offset(tmp_path: Path) -> None:
    """With follower.fetch.last.tiered.offset.enable, what the leader has both here and there is not fetched
    (KIP-1023)."""

    async def check(tier: Tier) -> None:
        cluster = tier.cluster
        await tier.start(1)
        cluster.create_topic(replicas=(1, 2))
        cluster.configure("remote.storage.enable", "true")
        cluster.change(isr=[1])
        values = await fill(tier, 1, segments=2)
        leader = cluster.partition(1)
        forget_locally(leader)
        begin = leader.log.local_log_start_offset
        assert 0 < begin < 10
        leader.log.roll(0)
        values += await fill(tier, 1, first=1)
        pending = leader.log.highest_tiered_offset + 1
        assert begin < pending < leader.log.log_end_offset
        await tier.start(2)
        await until(lambda: len(ends(cluster)) == 1 and in_sync(cluster) == (1, 2))
        assert cluster.partition(2).log.local_log_start_offset == pending
        assert state(cluster, 2) == state(cluster, 1)
        await cluster.kill(1)
        cluster.change(leader=2, isr=[2])
        assert await read_all(tier, 2) == values

    tiering(tmp_path, check, follower_fetch_last_tiered_offset_enable="true")


def test_a_store_that_hangs_holds_up_one_partition(tmp_path: Path) -> None:
    async def check(tier: Tier) -> None:
        cluster = tier.cluster
        await tier.start(1)
        cluster.create_topic(partitions=2, replicas=(1, 2))
        cluster.configure("remote.storage.enable", "true")
        cluster.change(isr=[1])
        cluster.change(1, isr=[1])
        values = await fill(tier, 1)
        forget_locally(cluster.partition(1))
        tier.store.gate.clear()
        await tier.start(2)
        await asyncio.sleep(0.1)
        for i in range(5):
            assert await cluster.produce(1, b"x", number=1) == (NONE, i)
            await until(lambda: len(ends(cluster, 1)) == 1, 2)
        assert cluster.partition(2).log.log_end_offset == 0
        tier.store.error = OSError(5, "Input/output error", "tier")
        tier.store.gate.set()
        await asyncio.sleep(0.1)
        assert cluster.partition(2).log.log_end_offset == 0
        assert await cluster.produce(1, b"x", number=1) == (NONE, 5)
        await until(lambda: len(ends(cluster, 1)) == 1, 2)
        tier.store.error = None
        await until(lambda: len(ends(cluster)) == 1)
        assert state(cluster, 2) == state(cluster, 1)
        assert await read_all(tier, 1) == values
        assert contents(cluster, 1, 1) == contents(cluster, 2, 1)

    tiering(tmp_path, check)


def test_what_the_tier_does_not_have_yet(tmp_path: Path) -> None:
    """A follower without the segment's metadata, or without tiered storage, tries again; and a change of the leader
    epoch meanwhile begins anew."""

    async def check(tier: Tier) -> None:
        cluster = tier.cluster
        await tier.start(1)
        cluster.create_topic(replicas=(1, 2))
        cluster.configure("remote.storage.enable", "true")
        cluster.change(isr=[1])
        await fill(tier, 1)
        forget_locally(cluster.partition(1))
        known, tier.metadata.caches[TIERED] = tier.metadata.caches[TIERED], SegmentCache()
        await tier.start(2)
        states = cluster.nodes[2].replicas.tier
        cluster.nodes[2].replicas.tier = None
        await asyncio.sleep(0.1)
        cluster.nodes[2].replicas.tier = states
        await asyncio.sleep(0.1)
        assert cluster.partition(2).log.log_end_offset == 0
        tier.store.gate.clear()
        tier.metadata.caches[TIERED] = known
        await asyncio.sleep(0.2)
        cluster.change(leader=1, isr=[1])
        await asyncio.sleep(0.05)
        tier.store.gate.set()
        assert (await cluster.produce(1, b"of the new epoch", acks=1))[0] == NONE
        await until(lambda: len(ends(cluster)) == 1 and in_sync(cluster) == (1, 2))
        assert state(cluster, 2) == state(cluster, 1)

    tiering(tmp_path, check)
