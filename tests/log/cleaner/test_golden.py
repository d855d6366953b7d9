"""golden/compact: what Kafka's cleaner made of 21 topics, and what kcli makes of them.

Kept different on purpose:
- compressed batches: another build of a codec writes other bytes, hence other lengths, CRCs and index positions;
- a snapshot at no segment's base: Kafka's start removes it as stray once there is a later one, not its cleaner;
- `.deleted` files: Kafka leaves them for file.delete.delay.ms;
- leader-epoch-checkpoint: the broker that ran the cleaner became leader anew, and wrote that down.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from formats.checkpoint import parse_leader_epochs, parse_offsets
from formats.kernels.columns import BatchRow, RecordRow
from formats.kernels.records import RecordTable
from formats.offset_index import parse as parse_index
from formats.producer_snapshot import parse as parse_snapshot
from kcli.inspector.cluster_metadata import read_image
from kcli.log.batch_records import decode
from kcli.log.cleaner.log_cleaner import LogCleaner
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk
from kcli.log.segment_reader import Window, read_segment
from kcli.log.source import FileSource
from tests.conftest import GOLDEN

COMPACT = GOLDEN / "compact"
PARAMS = json.loads((COMPACT / "expected" / "params.json").read_text())
BROKER = {name: str(value) for name, value in PARAMS["broker"].items()}
ROUNDS = {"before": "after", "before2": "after2"}
CASES = [(before, path.name) for before in ROUNDS for path in sorted((COMPACT / before).glob("c-*"))]

Record = tuple[Any, ...]


def config_of(topic: str, directory: Path) -> LogConfig:
    """Return the topic's configuration in the metadata log of the broker that ran the cleaner."""
    image = read_image(directory)
    assert image is not None
    return LogConfig(image.topic_configs(topic), {**BROKER, **image.broker_configs(0)})


def windows(log: Path) -> list[Window]:
    """The whole of a log."""
    source = FileSource(log)
    parts = list(read_segment(source))
    source.close()
    assert all(isinstance(part, Window) for part in parts), log
    return [part for part in parts if isinstance(part, Window)]


def headers(log: Path) -> list[BatchRow]:
    """Return a log's batch headers, without what depends on a codec's build: size and CRC of compressed batches,
    positions."""
    rows = [BatchRow._make(window.batches.row(i)) for window in windows(log) for i in range(window.batches.count)]
    plain = {"position": 0, "start": 0}
    return [row._replace(**plain, **({"size": 0, "crc": 0, "crc_computed": 0} if row.codec else {})) for row in rows]


def records(log: Path) -> list[Record]:
    """Return offset, timestamp, key, value and number of headers of each record, and whether it is a control record."""
    found: list[Record] = []
    table = RecordTable(512)
    for window in windows(log):
        for buffer in decode(window, table):
            for i in range(table.count):
                row = RecordRow._make(table.row(i))
                key = bytes(buffer[row.key_start : row.key_start + row.key_length]) if row.key_length >= 0 else None
                value = (
                    bytes(buffer[row.value_start : row.value_start + row.value_length])
                    if row.value_length >= 0
                    else None
                )
                is_control = BatchRow._make(window.batches.row(row.batch)).is_control
                found.append((row.offset, row.timestamp, key, value, row.headers_count, is_control))
    return found


def cleaning_time(after: str, name: str, delete_retention_ms: int) -> int:
    """Return the time when Kafka's cleaner ran on the partition: a new delete horizon less the retention, else a time
    within the window."""
    times = PARAMS["times"][after]
    horizons = {
        row.base_timestamp - delete_retention_ms
        for log in (COMPACT / after / name).glob("*.log")
        for row in headers(log)
        if row.attributes & 64
    }
    fitting = {each for each in horizons if times["cleaner_started_ms"] <= each <= times["stopped_ms"]}
    assert len(fitting) <= 1
    return fitting.pop() if fitting else times["cleaner_settled_ms"]


def offsets_of(directory: str, name: str) -> dict[tuple[str, int], int]:
    """An offset checkpoint of a golden directory."""
    path = COMPACT / directory / name
    return {(entry.topic, entry.partition): entry.offset for entry in parse_offsets(path.read_bytes())}


