"""The metadata log: its bytes are those that Kafka writes; an acknowledged record stays, and one that is not committed
is never applied."""

from __future__ import annotations

import asyncio
import errno
import shutil
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from formats.control_record import ControlType
from formats.errors import BadValue
from formats.file_name import METADATA_DIRECTORY, FileKind
from formats.kernels.crc import crc32c
from formats.quorum_state import QuorumState
from formats.quorum_state import parse as parse_quorum_state
from kcli.broker.metadata.activation import ABORT
from kcli.broker.metadata.alone import LoneMetadataLog
from kcli.broker.metadata.errors import MetadataLogClosed, MetadataLogFailed, TooManyRecords
from kcli.broker.metadata.format import format_directories, random_id
from kcli.broker.metadata.log import NO_OP, MetadataLog
from kcli.broker.metadata.quorum import NotTheOnlyVoter
from kcli.errors import KcliError, StartRefused, UnreadableInput
from kcli.log.disk import Disk, DiskFile
from kcli.metadata.image import InconsistentRecord, MetadataImage, Record
from kcli.metadata_log.snapshot_file import SnapshotId
from tests.broker.metadata_dirs import (
    KRAFT_DIRECTORIES,
    NOW_MS,
    FakeClock,
    batches,
    config,
    crash_copy,
    golden_copy,
    image_of_snapshot,
    names,
    open_metadata,
    segments,
    state,
    topic_records,
    untimed,
)
from tests.conftest import GOLDEN
from tests.log.crash_disk import Crash, CrashDisk

OTHERS = ["codecs/data", "txn/data", "txn/data-tv0", "groups/data", "compact/after", "tiered/data"]


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def quorum_state(directory: Path) -> QuorumState:
    return parse_quorum_state((directory / METADATA_DIRECTORY / "quorum-state").read_bytes())


def files(directory: Path, pattern: str = "*") -> list[str]:
    return sorted(path.name for path in (directory / METADATA_DIRECTORY).glob(pattern))


def of_topic(log: MetadataLog, topic: str = "t") -> dict[str, str]:
    return dict(log.image.topic_configs(topic))


async def snapshot_taken(log: MetadataLog) -> None:
    await log.take_snapshot()
    await asyncio.sleep(0.01)  # what may go for it goes


# the start


@pytest.mark.parametrize("name", ["codecs/data", "compact/before"])
def test_a_new_log_begins_as_kafkas(tmp_path: Path, name: str) -> None:
    open_metadata(tmp_path)
    ours = segments(tmp_path)[0].read_bytes()
    kafkas = (GOLDEN / name / METADATA_DIRECTORY / segments(tmp_path)[0].name).read_bytes()
    assert untimed(ours) == untimed(kafkas[: len(ours)])
    assert quorum_state(tmp_path) == QuorumState(0, 1, 1, -1, cluster_id="", applied_offset=0, current_voters=(1,))
    small = f"{METADATA_DIRECTORY}/partition.metadata"
    assert (tmp_path / small).read_bytes() == (GOLDEN / name / small).read_bytes()
    assert (tmp_path / METADATA_DIRECTORY / "leader-epoch-checkpoint").read_text() == "0\n1\n1 0\n"


def test_a_start_leads_a_new_epoch(tmp_path: Path) -> None:
    async def scenario() -> None:
        for epoch in (1, 2, 3):
            log = open_metadata(tmp_path)
            assert log.epoch == quorum_state(tmp_path).leader_epoch == epoch
            assert log.high_watermark == log.next_offset == 9 + epoch
            await log.close()
        assert [batch.epoch for batch in batches(tmp_path)] == [1, 1, 2, 3]

    run(scenario())


def test_without_a_bootstrap_checkpoint_a_log_begins_at_the_latest_version(tmp_path: Path) -> None:
    found = format_directories([tmp_path], now_ms=NOW_MS)
    (tmp_path / FileKind.BOOTSTRAP).unlink()
    log = LoneMetadataLog(tmp_path, node_id=1, directory_id=found.directory_ids[tmp_path])
    assert log.image.features == {"metadata.version": 30}
    assert names(batches(tmp_path)[-1].records) == [
        "BeginTransactionRecord",
        "FeatureLevelRecord",
        "EndTransactionRecord",
    ]


