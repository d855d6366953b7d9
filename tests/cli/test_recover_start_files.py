"""The small files that a start reads, with odd contents: `kcli recover` predicts whether Kafka starts.

Each row was tried with Kafka 4.3.0: it started, or it did not.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from formats import producer_snapshot
from formats.file_name import FileKind
from formats.producer_snapshot import ProducerEntry, ProducerSnapshot
from kcli.broker.metadata.config import MetadataLogConfig
from kcli.broker.metadata.snapshots import Snapshots
from kcli.broker.metadata.upkeep import Upkeep
from kcli.log.disk import Disk
from kcli.log.live.partition_log import OpenOptions, PartitionLog
from kcli.log.log_directory import LogDirectory
from kcli.metadata_log.snapshot_file import SnapshotId
from tests.broker.running import served_node
from tests.cli.run import kcli
from tests.damage import frames
from tests.inspector.test_verify_causes import nexts
from tests.metadata_damage import copied

PARTITION = "mixed-0/partition.metadata"
MARKER = ".kafka_cleanshutdown"
BOOTSTRAP = "bootstrap.checkpoint"
METADATA = "__cluster_metadata-0"
METADATA_TOPIC_ID = f"{METADATA}/partition.metadata"
CHECKPOINTS = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
Change = Callable[[Path], object]
AHEAD = f"{METADATA}/{900:020}-{9:010}.checkpoint"
"""A snapshot whose offset is beyond the end of the log."""


def written(change: Callable[[bytes], bytes]) -> Change:
    return lambda path: path.write_bytes(change(path.read_bytes() if path.exists() else b""))


def replaced(pattern: bytes, by: bytes) -> Change:
    return written(lambda data: re.sub(pattern, by, data, count=1))


def made_a_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def filled(path: Path) -> None:
    made_a_directory(path)
    (path / "file").touch()


def dangling(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to("/nonexistent/file")


STARTS: list[tuple[str, Change]] = [
    (PARTITION, replaced(b"version: 0", b"version: 1")),
    (PARTITION, written(lambda data: data + b"\nextra line\n")),
    (PARTITION, written(lambda data: b"\xef\xbb\xbf" + data)),
    (PARTITION, written(lambda data: data.replace(b"\n", b"\r\n"))),
    ("meta.properties", replaced(b"version=1", b"version=+1")),
    ("meta.properties", written(lambda data: data + b"\xff\xfe\n")),
    (MARKER, made_a_directory),
    (MARKER, dangling),
    (MARKER, written(lambda _: b"garbage")),
    (BOOTSTRAP, dangling),
    (BOOTSTRAP, written(lambda data: data[:-5])),
    (BOOTSTRAP, written(lambda data: data + b"extra")),
    (BOOTSTRAP, written(lambda data: data[:17] + bytes((data[17] ^ 8,)) + data[18:])),
    ("__cluster_metadata-0/quorum-state", replaced(b'"leaderEpoch":[0-9]+', b'"leaderEpoch":99')),
    ("__cluster_metadata-0/quorum-state", replaced(b'"leaderEpoch":[0-9]+', b'"leaderEpoch":2147483646')),
    ("__cluster_metadata-0/quorum-state", replaced(b'"votedId":-?[0-9]+', b'"votedId":7')),
    ("__cluster_metadata-0/quorum-state", dangling),
    (METADATA_TOPIC_ID, Path.unlink),
    (f"{AHEAD}.part", made_a_directory),
    (f"{AHEAD}.deleted", made_a_directory),
]
REFUSED: list[tuple[str, Change]] = [
    (PARTITION, made_a_directory),
    (PARTITION, written(lambda _: b"")),
    (PARTITION, replaced(b"version: 0", b"version: -1")),
    (PARTITION, replaced(b"version: 0", b"version:  0 ")),
    (PARTITION, written(lambda data: data + b"\n\xff\xfe")),
    (MARKER, filled),
    ("meta.properties", replaced(b"node.id=[0-9]+", b"node.id=-5")),
    ("__cluster_metadata-0/quorum-state", made_a_directory),
    ("__cluster_metadata-0/quorum-state", replaced(b'"leaderEpoch":[0-9]+', b'"leaderEpoch":2147483647')),
    (METADATA_TOPIC_ID, made_a_directory),
    (METADATA_TOPIC_ID, written(lambda _: b"")),
    (METADATA_TOPIC_ID, written(lambda _: b"garbage\n")),
    (METADATA_TOPIC_ID, written(lambda _: b"version: 0\ntopic_id: HnQNgFKJSqOD6nSqAUPGjQ")),
    (AHEAD, made_a_directory),
    (f"{AHEAD}.part", filled),
    (f"{AHEAD}.deleted", filled),
    (BOOTSTRAP, made_a_directory),
    (BOOTSTRAP, written(lambda _: b"")),
    (BOOTSTRAP, written(lambda data: data + bytes(100))),
    (BOOTSTRAP, written(lambda data: data[: len(data) // 2])),
    *((name, dangling) for name in CHECKPOINTS),
    *((name, written(lambda _: b"1\n0\n")) for name in CHECKPOINTS),
]


def refusals(directory: Path) -> list[str]:
    """Return the files that, by `kcli recover`, keep Kafka from starting."""
    ended = kcli("recover", "--format", "jsonl", directory)
    assert not ended.stderr
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    return ["/".join(filter(None, (row["partition"], row["file"]))) for row in found if row["kind"] == "refused"]


def told(case: tuple[str, Change]) -> str:
    return case[0]


@pytest.mark.parametrize("case", STARTS, ids=told)
def test_kafka_starts(tmp_path: Path, case: tuple[str, Change]) -> None:
    directory = copied(tmp_path)
    file, change = case
    change(directory / file)
    assert refusals(directory) == []


@pytest.mark.parametrize("case", REFUSED, ids=told)
def test_kafka_does_not_start(tmp_path: Path, case: tuple[str, Change]) -> None:
    directory = copied(tmp_path)
    file, change = case
    change(directory / file)
    assert refusals(directory) == [file]


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_kafka_goes_on_with_a_negative_count(tmp_path: Path, name: str) -> None:
    directory = copied(tmp_path)
    (directory / name).write_text("0\n-1\n")
    assert refusals(directory) == []
    assert "passed-over" in kcli("recover", directory).stdout


@pytest.mark.parametrize(
    ("file", "change"),
    [
        (BOOTSTRAP, written(lambda _: b"")),
        ("replication-offset-checkpoint", written(lambda _: b"1\n0\n")),
        (METADATA_TOPIC_ID, made_a_directory),
        (METADATA_TOPIC_ID, written(lambda _: b"")),
        (AHEAD, made_a_directory),
        (f"{AHEAD}.part", filled),
    ],
)
def test_serve_refuses_as_kafka_does(tmp_path: Path, file: str, change: Change) -> None:
    """kcli also deletes no log in favour of an invalid snapshot, which Kafka does before it ends."""
    directory = copied(tmp_path)
    log = (directory / METADATA / f"{0:020}.log").read_bytes()
    change(directory / file)
    with pytest.raises(AssertionError, match=file), served_node(directory):
        pass
    assert (directory / METADATA / f"{0:020}.log").read_bytes().startswith(log)


@pytest.mark.parametrize("case", [STARTS[0], STARTS[6], *STARTS[-2:]], ids=told)
def test_serve_starts_as_kafka_does(tmp_path: Path, case: tuple[str, Change]) -> None:
    directory = copied(tmp_path)
    case[1](directory / case[0])
    with served_node(directory):
        pass


def test_without_a_damaged_bootstrap_checkpoint_kafka_starts(tmp_path: Path) -> None:
    """The metadata log has the metadata.version: salvage to a copy omits the file, salvage in place keeps it."""
    directory = copied(tmp_path)
    (directory / BOOTSTRAP).write_bytes(b"")
    assert "kcli recover --salvage --out NEW" in kcli("recover", directory).stdout
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    assert not (new / BOOTSTRAP).exists()
    assert refusals(new) == []
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    assert not (directory / BOOTSTRAP).exists()
    assert list(directory.glob("kcli-recover-*.tar"))


@pytest.mark.parametrize("case", [each for each in REFUSED if each[0] == METADATA_TOPIC_ID], ids=told)
def test_salvage_writes_the_metadata_logs_topic_id_anew(tmp_path: Path, case: tuple[str, Change]) -> None:
    """This holds in place, too, where a directory that has the file's name is moved away."""
    directory, new = copied(tmp_path), tmp_path / "new"
    file, change = case
    sound = (directory / file).read_bytes()
    change(directory / file)
    ended = kcli("recover", "--salvage", "--out", new, directory)
    assert ended.status == 0, ended.stderr
    assert "written anew" in ended.stdout
    assert (new / file).read_bytes() == sound
    assert refusals(new) == []
    is_directory = (directory / file).is_dir()
    assert kcli("recover", "--salvage", "--in-place", directory).status == 0
    assert (directory / f"{file}.moved").is_dir() == is_directory
    assert refusals(directory) == []


