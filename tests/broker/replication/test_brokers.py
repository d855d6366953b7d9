"""Replication between brokers in one process: acknowledgements, the ISR, and the truncation of followers."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kcli.log.live.partition_log import Isolation
from kcli.metadata.partition import from_uuid
from kcli.protocol.error_code import ErrorCode
from tests.broker.log_dirs import TOPIC_ID
from tests.broker.replication.brokers import Brokers, run, until
from tests.log.batches import batch

NONE = ErrorCode.NONE


def contents(cluster: Brokers, node_id: int, number: int = 0) -> bytes:
    """All bytes of a replica's log."""
    log = cluster.partition(node_id, number).log
    found, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, 1 << 24, Isolation.LOG_END)
        assert read.region is not None
        with read.region.path.open("rb") as file:
            file.seek(read.region.position)
            data = file.read(read.region.length)
        found += data
        position = 0
        while position < len(data):
            base, length = (
                int.from_bytes(data[position : position + 8]),
                int.from_bytes(data[position + 8 : position + 12]),
            )
            offset = base + int.from_bytes(data[position + 23 : position + 27]) + 1
            position += 12 + length
    return found


def ends(cluster: Brokers, number: int = 0) -> set[tuple[int, int]]:
    """Return log end offset and high watermark of all replicas."""
    logs = [cluster.partition(each, number).log for each in cluster.nodes]
    return {(log.log_end_offset, log.high_watermark) for log in logs}


def in_sync(cluster: Brokers, number: int = 0) -> tuple[int, ...]:
    """The ISR, as the controller has it."""
    state = cluster.image.partition(TOPIC_ID, number)
    assert state is not None
    return state.isr


def test_acks_all_waits_for_the_followers(tmp_path: Path) -> None:
    async def check(cluster: Brokers) -> None:
        await cluster.start(1, 2, 3)
        cluster.create_topic()
        for i in range(20):
            assert await cluster.produce(1, b"a%d" % i, b"b%d" % i) == (NONE, 2 * i)
            logs = [cluster.partition(each).log for each in (1, 2, 3)]
            assert [log.log_end_offset for log in logs] == [2 * i + 2] * 3
        await until(lambda: ends(cluster) == {(40, 40)})
        assert contents(cluster, 1) == contents(cluster, 2) == contents(cluster, 3)
        found = await cluster.fetch(1)
        assert (found.high_watermark, bytes(found.records)) == (40, contents(cluster, 1))
        assert bytes((await cluster.fetch(2, 0)).records) == contents(cluster, 1)  # from a follower

    run(tmp_path, check)