def test_old_metadata_versions_begin_without_a_transaction(tmp_path: Path) -> None:
    format_directories([tmp_path], now_ms=NOW_MS, levels={"metadata.version": 12})
    open_metadata(tmp_path)
    assert names(batches(tmp_path)[-1].records) == ["FeatureLevelRecord"]


def test_a_bootstrap_checkpoint_must_have_a_metadata_version(tmp_path: Path) -> None:
    format_directories([tmp_path], now_ms=NOW_MS, levels={"group.version": 1})
    with pytest.raises(StartRefused, match=r"has no metadata\.version"):
        open_metadata(tmp_path)


def test_a_clean_close_leaves_what_kafka_leaves(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path)
        await log.append([NO_OP])
        await log.close()
        await log.close()
        with pytest.raises(MetadataLogClosed):
            _ = log.append([NO_OP])
        golden = GOLDEN / "codecs/data" / METADATA_DIRECTORY
        kinds = {path.suffix or path.name for path in golden.iterdir()}
        assert {Path(name).suffix or name for name in files(tmp_path)} == kinds
        sizes = {path.suffix: path.stat().st_size for path in (tmp_path / METADATA_DIRECTORY).iterdir()}
        assert (sizes[".index"], sizes[".timeindex"], sizes[".snapshot"]) == (0, 12, 10)

    run(scenario())


def test_the_epoch_is_above_that_of_the_log_and_of_the_state(tmp_path: Path) -> None:
    async def scenario() -> None:
        for _ in range(3):
            await open_metadata(tmp_path).close()
        (tmp_path / METADATA_DIRECTORY / "quorum-state").unlink()
        log = open_metadata(tmp_path)
        assert log.epoch == 4
        await log.close()
        path = tmp_path / METADATA_DIRECTORY / "quorum-state"
        path.write_bytes(path.read_bytes().replace(b'"leaderEpoch":4', b'"leaderEpoch":40'))
        assert open_metadata(tmp_path).epoch == 41
        path.write_bytes(b"{}")
        with pytest.raises(StartRefused, match="quorum-state"):
            open_metadata(tmp_path)

    run(scenario())


@pytest.mark.parametrize("name", KRAFT_DIRECTORIES + OTHERS)
def test_takes_over_what_kafka_left(tmp_path: Path, name: str) -> None:
    async def scenario() -> None:
        directory = golden_copy(name, tmp_path)
        before, old = batches(directory), quorum_state(directory)
        log = open_metadata(directory)
        assert log.epoch == max(old.leader_epoch, before[-1].epoch) + 1
        latest = log.snapshots[-1] if log.snapshots else None
        assert log.image.features["metadata.version"] == 30
        if latest is not None and latest.offset > 0:
            assert image_of_snapshot(log.log.directory / latest.file_name).features == log.image.features
        was = state(log.image)
        assert state(log.draft) == was
        await log.append([config("retention.ms", "77")])
        _ = log.take_snapshot()
        await log.close()
        kept = image_of_snapshot(directory / METADATA_DIRECTORY / log.snapshots[-1].file_name)
        again = open_metadata(directory)
        assert state(again.image) == state(log.image) == state(kept)
        assert [each for each in state(again.image) if each not in was] == [repr(config("retention.ms", "77"))]
        assert batches(directory)[: len(before)] == before
        assert quorum_state(directory).data_version == old.data_version
        await again.close()

    run(scenario())


def test_without_snapshots_the_log_makes_the_same_image(tmp_path: Path) -> None:
    with_snapshots = open_metadata(golden_copy("kraft/controller-101", tmp_path))
    directory = golden_copy("kraft/controller-102", tmp_path)
    for path in (directory / METADATA_DIRECTORY).glob("*.checkpoint"):
        path.unlink()
    assert state(open_metadata(directory).image) == state(with_snapshots.image)


@pytest.mark.parametrize("name", ["kraft/controller-100", "kraft/controller-101", "kraft/broker-2"])
def test_the_log_below_a_snapshot_makes_what_kafkas_snapshot_says(name: str) -> None:
    compared = 0
    for path in (GOLDEN / name / METADATA_DIRECTORY).glob("*.checkpoint"):
        image = MetadataImage()
        for batch in batches(GOLDEN / name):
            for offset, (record, _, value) in enumerate(batch.records, batch.base_offset):
                if offset < int(path.name[:20]):
                    image.apply(record, value, offset)
        assert state(image) == state(image_of_snapshot(path))
        compared += 1
    assert compared >= 5


# voters in the log