@pytest.mark.parametrize("behind", ["", " text", "}", '{"brokerEpoch":1}'])
def test_the_marker_is_read_up_to_the_end_of_its_json(tmp_path: Path, behind: str) -> None:
    """Jackson reads up to the end of the JSON object. With another broker epoch the controller would treat the broker
    as crashed."""
    marker = tmp_path / MARKER
    marker.write_text(f'\n{{"version":0,"brokerEpoch":42}}{behind}')
    assert LogDirectory(tmp_path).marked_broker_epoch == 42
    marker.write_text(f"text {marker.read_text()}")
    assert LogDirectory(tmp_path).marked_broker_epoch is None


def test_an_older_snapshot_that_cannot_be_read_keeps_the_old_ones_only(tmp_path: Path) -> None:
    """Kafka logs an error when it looks for old snapshots to delete, and goes on."""
    directory = copied(tmp_path)
    older = directory / METADATA / f"{1:020}-{1:010}.checkpoint"
    older.mkdir()
    ids = Snapshots(Disk(), older.parent)
    ids.ids = [SnapshotId(1, 1), SnapshotId(2, 1)]
    (older.parent / ids.ids[1].file_name).touch()
    config = MetadataLogConfig()
    upkeep = Upkeep(Disk(), ids, config, bytes_since=0, now_ms=0)
    log = PartitionLog(older.parent, Disk(), config.log_config, 0, OpenOptions(clean=False))
    upkeep.clean(log, 2**50)
    log.close(0)
    assert len(ids.ids) == 2