def test_a_follower_that_is_gone_leaves_and_comes_back(tmp_path: Path) -> None:
    async def check(cluster: Brokers) -> None:
        await cluster.start(1, 2, 3)
        cluster.create_topic()
        assert await cluster.produce(1, b"all") == (NONE, 0)
        await cluster.kill(3)
        assert await cluster.produce(1, b"two", timeout_ms=50) == (ErrorCode.REQUEST_TIMED_OUT, 1)
        assert await cluster.produce(1, b"more") == (NONE, 2)  # once 3 is out of the ISR
        assert cluster.altered == [(1, 2)]
        cluster.configure("min.insync.replicas", "3")
        assert await cluster.produce(1, b"refused") == (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
        assert await cluster.produce(1, b"one", acks=1) == (NONE, 3)
        # the ISR is smaller than min.insync.replicas: nothing is committed
        assert cluster.partition(1).log.high_watermark == 3
        await cluster.start(3)
        await until(lambda: cluster.altered == [(1, 2), (1, 2, 3)])
        await until(lambda: ends(cluster) == {(4, 4)})
        assert await cluster.produce(1, b"all") == (NONE, 4)
        assert len(cluster.partition(1)._end_watchers) == 2  # the watcher of broker 3's first life is gone

    run(tmp_path, check, replica_lag_time_max_ms="1500")


def test_leaders_change_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    async def check(cluster: Brokers) -> None:
        await cluster.start(1, 2, 3)
        cluster.create_topic()
        acknowledged = 0
        for leader, others in ((1, [2, 3]), (2, [3, 1]), (3, [1, 2])):
            for _ in range(10):
                code, offset = await cluster.produce(leader, b"x")
                assert code == NONE
                acknowledged = offset + 1
            lone = asyncio.create_task(cluster.produce(leader, b"waits", acks=-1))
            await asyncio.sleep(0)
            await cluster.kill(leader)
            cluster.change(leader=others[0], isr=others)
            lone.cancel()
            code, offset = await cluster.produce(others[0], b"goes on")
            assert code == NONE
            assert offset >= acknowledged
            await cluster.start(leader)
            await until(lambda: len(in_sync(cluster)) == 3)
            await until(lambda: len(ends(cluster)) == 1)
            assert contents(cluster, 1) == contents(cluster, 2) == contents(cluster, 3)

    run(tmp_path, check)


def test_a_producer_learns_that_the_leader_is_another(tmp_path: Path) -> None:
    async def check(cluster: Brokers) -> None:
        await cluster.start(1, 2)
        cluster.create_topic(replicas=(1, 2))
        assert await cluster.produce(1, b"x") == (NONE, 0)
        cluster.nodes[2].replicas.stop()
        waits = asyncio.create_task(cluster.produce(1, b"waits"))
        await asyncio.sleep(0.01)
        cluster.change(leader=2, isr=[2])
        assert (await waits)[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert (await cluster.produce(1, b"x"))[0] == ErrorCode.NOT_LEADER_OR_FOLLOWER

    run(tmp_path, check)


def test_who_does_not_lead_says_who_does(tmp_path: Path) -> None:
    async def check(cluster: Brokers) -> None:
        await cluster.start(1, 2)
        cluster.create_topic(replicas=(2, 1))
        data = [{"index": 0, "records": bytes(batch(b"x"))}]
        for version in (9, 10, 12):
            topics = [{"name": "t", "partition_data": data}]
            answer = await cluster.ask(1, "produce", version, acks=-1, timeout=1000, topic_data=topics)
            found = answer.responses[0].partition_responses[0]
            assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            if version > 9:
                assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, 0)
                assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == [(2, "localhost", 2)]
        cluster.change(leader=2)
        await cluster.produce(2, b"x")
        asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100, "current_leader_epoch": 0}
        wanted = [{"topic_id": TOPIC_ID, "partitions": [asked]}]
        answer = await cluster.ask(1, "fetch", 16, max_wait=0, min_bytes=1, max_bytes=100, topics=wanted)
        found = answer.responses[0].partitions[0]
        assert found.error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert found.current_leader == (2, 1)
        assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == [(2, "localhost", 2)]

    run(tmp_path, check)


def test_a_broker_without_a_replica_says_who_leads(tmp_path: Path) -> None:
    """A known topic of other brokers is NOT_LEADER_OR_FOLLOWER with the leader's hint (KIP-951), not an unknown topic:
    clients retry at the leader at once, where they would wait for an unknown topic to appear."""

    async def check(cluster: Brokers) -> None:
        await cluster.start(1, 2)
        cluster.create_topic(replicas=(2,))
        records = bytes(batch(b"x"))
        parts = [{"index": index, "records": records} for index in (0, 1)]
        for version in (9, 12):
            topics = [{"name": "t", "partition_data": parts}]
            answer = await cluster.ask(1, "produce", version, acks=-1, timeout=1000, topic_data=topics)
            found, unknown = answer.responses[0].partition_responses
            assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if version > 9:
                assert (found.current_leader.leader_id, found.current_leader.leader_epoch) == (2, 0)
                assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == [(2, "localhost", 2)]
        wanted = [{"partition": index, "fetch_offset": 0, "partition_max_bytes": 100} for index in (0, 1)]
        asked = [{"topic_id": TOPIC_ID, "partitions": wanted}]
        answer = await cluster.ask(1, "fetch", 16, max_wait=0, min_bytes=1, max_bytes=100, topics=asked)
        found, unknown = answer.responses[0].partitions
        assert found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert found.current_leader == (2, 0)
        assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert [(each.node_id, each.host, each.port) for each in answer.node_endpoints] == [(2, "localhost", 2)]

    run(tmp_path, check)