def test_voters_follow_where_the_log_does_not_have_them(tmp_path: Path) -> None:
    """The directory is one of `kafka-storage format --standalone`."""
    directory = golden_copy("kraft/dynamic-quorum", tmp_path)
    for path in (directory / METADATA_DIRECTORY).iterdir():
        if path.name != "00000000000000000000-0000000000.checkpoint":
            path.unlink()
    ours = open_metadata(directory)
    data = segments(directory)[0].read_bytes()
    golden = (GOLDEN / "kraft/dynamic-quorum" / METADATA_DIRECTORY / segments(directory)[0].name).read_bytes()
    assert untimed(data) == untimed(golden[: len(data)])
    assert quorum_state(directory) == QuorumState(1, 1, 1, -1, voted_directory_id="A" * 22)
    assert [voter["voterId"] for voter in ours.quorum.voters] == [1]
    again = open_metadata(directory)
    assert [control.type for control in batches(directory)[-1].controls] == [ControlType.LEADER_CHANGE]
    assert again.quorum.voters == ours.quorum.voters


def test_a_snapshot_says_who_votes(tmp_path: Path) -> None:
    async def scenario() -> None:
        directory = golden_copy("kraft/dynamic-quorum", tmp_path)
        log = open_metadata(directory)
        _ = log.take_snapshot()
        await log.close()
        for path in segments(directory):
            path.unlink()
        again = open_metadata(directory)
        assert again.quorum == log.quorum or again.quorum.voters == log.quorum.voters
        assert (again.quorum.kraft_version, again.epoch) == (1, log.epoch + 1)

    run(scenario())


@pytest.mark.parametrize("field", ["node.id=1", "directory.id="])
def test_refuses_to_lead_where_others_vote(tmp_path: Path, field: str) -> None:
    directory = golden_copy("kraft/dynamic-quorum", tmp_path)
    path = directory / "meta.properties"
    other = "node.id=2" if field == "node.id=1" else f"directory.id={random_id()}"
    lines = [other if line.startswith(field) else line for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines))
    with pytest.raises(NotTheOnlyVoter, match="the metadata log's voters are 1@"):
        open_metadata(directory)
    assert quorum_state(directory) == quorum_state(GOLDEN / "kraft/dynamic-quorum")


# appending


def test_decisions_see_what_is_on_its_way_and_readers_do_not(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path)
        heard: list[tuple[list[str], dict[str, str]]] = []
        log.listeners.append(lambda records: heard.append((names(records), of_topic(log))))
        first, version = log.next_offset, log.image.version
        done = log.append([config("retention.ms", "1"), config("segment.ms", "2")])
        later = log.append([config("retention.ms", "3")])
        assert dict(log.draft.topic_configs("t")) == {"retention.ms": "3", "segment.ms": "2"}
        assert (of_topic(log), log.image.version, log.high_watermark) == ({}, version, first)
        assert log.next_offset == first + 3
        assert (await done, await later) == (first + 1, first + 2)
        assert heard == [
            (["ConfigRecord"] * 2, {"retention.ms": "1", "segment.ms": "2"}),
            (["ConfigRecord"], {"retention.ms": "3", "segment.ms": "2"}),
        ]
        assert log.high_watermark == log.next_offset == log.image.offset + 1
        await log.close()

    run(scenario())


def test_records_are_applied_as_a_replay_reads_them(tmp_path: Path) -> None:
    """Fields that a record leaves out are applied with their defaults."""

    async def scenario() -> None:
        log = open_metadata(tmp_path)
        heard: list[Record] = []
        log.listeners.append(heard.extend)
        ids: Record = ("ProducerIdsRecord", 0, {"nextProducerId": 1000})
        await log.append([("FeatureLevelRecord", 0, {"name": "f", "featureLevel": 3}), ids])
        assert heard[1][2] == {"brokerId": 0, "brokerEpoch": -1, "nextProducerId": 1000}
        assert heard == [record for batch in batches(tmp_path)[-1:] for record in batch.records]
        await log.close()

    run(scenario())


class CountingDisk(Disk):
    """Counts flushes of logs."""

    def __init__(self) -> None:
        self.flushes = 0

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DiskFile:
        file = super().open(path, create=create, truncate=truncate, read_only=read_only)
        return CountedFile(self, path, file.fd) if path.suffix == ".log" else file


class CountedFile(DiskFile):
    """A log on it."""

    def __init__(self, disk: CountingDisk, path: Path, fd: int) -> None:
        super().__init__(path, fd)
        self._disk = disk

    def sync(self) -> None:
        self._disk.flushes += 1
        super().sync()