def test_a_log_that_is_gone_is_told(tmp_path: Path) -> None:
    """Kafka starts, removes the indexes that are left, and serves an empty log."""
    directory, log = copied(tmp_path), "mixed-0"
    end = json.loads(kcli("recover", "--format", "jsonl", directory / log).stdout.splitlines()[-1])["log_end_offset"]
    for file in (directory / log).glob("*.log"):
        file.unlink()
    (directory / CHECKPOINTS[1]).write_text(f"0\n1\n{log.replace('-', ' ')} {end}\n")
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert (
        f"the log ends at 0, and had reached {end:,} by the checkpoints; lost: offsets 0..{end - 1:,}" in ended.stdout
    )
    rows = [json.loads(line) for line in kcli("recover", "--format", "jsonl", directory).stdout.splitlines()]
    assert [row["partition"] for row in rows if row["kind"] == "end-missing"] == [log]


def test_a_producer_snapshot_shows_that_the_end_of_a_log_is_gone(tmp_path: Path) -> None:
    """No checkpoint has the partition, as where the broker was killed before the first flush."""
    directory = copied(tmp_path)
    log = directory / "mixed-0"
    for checkpoint in CHECKPOINTS:
        (directory / checkpoint).unlink(missing_ok=True)
    end = json.loads(kcli("recover", "--format", "jsonl", log).stdout.splitlines()[-1])["log_end_offset"]
    entry = ProducerEntry(7, 0, 4, end + 11, 3, 1_700_000_000_000, -1, -1)
    snapshot = log / f"{end + 14:020}.snapshot"
    snapshot.write_bytes(producer_snapshot.build(ProducerSnapshot((entry,))))
    ended = kcli("recover", directory)
    assert ended.status == 1
    reached = f"the log ends at {end:,}, and had reached {end + 12:,} by a producer snapshot"
    assert f"{reached}; lost: offsets {end:,}..{end + 11:,}" in ended.stdout
    found = kcli("verify", "--format", "jsonl", directory).stdout.splitlines()
    (short,) = (
        row for row in map(json.loads, found) if row.get("path", "").startswith(str(log)) and row["severity"] == "error"
    )
    assert (short["kind"], short["lost_first_offset"], short["lost_last_offset"]) == ("log-end", end, end + 11)
    assert short["consequences"] == {"snapshot-offset": 1}
    snapshot.write_bytes(producer_snapshot.build(ProducerSnapshot((entry._replace(last_offset=end - 1),))))
    assert "had reached" not in kcli("recover", directory).stdout  # the file has another name


