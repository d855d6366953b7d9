"""Real Kafka starts on a node's directory to which `kcli tier attach` has attached topics: it reads all of them from
the tier, appends behind them, and copies what is appended."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from formats.checkpoint import parse_leader_epochs
from kcli.tier.local import LocalStore
from kcli.tier.segment import SegmentState
from kcli.tier.tier import Tier
from tests.cli.run import kcli
from tests.interop.kit import kafka
from tests.interop.test_restore_kafka import consumed, wanted
from tests.interop.test_tier_live_kafka import tiered_storage
from tests.tier.stores import TIERED

__all__ = ["tiered_storage"]

NODE = f"kcli-attach-{os.getpid()}"
TOPICS = {"r-short": 2, "r-keep": 1}
ENDS = {("r-short", 0): 254, ("r-short", 1): 282, ("r-keep", 0): 224}
OPEN = {("r-short", 0): 253, ("r-short", 1): 279, ("r-keep", 0): 220}
"""Where transactions begin whose ends are behind the tier."""
NO_AUTO_CREATE = {"auto.create.topics.enable": "false"}
"""For a client of another test that still asks for its topics at this port."""
SETTINGS = NO_AUTO_CREATE | {
    "remote.log.storage.system.enable": "true",
    "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
    "remote.log.metadata.manager.listener.name": "PLAINTEXT",
    "remote.log.manager.task.interval.ms": "300",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "300",
}


@contextmanager
def running(store: Path, partitions: int) -> Iterator[str]:
    more = {"rsm.config.dir": str(store), "rlmm.config.remote.log.metadata.topic.num.partitions": str(partitions)}
    address = kafka("start", NODE, *(f"{name}={value}" for name, value in (SETTINGS | more).items())).split()[-1]
    try:
        yield address
    finally:
        kafka("stop", NODE)


@pytest.mark.parametrize("has_tier", [True, False])
def test_kafka_goes_on_with_what_was_attached(  # noqa: PLR0915  (one story: each start of Kafka takes ten seconds)
    tiered_storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_tier: bool
) -> None:
    """has_tier: whether the cluster had tiered storage before, with a __remote_log_metadata of its own."""
    monkeypatch.setenv("KAFKA_CLASSPATH", tiered_storage)
    store = tmp_path / "store"
    shutil.copytree(TIERED / "remote", store)
    try:
        if has_tier:
            with running(store, 3) as address:
                where = ["--bootstrap-server", address, "--create", "--partitions", "1", "--topic"]
                kafka("topics", *where, "own", "--config", "remote.storage.enable=true")
                while "__remote_log_metadata" not in kafka("topics", "--bootstrap-server", address, "--list"):
                    time.sleep(0.2)  # Kafka does not stop while it begins to use that topic
                time.sleep(2)
        else:
            kafka("start", NODE, *(f"{name}={value}" for name, value in NO_AUTO_CREATE.items()))
            kafka("stop", NODE)
        data = Path(kafka("dir", NODE).strip())
        for topic in TOPICS:
            words = ["tier", "attach", str(data), "--tier", str(store), "--topic", topic, "--metadata-partitions", "3"]
            before = sorted((each, each.stat().st_size) for each in data.rglob("*"))
            assert kcli(*words).status == 0
            assert sorted((each, each.stat().st_size) for each in data.rglob("*")) == before, "a dry run"
            done = kcli(*words, "--in-place", "-o", "segment.bytes=1048576", "-o", "local.retention.ms=1000")
            assert (done.status, "Attached" in done.stdout) == (0, True), done.stdout + done.stderr
        with running(store, 3) as address:
            for topic, theirs in once_ready(address).items():
                whole = wanted(TIERED / f"expected/truth/{topic}.jsonl.gz")
                assert theirs == [each for each in whole if each["offset"] < ENDS[topic, each["partition"]]]
            for (topic, partition), start in OPEN.items():
                place = ["--topic", topic, "--partition", str(partition), "--start-offset", str(start)]
                done = kcli("transactions", "abort", *place, "--execute", "-b", address)
                assert done.status == 0, done.stderr
            for topic, theirs in consumed(address, TOPICS, "read_committed").items():
                whole = wanted(TIERED / f"expected/truth/{topic}.read_committed.jsonl.gz")
                surely = [each for each in whole if each["offset"] < OPEN[topic, each["partition"]]]
                assert [each for each in theirs if each in surely] == surely
                assert [each for each in theirs if each not in whole] == []
            producer = Producer({"bootstrap.servers": address, "enable.idempotence": True})
            for number in range(3):
                producer.produce("r-keep", key=f"new-{number}", value=b"x" * 100, partition=0)
            assert producer.flush(30) == 0
            theirs = consumed(address, ["r-keep"], "read_uncommitted")["r-keep"]
            assert [(each["offset"], each["key"]) for each in theirs[-3:]] == [
                (ENDS["r-keep", 0] + 1 + number, f"new-{number}".encode()) for number in range(3)
            ]
            kafka("configs", "--bootstrap-server", address, "--alter", "--entity-type", "topics", "--entity-name",
                  "r-keep", "--add-config", "segment.ms=100")  # fmt: skip
            time.sleep(0.3)
            producer.produce("r-keep", key=b"last", value=b"y", partition=0)
            assert producer.flush(30) == 0
            deadline = time.monotonic() + 60
            while not copied(store, data, ENDS["r-keep", 0]):
                assert time.monotonic() < deadline, kafka("log", NODE)[-3000:]
                time.sleep(0.3)
        log = kafka("log", NODE)
        troubles = [line for line in log.splitlines() if " ERROR " in line and "RemoteLogReader" not in line]
        assert troubles == [], "but for reads before Kafka has read its metadata topic"
        epochs = parse_leader_epochs((data / "r-keep-0/leader-epoch-checkpoint").read_bytes())
        assert epochs[0].start_offset == 0, "the lineage of the tier is kept"
        golden = {path.relative_to(TIERED / "remote") for path in (TIERED / "remote").rglob("*.log")}
        assert golden <= {path.relative_to(store) for path in store.rglob("*.log")}, "Kafka deletes nothing"
    finally:
        kafka("rm", NODE)


def once_ready(address: str) -> dict[str, list[dict[str, Any]]]:
    """All records. Kafka answers UNKNOWN_SERVER_ERROR until it has read its metadata topic."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return consumed(address, TOPICS, "read_uncommitted")
        except AssertionError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.5)


def copied(store: Path, data: Path, offset: int) -> bool:
    """Whether Kafka has copied the segment that begins at the offset."""
    (keep,) = [each for each in Tier.read(LocalStore(store), data, "r-keep").partitions if each.cache.segments()]
    states = {each.start_offset: each.state for each in keep.cache.segments()}
    return states.get(offset) is SegmentState.COPY_SEGMENT_FINISHED
