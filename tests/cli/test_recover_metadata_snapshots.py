"""kcli verify and recover where a snapshot of the metadata log is damaged, or belongs to another log, while the log
still has the records."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.cli.settings import Settings
from kcli.inspector.cluster_metadata import read_image
from kcli.inspector.verify import Verification
from kcli.log.partition_view import PartitionView
from kcli.metadata.difference import differences
from kcli.metadata_log.records import read_batches
from kcli.metadata_log.replay import contradiction
from kcli.metadata_log.snapshot_file import SnapshotId, image_bytes
from tests.broker.running import served_node
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.metadata_damage import LOG, batches, copied, partitions, strays

METADATA = "__cluster_metadata-0"


def snapshot(directory: Path, below_end: int = 0, epoch: int | None = None) -> Path:
    """The path of a snapshot at the end of the metadata log, or some offsets below it."""
    last = batches(directory)[-1]
    epoch = last.leader_epoch if epoch is None else epoch
    return directory / METADATA / f"{last.last_offset + 1 - below_end:020}-{epoch:010}.checkpoint"


def bootstrap(directory: Path) -> Path:
    """Copy bootstrap.checkpoint to a snapshot at the end of the log."""
    return Path(shutil.copy(directory / "bootstrap.checkpoint", snapshot(directory)))


def bootstrap_within(directory: Path) -> Path:
    """Give the copy an offset within the log."""
    return Path(shutil.copy(directory / "bootstrap.checkpoint", snapshot(directory, below_end=3)))


def bootstrap_ahead(directory: Path) -> Path:
    """Give the copy an offset beyond the log, which Kafka then deletes."""
    return Path(shutil.copy(directory / "bootstrap.checkpoint", snapshot(directory, below_end=-50)))


def of_another_cluster(directory: Path) -> Path:
    """A snapshot with other topics."""
    other = max((GOLDEN / "kraft/controller-100" / METADATA).glob("*.checkpoint"))
    return Path(shutil.copy(other, snapshot(directory)))


FALSE = [bootstrap, bootstrap_within, bootstrap_ahead, of_another_cluster]


@pytest.mark.parametrize("damage", FALSE)
def test_salvage_replays_the_log_in_place_of_a_false_snapshot(tmp_path: Path, damage: Callable[[Path], Path]) -> None:
    directory = copied(tmp_path)
    whole = read_image(directory)
    damage(directory)
    ended = kcli("recover", "--format", "jsonl", directory)
    assert ended.status == 1
    found = [json.loads(line) for line in ended.stdout.splitlines()]
    assert any(row["kind"] == "metadata-damaged" and "checkpoint" in row["reason"] for row in found)
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    assert whole is not None
    saved = read_image(new)
    assert saved is not None
    assert {each.what for each in differences(whole, saved)} <= {"block of producer ids"}
    assert kcli("recover", new).status == 0
    assert kcli("verify", new).status == 0
    before = partitions(directory)
    with served_node(new):
        pass
    assert not strays(new)
    assert partitions(new) >= before


@pytest.mark.parametrize("damage", FALSE)
def test_verify_names_a_false_snapshot_first(tmp_path: Path, damage: Callable[[Path], Path]) -> None:
    directory = copied(tmp_path)
    path = damage(directory)
    for place in (directory, directory / METADATA, path):
        lines = kcli("verify", place).stdout.splitlines()
        assert lines[0].startswith(f"error   snapshot-records  {path}")
        assert any(line.strip() == f"Next: mv -nT -- {path} {path}.moved" for line in lines)
        assert not any("partition-stray  " in line for line in lines)
    path.rename(f"{path}.moved")
    assert kcli("verify", directory).status == 0
    assert kcli("recover", directory).status == 0


def older_epochs(directory: Path) -> int:
    """Write a snapshot at the end of the log in which each leader epoch is one lower. Returns their number."""
    image = read_image(directory)
    assert image is not None
    states = [(topic.partitions, number) for topic in image.topics.values() for number in topic.partitions]
    for of_topic, number in states:
        of_topic[number] = replace(of_topic[number], leader_epoch=of_topic[number].leader_epoch - 1)
    last = batches(directory)[-1]
    which = SnapshotId(last.last_offset + 1, last.leader_epoch)
    (directory / METADATA / which.file_name).write_bytes(image_bytes(image, which, last.max_timestamp, ()))
    return len(states)


def test_a_snapshot_with_older_leader_epochs(tmp_path: Path) -> None:
    """All else in it is as in the log, as where no more than a restart lies between it and its offset."""
    directory = copied(tmp_path)
    count = older_epochs(directory)
    first = kcli("verify", directory).stdout.splitlines()[0]
    assert first.startswith(f"error   snapshot-records  {snapshot(directory)}")
    assert f"{count} leader epochs are lower in it" in first
    assert "leaders get epochs that they had before" in first
    assert "-stray" not in first
    rows = [json.loads(line) for line in kcli("recover", "--format", "jsonl", directory).stdout.splitlines()]
    assert {(row["kind"], row["what"]) for row in rows if "what" in row} == {("metadata-changed", "leader epoch")}
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    assert kcli("recover", new).status == 0
    assert kcli("verify", new).status == 0


@pytest.mark.parametrize("content", [b"", b"xxxx"])
@pytest.mark.parametrize("below_end", [0, 3])
def test_salvage_of_a_damaged_snapshot_keeps_the_configurations(tmp_path: Path, content: bytes, below_end: int) -> None:
    """The log has the configurations: it begins at offset 0 and extends beyond the snapshot's offset."""
    directory = copied(tmp_path)
    whole = read_image(directory)
    snapshot(directory, below_end).write_bytes(content)
    new = tmp_path / "new"
    ended = kcli("recover", "--salvage", "--out", new, directory)
    assert ended.status == 0
    assert "without their configuration" not in ended.stdout
    saved = read_image(new)
    assert whole is not None
    assert saved is not None
    assert saved.configured == whole.configured
    assert saved.topics_by_id.keys() == whole.topics_by_id.keys()