@pytest.mark.parametrize("is_damaged", [False, True])
def test_salvage_counts_an_end_that_no_file_has(tmp_path: Path, *, is_damaged: bool) -> None:
    """The last batch is cut off, and another one before it may be damaged, at which a start cuts the log."""
    directory = copied(tmp_path)
    log = max((directory / "java-none-0").glob("*.log"))
    begins = frames(log.read_bytes())
    os.truncate(log, begins[-1][0])
    if is_damaged:
        data = bytearray(log.read_bytes())
        data[begins[1][0] + 70] ^= 1
        log.write_bytes(data)
    lost = "; 7 offsets are lost at the end of 1 partition; "
    ended = kcli("recover", "--salvage", directory)
    assert ended.status == 1
    assert "the log ends at 291, and had reached 298 by the checkpoints; lost: offsets 291..297" in ended.stdout
    assert lost in ended.stdout
    assert lost in kcli("recover", "--salvage", "--out", tmp_path / "new", directory).stdout
    shown = kcli("recover", "--salvage", "--format", "jsonl", directory).stdout
    rows = [json.loads(line) for line in shown.splitlines()]
    assert [row["lost_offsets"] for row in rows if row["kind"] == "end-missing"] == [7]


@pytest.mark.parametrize(
    ("number", "is_young", "is_doubtful"), [(30_000, False, True), (200, False, False), (30_000, True, False)]
)
def test_a_high_watermark_far_above_all_else(tmp_path: Path, number: int, *, is_young: bool, is_doubtful: bool) -> None:
    """One edited number: neither command calls it a certain loss. A number that is a little too high may be true; so
    may one in a young log, where the power failed before the first flush."""
    directory = copied(tmp_path, "unclean/crashed")
    if is_young:
        for each in (directory / "u-plain-1").glob("00000000000000000124.*"):
            each.unlink()
        os.truncate(directory / "u-plain-1" / f"{0:020}.index", 8192)
        points = directory / "recovery-point-offset-checkpoint"
        points.write_text(points.read_text().replace("u-plain 1 124", "u-plain 1 0"))
    (directory / "replication-offset-checkpoint").write_text(f"0\n1\nu-plain 1 {number}\n")
    shown = kcli("verify", "--format", "jsonl", directory).stdout.splitlines()
    (found,) = (each for each in map(json.loads, shown) if each.get("kind") == "log-end")
    assert found["severity"] == ("warning" if is_doubtful else "error")
    assert ("or that number is wrong" in found["found"]) == is_doubtful
    text_of_all = kcli("recover", directory).stdout
    assert ("or that number is wrong: only one of the checkpoints has it" in text_of_all) == is_doubtful
    assert ("lost at the end of 1 partition" in text_of_all) != is_doubtful


def test_an_emptied_log_that_was_never_flushed(tmp_path: Path) -> None:
    """Its recovery point is 0, as that of any log before the first flush: verify names the log, as recover does."""
    directory = copied(tmp_path, "unclean/crashed")
    partition = directory / "u-plain-1"
    for each in partition.iterdir():
        if each.name != "partition.metadata":
            each.unlink()
    log = partition / f"{0:020}.log"
    log.touch()
    for suffix, entry_bytes in ((".index", 8), (".timeindex", 12)):
        log.with_suffix(suffix).write_bytes(bytes(1000 * entry_bytes))
    points = directory / "recovery-point-offset-checkpoint"
    points.write_text(points.read_text().replace("u-plain 1 124", "u-plain 1 0"))
    (directory / "replication-offset-checkpoint").write_text("0\n1\nu-plain 1 8\n")
    shown = map(json.loads, kcli("verify", "--format", "jsonl", directory).stdout.splitlines())
    places = str(partition), str(directory / "replication")
    loud = [each for each in shown if each.get("path", "").startswith(places) and each["severity"] != "info"]
    (found,) = loud
    assert (found["kind"], found["severity"], found["path"]) == ("log-end", "error", str(log))
    assert found["found"] == "0 bytes: the log ends at 0: offsets 0..7 are lost"
    assert (
        "the log ends at 0, and had reached 8 by the checkpoints; lost: offsets 0..7"
        in kcli("recover", directory).stdout
    )