def test_an_unclean_leader_makes_the_others_cut_their_logs(tmp_path: Path) -> None:
    async def check(cluster: Brokers) -> None:
        await cluster.start(1, 2)
        cluster.create_topic(replicas=(1, 2))
        for _ in range(5):
            assert (await cluster.produce(1, b"both"))[0] == NONE
        await cluster.kill(2)
        cluster.fence(2)
        cluster.change(isr=[1])
        for i in range(5):
            assert await cluster.produce(1, b"lost %d" % i) == (NONE, 5 + i)
        await cluster.stop(1)
        await cluster.start(2)
        cluster.change(leader=2, isr=[2])
        for i in range(3):
            assert await cluster.produce(2, b"new %d" % i) == (NONE, 5 + i)
        await cluster.start(1)
        await until(lambda: ends(cluster) == {(8, 8)})
        assert contents(cluster, 1) == contents(cluster, 2)
        assert b"lost" not in contents(cluster, 1)

    run(tmp_path, check)


def test_a_follower_behind_the_leaders_start_begins_again(tmp_path: Path) -> None:
    async def check(cluster: Brokers) -> None:
        await cluster.start(1, 2)
        cluster.create_topic(replicas=(1, 2))
        assert (await cluster.produce(1, b"both"))[0] == NONE
        await cluster.stop(2)
        cluster.fence(2)
        cluster.change(isr=[1])
        for _ in range(9):
            assert (await cluster.produce(1, b"x"))[0] == NONE
        cluster.partition(1).delete_records(7)
        await cluster.start(2)
        await until(lambda: ends(cluster) == {(10, 10)})
        assert cluster.partition(2).log.log_start_offset == 7
        await until(lambda: in_sync(cluster) == (1, 2))
        asked = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 9}]}]
        answer = await cluster.ask(1, "delete_records", 2, topics=asked, timeout=5000)
        found = answer.topics[0].partitions[0]
        assert (found.error_code, found.low_watermark) == (NONE, 9)
        assert cluster.partition(2).log.log_start_offset == 9
        await cluster.stop(2)
        asked[0]["partitions"][0]["offset"] = 10  # type: ignore[index]
        answer = await cluster.ask(1, "delete_records", 2, topics=asked, timeout=50)
        found = answer.topics[0].partitions[0]
        assert (found.error_code, found.low_watermark) == (ErrorCode.REQUEST_TIMED_OUT, 9)
        cluster.fence(2)
        answer = await cluster.ask(1, "delete_records", 2, topics=asked, timeout=50)
        assert answer.topics[0].partitions[0].low_watermark == 10

    run(tmp_path, check)


def test_who_is_no_replica_or_of_another_epoch_gets_nothing(tmp_path: Path) -> None:
    async def check(cluster: Brokers) -> None:
        await cluster.start(1, 2, 3)
        cluster.create_topic(replicas=(1, 2))
        epochs = {each: cluster.nodes[1].image.brokers[each].epoch for each in (2, 3)}

        async def code(replica: int, epoch: int, leader_epoch: int = 0) -> ErrorCode:
            asked = {
                "partition": 0,
                "current_leader_epoch": leader_epoch,
                "fetch_offset": 0,
                "partition_max_bytes": 1000,
            }
            response = await cluster.ask(
                1,
                "fetch",
                17,
                replica_state={"replica_id": replica, "replica_epoch": epoch},
                max_wait=0,
                min_bytes=1,
                topics=[{"topic_id": cluster.image.topics["t"].id, "partitions": [asked]}],
            )
            found: ErrorCode = response.responses[0].partitions[0].error_code
            return found

        assert await code(2, epochs[2]) == NONE
        assert await code(2, -1) == NONE
        assert await code(2, epochs[2] - 1) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await code(3, epochs[3]) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert await code(2, epochs[2], 1) == ErrorCode.UNKNOWN_LEADER_EPOCH
        cluster.change(leader=1)
        assert await code(2, epochs[2], 0) == ErrorCode.FENCED_LEADER_EPOCH

    run(tmp_path, check)