def test_many_appends_share_a_flush(tmp_path: Path) -> None:
    async def scenario() -> None:
        disk = CountingDisk()
        log = open_metadata(tmp_path, disk=disk)
        before = disk.flushes
        offsets = await asyncio.gather(*(log.append([config("retention.ms", str(i))]) for i in range(100)))
        assert offsets == list(range(10, 110))
        assert disk.flushes == before + 1
        assert len(batches(tmp_path)) == 102  # each in a batch of its own
        await log.close()

    run(scenario())


def test_no_records_wait_for_those_before(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path)
        assert log.append([]).result() == log.next_offset - 1
        _ = log.append([config("retention.ms", "1")])
        waits = log.append([])
        assert not waits.done()
        assert await waits == log.next_offset - 1 == log.image.offset
        await log.close()

    run(scenario())


def test_a_cancelled_wait_does_not_take_the_records_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path)
        log.append([config("retention.ms", "1")]).cancel()
        await log.append([NO_OP])
        assert of_topic(log) == {"retention.ms": "1"}
        await log.close()

    run(scenario())


def test_a_failing_listener_stops_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path)
        heard: list[Record] = []

        def fail(_: Sequence[Record]) -> None:
            raise ValueError

        log.listeners += [fail, heard.extend]
        await log.append([NO_OP])
        assert names(heard) == ["NoOpRecord"]
        assert "a listener of the metadata log failed" in caplog.text
        await log.close()

    run(scenario())


def test_a_record_that_no_schema_allows_changes_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path)
        with pytest.raises(BadValue):
            _ = log.append([config("retention.ms", "1"), ("TopicRecord", 0, {"name": 5})])
        assert dict(log.draft.topic_configs("t")) == {}
        await log.append([NO_OP])
        await log.close()

    run(scenario())


def test_a_record_that_contradicts_the_image_ends_the_log(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path)
        told: list[Exception] = []
        log.on_failure = told.append
        with pytest.raises(InconsistentRecord):
            _ = log.append([("RemoveTopicRecord", 0, {"topicId": random_id()})])
        assert len(told) == 1
        with pytest.raises(MetadataLogFailed):
            _ = log.append([NO_OP])
        await log.close()
        assert len(batches(tmp_path)) == 2

    run(scenario())


class FullDisk(Disk):
    """A disk on which each write and sync fails once it is `full`."""

    full = ""

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DiskFile:
        file = super().open(path, create=create, truncate=truncate, read_only=read_only)
        return FullFile(self, path, file.fd)


class FullFile(DiskFile):
    """A file on it."""

    def __init__(self, disk: FullDisk, path: Path, fd: int) -> None:
        super().__init__(path, fd)
        self.disk = disk

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        if self.disk.full == "write":
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(buffers, position)

    def sync(self) -> None:
        if self.disk.full == "sync":
            raise OSError(errno.EIO, "Input/output error")
        super().sync()


@pytest.mark.parametrize("what", ["write", "sync"])
def test_a_failing_disk_fails_all_who_wait(tmp_path: Path, what: str) -> None:
    async def scenario() -> None:
        disk = FullDisk()
        log = open_metadata(tmp_path, disk=disk)
        told: list[Exception] = []
        log.on_failure = told.append
        await log.append([config("retention.ms", "1")])
        disk.full = what
        waiting = [log.append([config("retention.ms", str(i))]) for i in (2, 3)]
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(each) for each in found] == [MetadataLogFailed] * 2
        assert [type(each) for each in told] == [OSError]
        assert of_topic(log) == {"retention.ms": "1"}
        with pytest.raises(MetadataLogFailed):
            _ = log.append([NO_OP])
        await log.close()
        again = open_metadata(tmp_path)
        assert of_topic(again)["retention.ms"] in "13"

    run(scenario())


# more than a batch holds


def test_what_does_not_fit_into_a_batch_is_a_transaction(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path, batch_bytes_max=2000)
        seen: list[int] = []
        log.listeners.append(lambda _: seen.append(len(log.image.configured)))
        records = [config("retention.ms", str(i), f"topic-{i}") for i in range(200)]
        offset = await log.append(records)
        assert offset == log.next_offset - 1 == 10 + 201
        assert seen == [201]  # all of these at once, beside the default of all brokers
        written = batches(tmp_path)[2:]
        assert len(written) > 5
        assert max(batch.size_bytes for batch in written) <= 2000
        assert names(record for batch in written for record in batch.records) == [
            "BeginTransactionRecord",
            *["ConfigRecord"] * 200,
            "EndTransactionRecord",
        ]
        await log.close()
        assert state(open_metadata(tmp_path).image) == state(log.image)

    run(scenario())