@pytest.mark.parametrize("is_refused", [True, False])
def test_records_that_salvage_keeps_are_of_something_named(tmp_path: Path, *, is_refused: bool) -> None:
    """A start that Kafka refuses loses nothing: the records are not some of those that Kafka alone would lose."""
    partition = copied(tmp_path, "codecs/data/java-none-0")
    with (partition / f"{0:020}.log").open("r+b") as log:
        second = 12 + int.from_bytes(log.read(12)[8:])
        log.seek(second + (2 if is_refused else 40))  # a bit of the base offset, or one that the CRC covers
        log.write(b"\x10")
    summary = kcli("recover", "--salvage", partition).stdout.splitlines()[-1]
    found = re.search(r"--salvage would keep [0-9,]+ records (.*?);", summary)
    assert found is not None, summary
    assert found[1] == ("that Kafka alone would not" if is_refused else "of them"), summary
    assert ("Kafka alone would lose" in summary) != is_refused


def test_what_salvage_does_not_mend_is_for_verify_to_tell(tmp_path: Path) -> None:
    """meta.properties is emptied: no other file of the directory has the id of the cluster, which has other nodes."""
    directory = copied(tmp_path, "kraft/controller-100")
    (directory / "meta.properties").write_bytes(b"")
    ended = kcli("recover", "--salvage", directory)
    assert ended.status == 1
    assert re.search(rf"^next +kcli verify {re.escape(str(directory))}$", ended.stdout, re.MULTILINE)
    assert "meta-properties-version" in kcli("verify", directory).stdout


@pytest.mark.parametrize("content", [bytes(40), b"0\n1\nx y z\n", b"0\n2\na 0 1\n", b"1\n0\n"])
@pytest.mark.parametrize("how", ["--out", "--in-place"])
def test_a_damaged_high_watermark_checkpoint_has_a_way_out(tmp_path: Path, content: bytes, how: str) -> None:
    """verify's next step is recover, and recover's next step never leads back to verify; the restored checkpoint is
    sound."""
    directory = copied(tmp_path)
    path = directory / "replication-offset-checkpoint"
    path.write_bytes(content)
    (step,) = [each for each in nexts(kcli("verify", directory).stdout) if "chmod" not in each]
    assert shlex.split(step) == ["kcli", "recover", "--dry-run", str(directory)]
    told = kcli(*shlex.split(step)[1:])
    assert told.status == 1
    assert path.name in told.stdout
    step = re.findall("^next +(.*)$", told.stdout, re.MULTILINE)[0]
    assert shlex.split(step) == ["kcli", "recover", "--salvage", "--out", "NEW", str(directory)]
    mended = directory
    if how == "--out":
        mended = tmp_path / "mended"
        assert kcli(*(str(mended) if each == "NEW" else each for each in shlex.split(step)[1:])).status == 0
    else:
        assert kcli("recover", "--in-place", directory).status == 0
    assert kcli("recover", mended).status == 0
    assert kcli("verify", mended).status == 0
    assert LogDirectory(mended).offsets(FileKind.REPLICATION_OFFSETS) is not None


def test_each_file_that_keeps_kafka_from_starting_is_named(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    files = [f"{METADATA}/quorum-state", PARTITION]
    for name in files:
        (directory / name).write_bytes(b"")
    ended = kcli("recover", "--format", "jsonl", directory)
    rows = map(json.loads, ended.stdout.splitlines())
    assert sorted(row["file"] for row in rows if row["kind"] == "refused") == sorted(files)
    assert ended.status == 1