@pytest.mark.parametrize(("before", "name"), CASES, ids=[f"{before}-{name}" for before, name in CASES])
def test_cleans_as_kafka_did(before: str, name: str, tmp_path: Path) -> None:
    after = ROUNDS[before]
    topic, _, partition = name.rpartition("-")
    config = config_of(topic, COMPACT / after)
    now_ms = cleaning_time(after, name, config.delete_retention_ms)
    source, target, expected = COMPACT / before / name, tmp_path / name, COMPACT / after / name
    broker = CleanerConfig.of(BROKER)
    cleaner = LogCleaner(source, lambda _: config, broker, now_ms=now_ms, disk=Disk())
    (outcome,) = cleaner.into(target)
    assert outcome.error is None
    assert outcome.cleaning is not None

    if outcome.cleaning.checkpoint is not None:
        checkpoints = offsets_of(after, "cleaner-offset-checkpoint")
        assert outcome.cleaning.checkpoint == checkpoints[topic, int(partition)]
    logs = sorted(path.name for path in expected.glob("*.log"))
    assert sorted(path.name for path in target.glob("*.log")) == logs
    compressed = False
    for log in logs:
        assert headers(target / log) == headers(expected / log)
        assert records(target / log) == records(expected / log)
        if any(row.codec for row in headers(expected / log)):
            compressed = True
        else:
            assert (target / log).read_bytes() == (expected / log).read_bytes()
    compare_files_beside(source, target, expected, compressed=compressed)


def compare_files_beside(source: Path, target: Path, expected: Path, *, compressed: bool) -> None:
    """Indexes, snapshots, checkpoints."""
    live = {path.name for path in expected.iterdir() if path.suffix != ".deleted"}
    ours = {path.name for path in target.iterdir()}
    assert live <= ours
    stray = {path.name for path in source.glob("*.snapshot") if not path.with_suffix(".log").exists()}
    assert ours - live <= stray
    for name in sorted(live):
        mine, theirs = (target / name).read_bytes(), (expected / name).read_bytes()
        match name.rpartition(".")[2]:
            case "index" if compressed:
                entries, others = parse_index(mine).entries, parse_index(theirs).entries
                assert [entry.relative_offset for entry in entries] == [entry.relative_offset for entry in others]
            case "snapshot":
                assert sorted(parse_snapshot(mine).entries) == sorted(parse_snapshot(theirs).entries)
            case "leader-epoch-checkpoint":
                assert parse_leader_epochs(theirs)[:-1] == parse_leader_epochs(mine)
            case "log":
                pass
            case _:
                assert mine == theirs, name


@pytest.mark.parametrize("before", ROUNDS)
def test_a_whole_directory(before: str, tmp_path: Path) -> None:
    """All partitions are cleaned at one time: the records and the checkpoint equal Kafka's, delete horizons differ a
    little."""
    after = ROUNDS[before]
    now_ms = PARAMS["times"][after]["cleaner_settled_ms"]
    source, target = COMPACT / before, tmp_path / "cleaned"
    cleaner = LogCleaner(
        source,
        lambda topic: config_of(topic, COMPACT / after),
        CleanerConfig.of(BROKER),
        now_ms=now_ms,
        disk=Disk(),
    )
    assert [outcome.error for outcome in cleaner.into(target) if outcome.error] == []
    for log in sorted((COMPACT / after).glob("c-*/*.log")):
        assert records(target / log.relative_to(COMPACT / after)) == records(log), log
    mine = {
        (entry.topic, entry.partition): entry.offset
        for entry in parse_offsets((target / "cleaner-offset-checkpoint").read_bytes())
    }
    theirs = offsets_of(after, "cleaner-offset-checkpoint")
    assert {key: offset for key, offset in mine.items() if key[0].startswith("c-")} == {
        key: offset for key, offset in theirs.items() if key[0].startswith("c-")
    }
    unchanged = {"meta.properties", "bootstrap.checkpoint", "recovery-point-offset-checkpoint"}
    for name in unchanged:
        assert (target / name).read_bytes() == (source / name).read_bytes()
    assert not (target / ".lock").exists()