def test_half_a_transaction_is_taken_back(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path, batch_bytes_max=2000)
        was = state(log.image)
        await log.append([config("retention.ms", str(i), f"topic-{i}") for i in range(100)])
        await log.close()
        with segments(tmp_path)[0].open("r+b") as file:
            file.truncate(file.seek(0, 2) - 200)
        again = open_metadata(tmp_path)
        assert state(again.image) == state(again.draft) == was
        assert batches(tmp_path)[-1].records == [ABORT]
        await again.append([config("retention.ms", "5")])
        assert of_topic(again) == {"retention.ms": "5"}
        await again.close()

    run(scenario())


def test_half_of_the_first_records_are_written_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path, batch_bytes_max=150)
        expected = state(log.image)
        path = segments(tmp_path)[0]
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - 100)
        again = open_metadata(tmp_path)
        assert names(batches(tmp_path)[-1].records)[:2] == ["AbortTransactionRecord", "BeginTransactionRecord"]
        assert state(again.image) == expected
        await log.close()
        await again.close()

    run(scenario())


def test_before_transactions_more_than_a_batch_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path, batch_bytes_max=2000)
        await log.append([("FeatureLevelRecord", 0, {"name": "metadata.version", "featureLevel": 12})])
        before = log.next_offset
        with pytest.raises(TooManyRecords):
            _ = log.append([config("retention.ms", str(i), f"topic-{i}") for i in range(100)])
        assert (log.next_offset, dict(log.draft.topic_configs("topic-1"))) == (before, {})
        await log.close()

    run(scenario())


# crashes and damage


def test_a_crash_loses_nothing_acknowledged(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path / "d", segment_bytes=1000)
        for i in range(40):
            await log.append([config("retention.ms", str(i), f"topic-{i}")])
            if i == 20:
                _ = log.take_snapshot()
        copy = crash_copy(tmp_path / "d", tmp_path / "copy")
        again = open_metadata(copy, segment_bytes=1000)
        assert state(again.image) == state(log.image)
        assert again.epoch == 2
        await log.close()
        await again.close()

    run(scenario())


def test_a_torn_tail_is_cut(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path)
        await log.append([config("retention.ms", "1")])
        await log.append([config("retention.ms", "2")])
        await log.close()
        with segments(tmp_path)[0].open("r+b") as file:
            file.truncate(file.seek(0, 2) - 1)
        again = open_metadata(tmp_path)
        assert of_topic(again) == {"retention.ms": "1"}
        assert [batch.epoch for batch in batches(tmp_path)] == [1, 1, 1, 2]
        await again.close()

    run(scenario())


def test_a_power_cut_at_any_moment(tmp_path: Path) -> None:
    """Power may fail at every operation of the disk; what was not synced may be lost."""

    async def live(directory: Path, disk: CrashDisk, done: list[int]) -> None:
        log = open_metadata(directory, disk=disk, segment_bytes=600, max_retention_bytes=1)
        for i in range(6):
            await log.append([config("retention.ms", str(i))])
            done.append(i)
            if i in (2, 4):
                await snapshot_taken(log)
        await log.close()

    quiet = CrashDisk()
    run(live(tmp_path / "quiet", quiet, []))
    for dies_at in range(1, quiet.operations + 1, 3):
        directory, done = tmp_path / str(dies_at), list[int]()
        with suppress(Crash, MetadataLogFailed):
            run(live(directory, CrashDisk(dies_at, seed=dies_at), done))
        again = open_metadata(directory, segment_bytes=600)
        assert int(of_topic(again).get("retention.ms", "-1")) >= (done[-1] if done else -1)
        shutil.rmtree(directory)


@pytest.mark.parametrize("where", ["header", "middle", "footer", "bytes"])
def test_a_damaged_snapshot_stops_the_start(tmp_path: Path, where: str) -> None:
    directory = golden_copy("kraft/controller-101", tmp_path)
    path = max((directory / METADATA_DIRECTORY).glob("*.checkpoint"))
    data = path.read_bytes()
    first = 12 + int.from_bytes(data[8:12])
    damaged = {
        "header": data[first:],
        "middle": data[: first + 70] + b"\xff" + data[first + 71 :],
        "footer": data[:-75],
        "bytes": data[:-3],
    }
    path.write_bytes(damaged[where])
    with pytest.raises(UnreadableInput, match="checkpoint"):
        open_metadata(directory)