def test_salvage_of_a_damaged_snapshot_keeps_its_records_where_the_log_has_none(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    latest = bootstrap(directory)
    records = [each for batch in read_batches(latest) for each in batch.records]
    latest.write_bytes(latest.read_bytes() + b"xxxx")
    (directory / LOG).write_bytes(b"")
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    saved = read_image(new)
    assert saved is not None
    assert saved.features == {value["name"]: value["featureLevel"] for _, _, value in records}


@pytest.mark.parametrize("node", sorted(each.name for each in (GOLDEN / "kraft").iterdir() if each.is_dir()))
def test_snapshots_of_kafka_agree_with_its_log(node: str) -> None:
    directory = GOLDEN / "kraft" / node / METADATA
    files = PartitionView(directory).original if directory.is_dir() else {}
    for name in files:
        if name.endswith(".checkpoint") and name[:1] == "0":
            assert contradiction(directory, files, name) is None


def cut_before_its_records(directory: Path) -> Path:
    """A snapshot that a crash has cut behind its header, below records that change what it should have."""
    path, data = snapshot(directory, below_end=176), (directory / "bootstrap.checkpoint").read_bytes()
    path.write_bytes(data[: 12 + int.from_bytes(data[8:12]) + 40])
    return path


def test_a_cut_snapshot_keeps_kafka_from_starting(tmp_path: Path) -> None:
    """Kafka 4.3.0 takes the records before the cut, and ends at the first record of the log that changes others."""
    directory = copied(tmp_path)
    path = cut_before_its_records(directory)
    (directory / "append-time-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n6 ")
    ended = kcli("verify", "--format", "jsonl", directory)
    found = [each for each in map(json.loads, ended.stdout.splitlines()) if each["refuses_start"]]
    finding = next(each for each in found if each["path"] == str(path))
    assert "does not start: offset 101: a change of broker 1" in finding["found"]
    first = kcli("verify", directory).stdout.splitlines()[0]
    assert str(path) in first
    (directory / "append-time-0" / "leader-epoch-checkpoint").unlink()
    commands = [each.command for each in Verification([directory]).findings() if each.refuses_start]
    assert commands == [f"mv -nT -- {path} {path}.moved"]


def test_topics_have_the_configuration_of_the_readable_part(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    cut_before_its_records(directory)
    settings = Settings(directory, None, [])
    assert settings.metadata_error is not None
    assert settings.log_config("recompress-zstd").compression_type == "zstd"


@pytest.mark.parametrize("number", [1, 3])
def test_what_the_latest_snapshot_has_is_not_lost(tmp_path: Path, number: int) -> None:
    """Kafka cuts the log below the snapshot of offset 213, and goes on from the snapshot."""
    home = Path(shutil.copytree(GOLDEN / "kraft/controller-100", tmp_path / "data", copy_function=shutil.copyfile))
    log = sorted((home / METADATA).glob("*.log"))[number]
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    (finding,) = [each for each in Verification([home]).findings() if each.path == str(log)]
    assert finding.action.endswith(": offsets 213..250 are lost")
    shown = kcli("recover", home).stdout
    assert "records in 19 sound batches; the snapshot has the metadata below 213\n" in shown or number == 3
    assert "records in 17 sound batches; the snapshot has the metadata below 213\n" in shown or number == 1
    assert "; the snapshot has the metadata of offsets 0..110, with 111 records" in shown
    assert shown.count("metadata-in-quorum") == 1


def test_a_log_that_ends_below_its_latest_snapshot(tmp_path: Path) -> None:
    """Kafka begins the log anew at the snapshot, and all that the log had is in it."""
    home = Path(shutil.copytree(GOLDEN / "kraft/controller-100", tmp_path / "data", copy_function=shutil.copyfile))
    for each in (home / METADATA).glob(f"{188:020}.*[!t]"):
        each.write_bytes(b"")
    (home / METADATA / f"{251:020}.snapshot").unlink()
    (home / METADATA / "leader-epoch-checkpoint").write_text("0\n2\n1 0\n2 163\n")
    ended = kcli("recover", home)
    assert "the snapshot has the metadata of offsets 154..187, with 34 records in 26 sound batches\n" in ended.stdout
    assert ended.stdout.count("segment-removed") == 4
    assert "Kafka loses" not in ended.stdout
    assert "\nnext " not in ended.stdout
    assert ended.status == 0
    found = list(Verification([home]).findings())
    (note,) = [each for each in found if each.kind == "log-behind-snapshot"]
    assert (note.severity, note.offset, Path(note.path).name) == ("info", 188, f"{213:020}-{2:010}.checkpoint")
    assert "begins the log anew at 213" in note.action
    assert {each.severity for each in found} == {"info"}


def test_a_false_snapshot_ahead_of_the_log_is_not_called_behind(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    bootstrap_ahead(directory)
    assert kcli("recover", directory).status == 1
    assert "log-behind-snapshot" not in {each.kind for each in Verification([directory]).findings()}


@pytest.mark.parametrize("node", ["broker-1", "dynamic-quorum"])
def test_no_flipped_byte_of_the_log_makes_a_snapshot_false(tmp_path: Path, node: str) -> None:
    """The records of the damaged batch are not read: what the snapshot has of them is no contradiction."""
    home = Path(shutil.copytree(GOLDEN / "kraft" / node / METADATA, tmp_path / METADATA, copy_function=shutil.copyfile))
    log = home / f"{0:020}.log"
    whole = log.read_bytes()
    names = [each.name for each in home.glob("*[1-9]-*.checkpoint")]
    for batch in batches(tmp_path):
        data = bytearray(whole)
        data[batch.position + batch.size - 2] ^= 4
        log.write_bytes(data)
        files = PartitionView(home).original
        assert [contradiction(home, files, each) for each in names] == [None] * len(names), batch
    assert len(names) > 1


def test_a_snapshot_cut_behind_its_header(tmp_path: Path) -> None:
    """Kafka takes it without its records, and knows no topic: verify says so, and its command leads back to the log."""
    directory = copied(tmp_path)
    whole = read_image(directory)
    assert whole is not None
    path = snapshot(directory)
    whole_bytes = image_bytes(whole, SnapshotId(*map(int, path.stem.split("-"))), 0, [])
    header = 12 + int.from_bytes(whole_bytes[8:12])
    path.write_bytes(whole_bytes[: header + 100])
    findings = [each for each in Verification([directory]).findings() if each.path == str(path)]
    (cut,) = [each for each in findings if each.kind == "truncated"]
    assert "renames the partitions that it lacks to -stray" in str(cut.found)
    assert cut.command is not None
    subprocess.run(cut.command, shell=True, check=True)
    after = read_image(directory)
    assert after is not None
    assert after.topics_by_id.keys() == whole.topics_by_id.keys()


def true_snapshot(directory: Path) -> tuple[Path, int]:
    """Write a snapshot of the log below one of its batches, under its right name. Returns its path, and the number of
    topics that the log has behind it."""
    rows, at = batches(directory), 14
    log = directory / LOG
    whole, data = read_image(directory), log.read_bytes()
    log.write_bytes(data[: rows[at].position + rows[at].size])
    image = read_image(directory)
    log.write_bytes(data)
    assert whole is not None
    assert image is not None
    which = SnapshotId(rows[at].last_offset + 1, rows[at].leader_epoch)
    path = directory / METADATA / which.file_name
    path.write_bytes(image_bytes(image, which, rows[at].max_timestamp, ()))
    return path, len(whole.topics) - len(image.topics)


@pytest.mark.parametrize(
    ("offset", "epoch", "outcome"),
    [
        (0, 2, "deletes the log"),
        (10_000, 1, "deletes the log"),
        (10_000, 0, "Kafka does not get ready"),
    ],
)
def test_a_snapshot_under_a_wrong_name(tmp_path: Path, offset: int, epoch: int, outcome: str) -> None:
    """It has the time and the epoch of a batch within the log: verify says what the start does by the wrong name, and
    salvage reads the snapshot as what it is."""
    directory = copied(tmp_path)
    right, lost = true_snapshot(directory)
    assert lost > 0
    assert kcli("verify", directory).status == 0
    whole = read_image(directory)
    which = SnapshotId(*map(int, right.stem.split("-")))
    wrong = right.rename(right.with_name(SnapshotId(which.offset + offset, which.epoch + epoch).file_name))
    lines = kcli("verify", directory).stdout.splitlines()
    assert lines[0].startswith(f"error   snapshot-records  {wrong}")
    assert outcome in lines[0]
    assert any(line.strip() == f"Next: mv -nT -- {wrong} {right}" for line in lines)
    rows = [json.loads(line) for line in kcli("recover", "--format", "jsonl", directory).stdout.splitlines()]
    assert any(row["kind"] == "metadata-damaged" and wrong.name in row["reason"] for row in rows)
    assert any(row["kind"] == "refused" for row in rows) == ("not get ready" in outcome)
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    saved = read_image(new)
    assert whole is not None
    assert saved is not None
    assert {each.what for each in differences(whole, saved)} <= {"block of producer ids"}
    wrong.rename(right)
    assert kcli("verify", directory).status == 0


def test_a_wrong_epoch_in_a_name_that_does_no_harm(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    right, _ = true_snapshot(directory)
    wrong = right.rename(right.with_name(right.name.replace("-0000000001", "-0000000000")))
    first = kcli("verify", directory).stdout.splitlines()[0]
    assert first.startswith(f"warning snapshot-records  {wrong}")
    assert "its batches are of epoch 1, not 0" in first
    assert kcli("recover", directory).status == 0


def test_a_snapshot_that_a_follower_has_fetched_is_no_wrong_one(tmp_path: Path) -> None:
    """It is ahead of the log, which ends before it."""
    directory = copied(tmp_path)
    right, _ = true_snapshot(directory)
    log = directory / LOG
    log.write_bytes(log.read_bytes()[: batches(directory)[2].position])
    files = PartitionView(directory / METADATA).original
    assert contradiction(directory / METADATA, files, right.name) is None


def whole_snapshot(directory: Path) -> tuple[Path, bytes]:
    """Write a snapshot of the whole log. Returns its path and its bytes."""
    image, last = read_image(directory), batches(directory)[-1]
    assert image is not None
    which = SnapshotId(last.last_offset + 1, last.leader_epoch)
    path = directory / METADATA / which.file_name
    path.write_bytes(image_bytes(image, which, last.max_timestamp, ()))
    return path, path.read_bytes()


def without_the_log_below(directory: Path) -> None:
    """Remove the segments, as a broker does that has a snapshot of all that they have."""
    for path in (directory / METADATA).iterdir():
        if path.suffix in (".log", ".index", ".timeindex", ".snapshot"):
            path.unlink()


@pytest.mark.parametrize("has_log", [True, False])
@pytest.mark.parametrize("cut", [1, 7, 60, 70, 75])
def test_a_snapshot_without_its_footer_has_all_records(tmp_path: Path, cut: int, has_log: bool) -> None:
    """Kafka 4.3.0 started with it, and had all topics, configurations and offsets."""
    directory = copied(tmp_path)
    path, data = whole_snapshot(directory)
    path.write_bytes(data[:-cut])
    if not has_log:
        without_the_log_below(directory)
    is_known = has_log or cut <= 60
    ended = kcli("verify", directory)
    first = ended.stdout.splitlines()[0]
    level, kind = (
        ("warning", "snapshot-footer") if is_known else ("error", "snapshot-footer" if cut == 75 else "truncated")
    )
    assert first.split()[:2] == [level, kind]
    assert str(path) in first
    assert "Kafka starts with" in first
    assert "not readable" not in ended.stdout + ended.stderr
    assert "Next: kcli recover" in ended.stdout
    dry = kcli("recover", directory)
    assert dry.status == (0 if is_known else 1)
    assert "records of the metadata log are lost" not in dry.stdout
    assert ("has all records of the snapshot" if is_known else "nothing tells whether records") in dry.stdout
    assert "kcli recover --salvage --out NEW" in dry.stdout
    new = tmp_path / "new"
    assert kcli("recover", "--salvage", "--out", new, directory).status == 0
    assert (new / METADATA / path.name).read_bytes() == data
    assert kcli("verify", new).status == 0
    kcli("recover", "--salvage", "--in-place", directory)
    assert path.read_bytes() == data


def test_an_older_snapshot_without_its_footer(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    path, data = whole_snapshot(directory)
    older = path.with_name("00000000000000000005-0000000001.checkpoint")
    older.write_bytes(data[:-7])
    found = [each for each in Verification([directory]).findings() if each.path == str(older)]
    (finding,) = [each for each in found if each.kind != "snapshot-records"]  # it has another's name, too
    assert (finding.kind, finding.severity, finding.command) == ("snapshot-footer", "warning", None)


def test_a_snapshot_torn_in_its_records_below_which_the_log_is_gone(tmp_path: Path) -> None:
    """Kafka starts with the records before the torn batch: the others are lost, and deleting the file loses all."""
    directory = copied(tmp_path)
    path, data = whole_snapshot(directory)
    path.write_bytes(data[:-80])
    without_the_log_below(directory)
    verified = kcli("verify", directory)
    assert f"truncated  {path}" in verified.stdout
    assert "keep the file if this node is the only voter" in verified.stdout
    assert kcli("recover", directory).status == 1