def test_consumers_wait_for_the_high_watermark(tmp_path: Path) -> None:
    async def check(cluster: Brokers) -> None:
        await cluster.start(1, 2)
        cluster.create_topic(replicas=(1, 2))
        await asyncio.sleep(0.05)
        cluster.nodes[2].replicas.stop()
        waits = asyncio.create_task(cluster.fetch(1, wait_ms=3000))
        await asyncio.sleep(0.01)
        assert await cluster.produce(1, b"x", acks=1) == (NONE, 0)
        assert (await cluster.fetch(1)).records in (None, b"")
        await asyncio.sleep(0.05)
        assert not waits.done()
        cluster.nodes[2].replicas.start()
        assert (await waits).high_watermark == 1

    run(tmp_path, check)


def test_consumers_are_sent_to_a_replica_in_their_rack(tmp_path: Path) -> None:
    async def check(cluster: Brokers) -> None:
        await cluster.start(1, rack="a")
        await cluster.start(2, rack="b")
        cluster.create_topic(replicas=(1, 2))
        assert await cluster.produce(1, b"x") == (NONE, 0)
        assert (await cluster.fetch(1, rack="b")).preferred_read_replica == 2
        assert not (await cluster.fetch(1, rack="b")).records
        assert (await cluster.fetch(1, rack="a")).preferred_read_replica == -1
        assert (await cluster.fetch(1, rack="c")).records
        await until(lambda: cluster.partition(2).log.high_watermark == 1)
        assert (await cluster.fetch(2, rack="b")).records

    run(tmp_path, check, replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector")


def test_moved_replicas_keep_to_their_limit(tmp_path: Path) -> None:
    async def check(cluster: Brokers) -> None:
        await cluster.start(1, 2)
        cluster.create_topic(replicas=(1, 2))
        assert await cluster.produce(1, b"x") == (NONE, 0)
        await cluster.stop(2)
        cluster.fence(2)
        cluster.change(isr=[1])
        for _ in range(20):
            assert (await cluster.produce(1, b"x" * 1000))[0] == NONE
        for name in ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas"):
            cluster.configure(name, "*")
        throttle = cluster.nodes[1].replicas.leader_throttle
        cluster.nodes[1].config.update({}, {"leader.replication.throttled.rate": "1"})
        throttle.reconfigured()
        throttle.sent(cluster.partition(1), 10_000)
        await cluster.start(2)
        await asyncio.sleep(0.3)
        assert cluster.partition(2).log.log_end_offset == 1
        assert in_sync(cluster) == (1,)
        cluster.nodes[1].config.update({}, {})
        throttle.reconfigured()
        await until(lambda: in_sync(cluster) == (1, 2))
        assert ends(cluster) == {(21, 21)}

    run(tmp_path, check)


def test_many_partitions_share_their_fetchers(tmp_path: Path) -> None:
    async def check(cluster: Brokers) -> None:
        await cluster.start(1, 2)
        cluster.create_topic(partitions=9, replicas=(1, 2))
        for i in range(3):
            sent = [cluster.produce(1, b"%d" % number, number=number) for number in range(9)]
            assert await asyncio.gather(*sent) == [(NONE, i)] * 9
        await until(lambda: all(ends(cluster, number) == {(3, 3)} for number in range(9)))
        sessions = [each for each in cluster.nodes[1].sessions._sessions.values() if each.tracker is not None]
        assert sorted(len(each.partitions) for each in sessions) == [4, 5]
        cluster.apply(("RemoveTopicRecord", {"topicId": from_uuid(TOPIC_ID)}))
        assert not any(each.plan.partitions for each in cluster.nodes[2].replicas._fetchers.values())

    run(tmp_path, check, num_replica_fetchers="2")