def test_a_record_of_no_topic_stops_the_start(tmp_path: Path) -> None:
    directory = golden_copy("kraft/controller-101", tmp_path)
    path = max((directory / METADATA_DIRECTORY).glob("*.checkpoint"))
    offset = int(path.name[:20])
    for each in (directory / METADATA_DIRECTORY).glob("*.checkpoint"):
        each.unlink()
    for each in segments(directory)[:1]:
        each.unlink()
        each.with_suffix(".index").unlink()
        each.with_suffix(".timeindex").unlink()
    assert offset > 0
    with pytest.raises(StartRefused, match="no snapshot has what was before"):
        open_metadata(directory)


def test_damage_under_good_checksums_is_a_typed_error(tmp_path: Path) -> None:
    """Whatever the records say, the start works or reports the damage, without much time or memory."""
    random = Random(5)
    found = {"started": 0, "refused": 0}
    for name in ("log", "checkpoint"):
        whole = golden_copy("kraft/dynamic-quorum", tmp_path / name)
        for i in range(60):
            directory = crash_copy(whole, tmp_path / name / str(i))
            path = max((directory / METADATA_DIRECTORY).glob(f"*.{name}"))
            path.chmod(0o600)
            if name == "log":
                for each in (directory / METADATA_DIRECTORY).glob("*.checkpoint"):
                    each.unlink()
            path.write_bytes(damaged(path.read_bytes(), random))
            try:
                open_metadata(directory)
                found["started"] += 1
            except KcliError:
                found["refused"] += 1
            shutil.rmtree(directory)
    assert min(found.values()) > 10, found


def damaged(data: bytes, random: Random) -> bytes:
    """Return the log with some bytes of a batch changed and the batch's CRC corrected."""
    out = bytearray(data)
    starts, at = [], 0
    while at < len(out):
        starts.append(at)
        at += 12 + int.from_bytes(out[at + 8 : at + 12])
    start = random.choice(starts)
    end = start + 12 + int.from_bytes(out[start + 8 : start + 12])
    for _ in range(random.randint(1, 3)):
        out[random.randrange(start + 21, end)] = random.choice((0, 1, 127, 128, 255, random.randrange(256)))
    out[start + 17 : start + 21] = crc32c(memoryview(out)[start + 21 : end]).to_bytes(4)
    return bytes(out)


# snapshots and what goes for them


