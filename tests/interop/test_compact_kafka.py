"""Real Kafka starts on a log directory that kcli compacted: it repairs and cleans nothing, and has the same records."""

import base64
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from kcli.inspector.verify import Verification
from kcli.log.cleaner.log_cleaner import LogCleaner, PartitionOutcome
from kcli.log.config import CleanerConfig
from kcli.log.disk import Disk
from tests.conftest import read_jsonl
from tests.interop.kit import SCRIPT, kafka
from tests.interop.test_recover_kafka import REPAIRS
from tests.log.cleaner.test_crash import DeadDisk
from tests.log.cleaner.test_golden import BROKER, COMPACT, PARAMS, config_of
from tests.log.crash_disk import Crash

NODE, CRASHED_NODE = f"kcli-compacted-{os.getpid()}", f"kcli-compaction-crashed-{os.getpid()}"
OPEN = "c-txn-open"  # its transactions time out meanwhile, so that markers follow at the log end
PRINTED = ("print.offset=true", "print.partition=true", "print.key=true", "print.value=false")
LINE = re.compile(r"Partition:(\d+)\tOffset:(\d+)\t(.*)")


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """golden/compact/before, compacted to a new directory."""
    cleaner = LogCleaner(
        COMPACT / "before",
        lambda topic: config_of(topic, COMPACT / "after"),
        CleanerConfig.of(BROKER),
        now_ms=PARAMS["times"]["after"]["cleaner_settled_ms"],
        disk=Disk(),
    )
    assert [outcome.error for outcome in cleaner.into(tmp_path / "logs") if outcome.error] == []
    return tmp_path / "logs"


def consumed(address: str, topics: str, isolation: str) -> Counter[tuple[int, int, str]]:
    """Partition, offset and key of every record that Kafka's console consumer prints."""
    command = [str(SCRIPT), "consumer", "--bootstrap-server", address, "--include", topics, "--from-beginning"]
    command += ["--timeout-ms", "10000", "--isolation-level", isolation]
    command += [part for each in PRINTED for part in ("--property", each)]
    done = subprocess.run(command, capture_output=True, timeout=180, check=False)
    return Counter(
        (int(partition), int(offset), key) for partition, offset, key in LINE.findall(done.stdout.decode("latin-1"))
    )


def truth(folder: Path) -> Counter[tuple[int, int, str]]:
    """Return the same of what a consumer read after Kafka's own cleaning, for all topics but the open one."""
    found: Counter[tuple[int, int, str]] = Counter()
    for path in folder.glob("c-*.jsonl.gz"):
        for row in read_jsonl(path):
            if row["topic"] != OPEN:
                key = "null" if row["key"] is None else base64.b64decode(row["key"]).decode("latin-1")
                found[row["partition"], row["offset"], key] += 1
    return found


def opened(
    logs: Path, node: str, *views: tuple[str, str], options: Sequence[str] = ()
) -> tuple[list[Counter[tuple[int, int, str]]], str, str]:
    """Start Kafka on a copy of a directory. Return what consumers read of (topics, isolation), the end offsets, and its
    log."""
    address = kafka("open", str(logs), node, *options).strip()
    try:
        offsets = kafka("get-offsets", "--bootstrap-server", address)
        read = [consumed(address, *view) for view in views]
    finally:
        kafka("stop", node)
    return read, offsets, kafka("log", node)


def test_kafka_starts(kafka_jars: Path, logs: Path) -> None:
    committed = ("c-txn|c-txn-default", "read_committed")
    all_but_open = (f"c-(?!{OPEN.removeprefix('c-')}).*", "read_uncommitted")
    (everything, mine), offsets, log = opened(logs, NODE, all_but_open, committed)
    node = Path(kafka("dir", NODE).strip())
    findings = list(Verification([node / "c-plain-0", node / "c-txn-0"]).findings())
    kafka("rm", NODE)
    assert not REPAIRS.findall(log)
    # transactional ids expire after a week, and Kafka may then clean their records
    assert set(re.findall(r"Beginning cleaning of log (c-\S+)", log)) <= {f"{OPEN}-0"}
    described = json.loads((COMPACT / "expected/offsets-after.json").read_text())
    expected = {f"{name}:{i}:{end}" for name, each in described.items() for i, end in enumerate(each["high_watermark"])}
    assert {each for each in offsets.split() if not each.startswith(f"{OPEN}:")} >= {
        each for each in expected if not each.startswith(f"{OPEN}:")
    }
    assert everything == truth(COMPACT / "expected/truth/after")
    assert [each for each in findings if each.severity == "error"] == []

    (theirs,), _, _ = opened(COMPACT / "after", NODE, committed)
    kafka("rm", NODE)
    assert mine == theirs
    assert mine.total() > 0


class Crashed(NamedTuple):
    """A log directory in which each partition's cleaner died at some operation, and the states of files that were
    left."""

    logs: Path
    states: set[str]


@pytest.fixture
def crashed(tmp_path: Path) -> Crashed:
    """Compact golden/compact/before in place with a cleaner that dies in each partition at another operation."""
    calm, logs = tmp_path / "calm", tmp_path / "crashed"
    for copy in (calm, logs):
        shutil.copytree(COMPACT / "before", copy)
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
    partitions = sorted(path.name for path in logs.glob("c-*"))
    for i, name in enumerate(partitions):
        disk = DeadDisk()
        list(in_place(calm / name, disk))
        for part in ((i + 0.5) / len(partitions), 1 - 0.2 * i / len(partitions)):  # the swap comes at the end
            with suppress(Crash):
                list(in_place(logs / name, DeadDisk(max(1, int(part * disk.operations)), seed=i)))
    (logs / ".kafka_cleanshutdown").unlink()
    return Crashed(logs, {path.suffix for path in logs.glob("c-*/*") if path.suffix in STATES})


STATES = {".cleaned", ".swap", ".deleted"}


def in_place(partition: Path, disk: Disk) -> Iterator[PartitionOutcome]:
    cleaner = LogCleaner(
        partition,
        lambda topic: config_of(topic, COMPACT / "after"),
        CleanerConfig.of(BROKER),
        now_ms=PARAMS["times"]["after"]["cleaner_settled_ms"],
        disk=disk,
    )
    return cleaner.in_place()


def test_kafka_ends_what_a_crash_left(kafka_jars: Path, crashed: Crashed) -> None:
    assert crashed.states == STATES
    view = (f"c-(?!{OPEN.removeprefix('c-')}).*", "read_uncommitted")
    (everything,), offsets, log = opened(crashed.logs, CRASHED_NODE, view, options=["log.cleaner.enable=false"])
    node = Path(kafka("dir", CRASHED_NODE).strip())
    left = {path.suffix for path in node.glob("c-*/*")}
    findings = list(Verification(sorted(node.glob("c-*"))).findings())
    kafka("rm", CRASHED_NODE)
    assert set(REPAIRS.findall(log)) <= {"orphaned index"}  # of a log that was renamed before the crash
    assert not left & STATES
    assert truth(COMPACT / "expected/truth/after") <= everything <= truth(COMPACT / "expected/truth/before")
    described = json.loads((COMPACT / "expected/offsets-after.json").read_text())
    expected = {f"{name}:{i}:{end}" for name, each in described.items() for i, end in enumerate(each["high_watermark"])}
    assert {each for each in offsets.split() if not each.startswith(f"{OPEN}:")} >= {
        each for each in expected if not each.startswith(f"{OPEN}:")
    }
    assert [each for each in findings if each.severity == "error"] == []
