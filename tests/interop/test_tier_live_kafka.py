"""The tier of a running Kafka with LocalTieredStorage, read beside it: leader epochs, a kill, aborted transactions,
records deleted up to the middle of a batch, a deleted topic."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from formats.file_name import FileKind
from kcli.inspector.tier import Orphans, TierVerification
from kcli.inspector.verify import Verification
from kcli.log.disk import Disk
from kcli.log.log_directory import LogDirectory
from kcli.tier.fetch import fetch
from kcli.tier.local import LocalStore
from kcli.tier.tier import PartitionTier, Tier, chosen
from tests.cli.run import kcli
from tests.inspector.jsonl import field_bytes
from tests.interop import kit
from tests.interop.kit import kafka
from tests.interop.test_restore_kafka import consumed

NODE = f"kcli-live-tier-{os.getpid()}"
TOPIC = "ev"
POM = Path(__file__).with_name("tier-pom.xml")
JAR = "kafka-storage-4.3.0-test.jar"
WAIT_S = 60.0


@pytest.fixture(scope="module")
def tiered_storage(kafka_jars: Path) -> str:
    """The class path of LocalTieredStorage, which is in a jar of Kafka's tests; it is fetched once."""
    jars = kit.kit_dir() / "extra"
    if not (jars / JAR).exists():
        if shutil.which("mvn") is None:
            pytest.skip(f"{JAR} is not in {jars}, and no mvn on the PATH")
        fetch_jars = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        done = subprocess.run(fetch_jars, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{JAR} cannot be fetched: {(done.stderr or done.stdout).strip()[-300:]}")
    return f"{jars}/*"


class Live:
    """A running Kafka with a tier."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.address = ""

    def start(self) -> None:
        storage = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
        settings = {
            "remote.log.storage.system.enable": "true",
            "remote.log.storage.manager.class.name": storage,
            "rsm.config.dir": str(self.store),
            "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
            "rlmm.config.remote.log.metadata.topic.num.partitions": "3",
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            "remote.log.manager.task.interval.ms": "300",
            "log.retention.check.interval.ms": "300",
            "log.initial.task.delay.ms": "300",
        }
        printed = kafka("start", NODE, *(f"{name}={value}" for name, value in settings.items()))
        self.address = printed.strip().splitlines()[-1]

    @property
    def data(self) -> Path:
        return Path(kafka("dir", NODE).strip())

    def tier(self) -> Tier:
        return Tier.read(LocalStore(self.store), self.data)

    def partition(self) -> PartitionTier:
        (found,) = [each for each in self.tier().partitions if each.partition.topic == TOPIC]
        return found

    def produce(self, begin: int) -> None:
        """Records in small batches, every third hundred in a transaction that is aborted."""
        common = {"bootstrap.servers": self.address, "batch.size": 800, "linger.ms": 5}
        producer = Producer({**common, "transactional.id": f"t-{begin}"})
        producer.init_transactions(30)
        for hundred in range(begin, begin + 400, 100):
            producer.begin_transaction()
            for number in range(hundred, hundred + 100):
                producer.produce(TOPIC, key=f"{number}", value=f"value-{number}-{'x' * 60}", partition=0)
            producer.flush(30)
            if hundred // 100 % 3 == 1:
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)

    def wait(self, what: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not what():
            assert time.monotonic() < deadline, kafka("log", NODE)[-2000:]
            time.sleep(0.2)

    def epochs(self) -> set[int]:
        """The leader epochs in the tier."""
        return {epoch for segment in self.partition().copied() for epoch, _ in segment.leader_epochs}

    def is_tiered(self) -> bool:
        """Whether the tier has all but the active segment, and the local log no more than that one. A copy that the
        kill has ended stays unfinished."""
        each = self.partition()
        local = None if each.local is None else each.local.first_offset
        return local is not None and local == max((one.end_offset + 1 for one in each.copied()), default=0)


@pytest.fixture
def live(tiered_storage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.setenv("KAFKA_CLASSPATH", tiered_storage)
    (tmp_path / "store").mkdir()
    node = Live(tmp_path / "store")
    try:
        node.start()
        yield node
    finally:
        kafka("stop", NODE)
        kafka("rm", NODE)


def record(each: dict[str, Any]) -> tuple[int, bytes | None, bytes | None]:
    return each["offset"], field_bytes(each["key"]), field_bytes(each["value"])


def test_the_tier_of_a_running_kafka(live: Live, tmp_path: Path) -> None:
    configs = ("remote.storage.enable=true", "internal.segment.bytes=8000", "local.retention.ms=500")
    create = ["--bootstrap-server", live.address, "--create", "--topic", TOPIC, "--partitions", "1"]
    kafka("topics", *create, *(word for each in configs for word in ("--config", each)))
    live.produce(0)
    kafka("kill", NODE)
    live.start()
    live.produce(400)
    live.wait(lambda: live.is_tiered() and len(live.epochs()) > 1)

    start = next(each.start_offset for each in live.partition().copied() if each.start_offset > 100) + 3
    wanted = {"partitions": [{"topic": TOPIC, "partition": 0, "offset": start}], "version": 1}
    (tmp_path / "offsets.json").write_text(json.dumps(wanted))
    asked = ["--bootstrap-server", live.address, "--offset-json-file", str(tmp_path / "offsets.json")]
    kafka("delete-records", *asked)
    live.wait(lambda: live.partition().copied()[0].start_offset > 0)
    live.wait(live.is_tiered)

    tier = live.tier()
    assert [each for each in TierVerification(tier).findings() if each.severity != "info"] == []
    assert [each for each in Orphans(tier).findings() if each.severity != "info"] == []
    (result,) = fetch(tier, chosen(tier.partitions, TOPIC, None), tmp_path / "new", disk=Disk())
    assert (result.missing, result.troubles, result.first_offset) == ([], [], start)
    assert LogDirectory(tmp_path / "new").offsets(FileKind.LOG_START_OFFSETS) == {(TOPIC, 0): start}
    assert [each for each in Verification([tmp_path / "new"]).findings() if each.severity != "info"] == []

    theirs = consumed(live.address, [TOPIC], "read_uncommitted")[TOPIC]
    dumped = kcli("dump-segment", "--format", "jsonl", tmp_path / f"new/{TOPIC}-0").stdout.splitlines()
    ours = [record(each) for each in map(json.loads, dumped) if not each["is_control"] and each["offset"] >= start]
    assert ours == [(each["offset"], each["key"], each["value"]) for each in theirs]
    committed = consumed(live.address, [TOPIC], "read_committed")[TOPIC]

    # Kafka goes on with what was fetched in place of its own log, without the tier
    kafka("stop", NODE)
    target = live.data / f"{TOPIC}-0"
    shutil.rmtree(target)
    shutil.copytree(tmp_path / f"new/{TOPIC}-0", target)
    live.store.rename(tmp_path / "away")
    live.store.mkdir()
    printed = kafka("start", NODE, "log.initial.task.delay.ms=600000", "remote.log.manager.task.interval.ms=600000")
    live.address = printed.strip().splitlines()[-1]
    assert consumed(live.address, [TOPIC], "read_uncommitted")[TOPIC] == theirs
    assert consumed(live.address, [TOPIC], "read_committed")[TOPIC] == committed
    assert len(committed) < len(theirs)


def test_a_deleted_topic_leaves_nothing(live: Live) -> None:
    create = ["--bootstrap-server", live.address, "--create", "--topic", TOPIC, "--partitions", "1"]
    kafka("topics", *create, "--config", "remote.storage.enable=true", "--config", "internal.segment.bytes=8000")
    live.produce(0)
    live.wait(lambda: len(live.partition().copied()) > 3)
    kafka("topics", "--bootstrap-server", live.address, "--delete", "--topic", TOPIC)
    live.wait(lambda: live.partition().cache.segments() == [])
    tier = live.tier()
    assert list(TierVerification(tier).findings()) == []
    assert [each for each in Orphans(tier).findings() if each.severity != "info"] == []