def test_a_snapshot_is_the_image(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        log = open_metadata(tmp_path, clock=clock)
        topic_id, directory_id = random_id(), random_id()
        await log.append(topic_records("a", topic_id, directory_id, partitions=3))
        clock.ms += 5
        taken = log.take_snapshot()
        assert log.take_snapshot() is taken
        await taken
        await log.append([config("retention.ms", "1")])
        await log.close()
        path = log.log.directory / log.snapshots[0].file_name
        assert log.snapshots == [SnapshotId(14, 1)]
        assert path.stat().st_mode & 0o777 == 0o400
        image = image_of_snapshot(path)
        assert [*image.topics] == ["a"]
        assert not image.topic_configs("t")

    run(scenario())


def test_snapshots_by_bytes_and_by_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        log = open_metadata(
            tmp_path, clock=clock, max_record_bytes_between_snapshots=2000, max_snapshot_interval_ms=1000
        )
        while len(log.snapshots) < 3:
            await log.append([NO_OP])
            await asyncio.sleep(0.001)
        offsets = [each.offset for each in log.snapshots]
        assert 15 < offsets[1] - offsets[0] < 45  # 72 bytes for each record, and some more while one is written
        before = len(log.snapshots)
        clock.ms += 1000
        await log.append([NO_OP])
        await log.close()
        assert len(log.snapshots) == before + 1
        again = open_metadata(
            tmp_path, clock=clock, max_record_bytes_between_snapshots=2000, max_snapshot_interval_ms=0
        )
        clock.ms += 10**9
        await again.append([NO_OP])
        await again.close()
        assert len(again.snapshots) == before + 1

    run(scenario())


def test_old_snapshots_go_with_the_log_before_them(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path, segment_bytes=500, max_retention_bytes=3000)
        for i in range(60):
            await log.append([config("retention.ms", str(i))])
            if i % 10 == 9:
                await snapshot_taken(log)
        assert log.log.log_start_offset == log.snapshots[0].offset > 0
        assert (
            log.log.size + sum((log.log.directory / each.file_name).stat().st_size for each in log.snapshots)
            < 3000 + 1000
        )
        assert files(tmp_path, "*.checkpoint.deleted")
        assert files(tmp_path, "*.log.deleted")
        copy = crash_copy(tmp_path, tmp_path.with_name("copy"))
        await log.close()
        assert not files(tmp_path, "*.deleted")
        assert files(tmp_path, "*.checkpoint") == [each.file_name for each in log.snapshots]
        for directory in (tmp_path, copy):
            again = open_metadata(directory, segment_bytes=500)
            assert state(again.image) == state(log.image)
            assert again.snapshots == log.snapshots
            assert not files(directory, "*.deleted")
            await again.close()

    run(scenario())


def test_old_snapshots_go_by_age(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        log = open_metadata(tmp_path, clock=clock, max_retention_ms=1000, max_idle_interval_ms=0)
        for _ in range(3):
            await log.append([NO_OP])
            await snapshot_taken(log)
            clock.ms += 600
        last = [each.offset for each in log.snapshots]
        assert last == [11, 12, 13][-len(last) :]
        clock.ms += 10_000
        log.start_background()
        await asyncio.sleep(0.05)
        assert [each.offset for each in log.snapshots] == [13]  # the latest stays, however old
        await log.close()

    run(scenario())


def test_a_snapshot_ahead_of_the_log_replaces_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path / "d")
        await log.append([config("retention.ms", "1")])
        early = crash_copy(tmp_path / "d", tmp_path / "early")
        await log.append([config("segment.ms", "2")])
        _ = log.take_snapshot()
        await log.close()
        name = log.snapshots[-1].file_name
        shutil.copy(tmp_path / "d" / METADATA_DIRECTORY / name, early / METADATA_DIRECTORY / name)
        again = open_metadata(early)
        assert again.log.log_start_offset == log.snapshots[-1].offset
        assert state(again.image) == state(log.image)
        assert files(early, "*.log") == [f"{log.snapshots[-1].offset:020}.log"]
        await again.close()
        assert state(open_metadata(early).image) == state(log.image)

    run(scenario())


def test_what_a_crash_left_of_a_snapshot_goes(tmp_path: Path) -> None:
    open_metadata(tmp_path)
    directory = tmp_path / METADATA_DIRECTORY
    left = [
        "00000000000000000011-0000000001.checkpoint.part",
        "00000000000000000011-0000000001-8273645.checkpoint.part",
        "00000000000000000005-0000000001.checkpoint.deleted",
    ]
    for name in left:
        (directory / name).write_bytes(b"x")
    assert open_metadata(tmp_path).snapshots == []
    assert not files(tmp_path, "*.checkpoint*")


def test_a_snapshot_that_cannot_be_written_leaves_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        disk = FullDisk()
        log = open_metadata(tmp_path, disk=disk)
        disk.full = "write"
        await snapshot_taken(log)
        disk.full = ""
        assert "is not written" in caplog.text
        assert not files(tmp_path, "*.checkpoint*")
        await log.append([NO_OP])
        _ = log.take_snapshot()
        await log.close()
        assert len(files(tmp_path, "*.checkpoint")) == 1

    run(scenario())


def test_an_idle_log_gets_a_record_now_and_then(tmp_path: Path) -> None:
    async def scenario() -> None:
        log = open_metadata(tmp_path, max_idle_interval_ms=20)
        log.start_background()
        await asyncio.sleep(0.2)
        await log.close()
        written = batches(tmp_path)[2:]
        assert 2 <= len(written) <= 10
        assert {name for batch in written for name in names(batch.records)} == {"NoOpRecord"}

    run(scenario())


def test_timestamps_are_of_the_clock(tmp_path: Path) -> None:
    async def scenario() -> None:
        clock = FakeClock()
        log = open_metadata(tmp_path, clock=clock)
        clock.ms += 1234
        await log.append([NO_OP])
        assert [batch.timestamp_ms for batch in batches(tmp_path)] == [NOW_MS, NOW_MS, NOW_MS + 1234]
        await log.close()

    run(scenario())
