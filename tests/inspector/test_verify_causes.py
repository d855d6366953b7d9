"""Damage of every kind in whole log directories: the first line names the cause, and counts the findings that follow
from it."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding, Verification
from kcli.inspector.verify.findings import rank
from kcli.inspector.verify.partition import PUT_BACK_MAX
from kcli.inspector.verify.surroundings import Surroundings
from kcli.protocol.topic_partition import TopicPartition
from tests.cli.run import KCLI, kcli
from tests.conftest import GOLDEN
from tests.damage import frames
from tests.log.batches import batch

SOURCE = GOLDEN / "codecs" / "data"
PARTITION = "java-none-0"
OTHER = "java-gzip-0"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a log directory of real Kafka, with the metadata log of its topics."""
    return Path(shutil.copytree(SOURCE, tmp_path / "data it is", copy_function=shutil.copyfile))


def logs(directory: Path, partition: str = PARTITION) -> list[Path]:
    return sorted((directory / partition).glob("*.log"))


def files_of(log: Path) -> list[Path]:
    return [each for each in log.parent.iterdir() if each.stem == log.stem]


def loud(*paths: Path) -> list[Finding]:
    verification = Verification(list(paths))
    found = [finding for finding in verification.findings() if finding.severity != "info"]
    assert not verification.unreadable
    return sorted(found, key=rank)


def swap(one: Path, other: Path) -> None:
    aside = one.with_name("aside")
    one.rename(aside)
    other.rename(one)
    aside.rename(other)


def flip(path: Path, position: int, bit: int = 3) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    path.write_bytes(data)


def remove_segment(directory: Path, number: int) -> Path:
    log = logs(directory)[number]
    for path in files_of(log):
        path.unlink()
    return log


def remove_middle(directory: Path) -> Path:
    return remove_segment(directory, 1)


def remove_first(directory: Path) -> Path:
    return remove_segment(directory, 0)


def remove_log_only(directory: Path) -> Path:
    log = logs(directory)[1]
    log.unlink()
    return log


def remove_last(directory: Path) -> Path:
    remove_segment(directory, -1)
    return logs(directory)[-1]


def remove_all_logs(directory: Path) -> Path:
    first = logs(directory)[0]
    for log in logs(directory):
        log.unlink()
    return first


def empty(directory: Path) -> Path:
    log = logs(directory)[1]
    log.write_bytes(b"")
    return log


def cut(directory: Path) -> Path:
    """Cut the log between two batches, which the log itself does not show."""
    log = logs(directory)[1]
    data = log.read_bytes()
    os.truncate(log, 12 + int.from_bytes(data[8:12]))
    return log


def swap_logs(directory: Path) -> Path:
    first, *_, last = logs(directory)
    swap(first, last)
    return first


def swap_segments(directory: Path) -> Path:
    first, *_, last = logs(directory)
    for suffix in (".log", ".index", ".timeindex"):
        swap(first.with_suffix(suffix), last.with_suffix(suffix))
    return first


def rename_log(directory: Path) -> Path:
    log = logs(directory)[1]
    return log.rename(log.with_name("00000000000000999999.log"))


def rename_segment_below(directory: Path) -> Path:
    log = logs(directory)[1]
    name = f"{int(log.stem) - 1:020}"
    for path in files_of(log):
        path.rename(path.with_name(name + path.suffix))
    return log.with_name(f"{name}.log")


def copy_log(directory: Path) -> Path:
    log = logs(directory)[1]
    return Path(shutil.copyfile(log, log.with_name(f"{int(log.stem) + 1:020}.log")))


def remove_partition(directory: Path) -> Path:
    shutil.rmtree(directory / PARTITION)
    return directory / PARTITION


def flip_in_link(directory: Path) -> Path:
    away = (directory / PARTITION).rename(directory.parent / "away")
    (directory / PARTITION).symlink_to(away, target_is_directory=True)
    log = logs(directory)[0]
    flip(log, 70)
    return log


def dangling_link(directory: Path) -> Path:
    shutil.rmtree(directory / PARTITION)
    (directory / PARTITION).symlink_to(directory.parent / "nowhere")
    return directory / PARTITION


def remove_meta_properties(directory: Path) -> Path:
    (directory / "meta.properties").unlink()
    return directory / "meta.properties"


def other_node(directory: Path) -> Path:
    path = directory / "meta.properties"
    path.write_text(path.read_text().replace("node.id=1", "node.id=7"))
    return path


def remove_topic_id(directory: Path) -> Path:
    path = directory / PARTITION / "partition.metadata"
    path.unlink()
    return path


def flip_topic_id(directory: Path) -> Path:
    path = directory / PARTITION / "partition.metadata"
    path.write_text("version: 0\ntopic_id: 82a778a9cb694b41879c54")
    return path


def others_topic_id(directory: Path) -> Path:
    return Path(shutil.copyfile(directory / OTHER / "partition.metadata", directory / PARTITION / "partition.metadata"))


def foreign_name(directory: Path) -> Path:
    (directory / "foo").mkdir()
    return directory / "foo"


def flip_metadata_log(directory: Path) -> Path:
    log = logs(directory, "__cluster_metadata-0")[0]
    flip(log, log.stat().st_size // 4)
    return log


def empty_metadata_log(directory: Path) -> Path:
    log = logs(directory, "__cluster_metadata-0")[0]
    log.write_bytes(b"")
    return log


def remove_epochs(directory: Path) -> Path:
    path = directory / PARTITION / "leader-epoch-checkpoint"
    path.unlink()
    return path


def remove_recovery_points(directory: Path) -> Path:
    path = directory / "recovery-point-offset-checkpoint"
    path.unlink()
    return path


def forbid(directory: Path) -> Path:
    log = logs(directory)[0]
    log.chmod(0o400)
    return log


def foreign_index(directory: Path) -> Path:
    log = logs(directory)[1]
    other = max((directory / "crafted-0").parent.glob("java-*/*.index"), key=lambda each: each.stat().st_size)
    return Path(shutil.copyfile(other, log.with_suffix(".index")))


ONE: dict[Callable[[Path], Path], str] = {
    remove_middle: "log-missing",
    remove_first: "log-missing",
    remove_log_only: "log-missing",
    remove_last: "log-end",
    remove_all_logs: "log-missing",
    empty: "log-empty",
    cut: "log-cut",
    swap_logs: "file-name",
    swap_segments: "file-name",
    rename_log: "file-name",
    rename_segment_below: "file-name",
    copy_log: "file-name",
    remove_partition: "partition-missing",
    flip_in_link: "batch-crc",
    dangling_link: "directory-link",
    remove_meta_properties: "meta-properties-missing",
    other_node: "meta-properties-node",
    remove_topic_id: "partition-metadata-missing",
    flip_topic_id: "partition-metadata-topic",
    others_topic_id: "partition-metadata-topic",
    foreign_name: "directory-name",
    remove_epochs: "checkpoint-missing",
    remove_recovery_points: "checkpoint-missing",
    forbid: "file-mode",
    empty_metadata_log: "log-empty",
}


@pytest.mark.parametrize("damage", ONE, ids=lambda damage: damage.__name__)
def test_one_damage_is_one_finding(directory: Path, damage: Callable[[Path], Path]) -> None:
    path = damage(directory)
    (finding,) = loud(directory)
    assert (finding.kind, finding.path) == (ONE[damage], str(path))


def test_the_worst_comes_first(directory: Path) -> None:
    """Of two kinds of damage the first line names the worse one, and another line the other."""
    lesser = [remove_epochs, forbid, remove_topic_id]
    for damage in lesser:
        copy = Path(shutil.copytree(directory, directory.with_name(damage.__name__)))
        other = damage(copy)
        lost = remove_last(copy) if damage is not forbid else remove_middle(copy)
        first, *more = loud(copy)
        assert first.path == str(lost)
        assert str(other) in {finding.path for finding in more}


def test_what_keeps_kafka_from_starting_comes_before_a_lost_segment(directory: Path) -> None:
    odd, lost = foreign_name(directory), remove_last(directory)
    first, *more = loud(directory)
    assert (first.path, first.refuses_start) == (str(odd), True)
    assert str(lost) in {finding.path for finding in more}


def test_a_lost_partition_shows_without_meta_properties(directory: Path) -> None:
    remove_meta_properties(directory)
    remove_partition(directory)
    assert [finding.kind for finding in loud(directory)] == ["meta-properties-missing", "partition-missing"]


def test_damage_in_a_renamed_log_is_told_apart(directory: Path) -> None:
    flip(rename_log(directory), 70)
    assert {finding.kind for finding in loud(directory)} == {"file-name", "batch-crc"}


def test_lost_offsets_are_named(directory: Path) -> None:
    first, second, third = (int(log.stem) for log in logs(directory)[:3])
    remove_middle(directory)
    (finding,) = loud(directory)
    assert (finding.severity, finding.lost_first_offset, finding.lost_last_offset) == ("error", second, third - 1)
    remove_first(directory)
    ranges = {(finding.lost_first_offset, finding.lost_last_offset) for finding in loud(directory)}
    assert ranges == {(first, third - 1)}


def test_a_partition_alone_is_judged_by_the_directory_around_it(directory: Path) -> None:
    remove_middle(directory)
    (finding,) = loud(directory / PARTITION)
    assert (finding.kind, finding.severity) == ("log-missing", "error")


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_partition_is_lost_beside_damage_in_the_metadata_log(directory: Path, *, is_cut: bool) -> None:
    """No start of Kafka deletes a partition's directory because of that damage: the loss has another cause."""
    remove_partition(directory)
    (alone,) = loud(directory)
    log = min((directory / "__cluster_metadata-0").glob("*.log"))
    if is_cut:
        os.truncate(log, log.stat().st_size - 30)
    else:
        flip(log, log.stat().st_size * 2 // 3)
    first, second, *_ = loud(directory)
    assert first.path == str(log)
    assert (second.kind, second.path, second.found) == (alone.kind, alone.path, alone.found)
    assert second.lost_last_offset is not None
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        version, _, *entries = (directory / name).read_text().splitlines()
        left = [each for each in entries if each.split()[:2] != PARTITION.rsplit("-", 1)]
        (directory / name).write_text("\n".join([version, str(len(left)), *left, ""]))
    found = loud(directory)  # the lost records may have deleted the partition's topic
    assert found[0].consequences["partition-missing"] == 1
    assert "partition-missing" not in {each.kind for each in found}


def test_a_gap_is_a_warning_where_the_policy_is_not_known(directory: Path, tmp_path: Path) -> None:
    remove_middle(directory)
    for snapshot in (directory / PARTITION).glob("*.snapshot"):
        snapshot.unlink()
    alone = Path(shutil.copytree(directory / PARTITION, tmp_path / "alone" / PARTITION))
    (finding,) = loud(alone)
    assert (finding.kind, finding.severity) == ("log-missing", "warning")


def test_the_metadata_log_may_be_in_another_directory(directory: Path, tmp_path: Path) -> None:
    other = tmp_path / "metadata"
    other.mkdir()
    (directory / "__cluster_metadata-0").rename(other / "__cluster_metadata-0")
    own = (directory / "meta.properties").read_text()
    (other / "meta.properties").write_text(re.sub("directory.id=.*", "directory.id=AAECAwQFBgcICQoLDA0ODw", own))
    remove_partition(directory)
    assert loud(directory) == []
    (finding,) = loud(directory, other)
    assert finding.kind == "partition-missing"
    verification = Verification([directory], server={"metadata.log.dir": str(other)})
    assert [each.kind for each in verification.findings() if each.severity != "info"] == ["partition-missing"]


@pytest.mark.parametrize("topic", ["c-plain-0", "__consumer_offsets-0"])
def test_gaps_of_compacted_topics_are_normal(tmp_path: Path, topic: str) -> None:
    source = GOLDEN / ("compact/after" if topic == "c-plain-0" else "groups/data")
    directory = Path(shutil.copytree(source, tmp_path / "data", copy_function=shutil.copyfile))
    assert loud(directory) == []


def without_a_segment_but_its_snapshot(tmp_path: Path, partition: str) -> tuple[Path, Path]:
    """Return a log directory with compacted topics, and the path of the log that was removed from it."""
    directory = Path(shutil.copytree(GOLDEN / "compact/after", tmp_path / "data", copy_function=shutil.copyfile))
    held = [log for log in logs(directory, partition)[1:-1] if log.with_suffix(".snapshot").exists()]
    for path in files_of(held[-1]):
        if path.suffix != ".snapshot":
            path.unlink()
    return directory, held[-1]


def snapshots_without_a_segment(partition: Path) -> list[int]:
    """Return the offsets of producer snapshots below the last segment at which no segment begins."""
    bases = {int(log.stem) for log in partition.glob("*.log")}
    offsets = {int(snapshot.stem) for snapshot in partition.glob("*.snapshot")} - bases
    return sorted(offset for offset in offsets if offset < max(bases))


@pytest.mark.parametrize("is_cleaned", [True, False])
def test_a_first_segment_of_a_compacted_topic_may_have_had_no_batch(tmp_path: Path, *, is_cleaned: bool) -> None:
    """The cleaner keeps an empty log there, which somebody may have deleted with all empty files."""
    directory = Path(shutil.copytree(GOLDEN / "compact/after", tmp_path / "data", copy_function=shutil.copyfile))
    first, second, *_ = logs(directory, "c-plain-0")
    for path in files_of(first):
        path.unlink()
    checkpoint = directory / "cleaner-offset-checkpoint"
    if not is_cleaned:
        checkpoint.write_text(re.sub(r"c-plain 0 \d+", f"c-plain 0 {int(second.stem) - 1}", checkpoint.read_text()))
    finding = next(each for each in loud(directory) if each.kind == "log-missing")
    assert (finding.path, finding.severity) == (str(first), "warning" if is_cleaned else "error")
    assert ("unless the log cleaner has left none of their records" in str(finding.found)) == is_cleaned


@pytest.mark.parametrize("partition", ["c-append-time-0", "c-snappy-0"])
def test_the_snapshot_of_a_lost_segment_tells_of_it_where_gaps_are_normal(tmp_path: Path, partition: str) -> None:
    """The cleaner removes a segment's snapshot with the segment."""
    directory, log = without_a_segment_but_its_snapshot(tmp_path, partition)
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity, finding.path) == ("log-missing", "warning", str(log))
    assert finding.lost_first_offset == int(log.stem)


@pytest.mark.parametrize("partition", ["c-append-time-0", "c-snappy-0"])
def test_the_snapshot_of_a_shutdown_tells_of_no_segment(tmp_path: Path, partition: str) -> None:
    """A shutdown writes a snapshot at the log end, and the cleaner may later remove the segment around it. The leader
    epoch of the restart begins there."""
    directory = without_a_segment_but_its_snapshot(tmp_path, partition)[0]
    assert [finding.kind for finding in loud(directory)] == ["log-missing"]
    (offset,) = snapshots_without_a_segment(directory / partition)
    (directory / partition / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n2 {offset}\n")
    assert [finding.kind for finding in loud(directory) if finding.kind != "checkpoint-epoch"] == []


def test_no_snapshot_tells_of_a_segment_without_leader_epochs(tmp_path: Path) -> None:
    """An epoch may have begun there."""
    directory = without_a_segment_but_its_snapshot(tmp_path, "c-snappy-0")[0]
    (directory / "c-snappy-0" / "leader-epoch-checkpoint").write_bytes(b"")
    assert [finding.kind for finding in loud(directory)] == ["checkpoint-empty"]


def test_the_snapshot_of_a_follower_tells_of_no_segment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No leader epoch begins where a follower's broker was shut down."""
    directory = without_a_segment_but_its_snapshot(tmp_path, "c-snappy-0")[0]
    monkeypatch.setattr(Surroundings, "is_replicated", lambda *_: True)
    assert loud(directory) == []


@pytest.mark.parametrize(("topic", "is_replicated"), [("k-compact", True), ("nowhere", False)])
def test_whether_a_partition_has_other_replicas(topic: str, is_replicated: bool) -> None:
    around = Surroundings(GOLDEN / "kraft" / "broker-1", {"metadata.log.dir": str(GOLDEN / "kraft/controller-100")})
    assert around.is_replicated(TopicPartition(topic, 0)) is is_replicated


@pytest.mark.parametrize("state", ["delete", "stray"])
def test_kafka_empties_the_epochs_of_a_directory_that_it_renames(directory: Path, state: str) -> None:
    renamed = directory / f"{PARTITION}.{'0' * 32}-{state}"
    shutil.copytree(directory / PARTITION, renamed)
    (renamed / "leader-epoch-checkpoint").write_text("0\n0\n")
    assert [each.kind for each in loud(directory)] == ["leftover-directory"] * (state == "stray")


def test_emptied_segment_counts_its_indexes(directory: Path) -> None:
    log = empty(directory)
    (finding,) = loud(directory)
    assert finding.path == str(log)
    assert finding.consequences["index-position"] == log.with_suffix(".index").stat().st_size // 8


def test_damage_in_the_metadata_log_counts_the_strays(directory: Path) -> None:
    log = flip_metadata_log(directory)
    first = loud(directory)[0]
    assert (first.path, first.kind) == (str(log), "batch-crc")
    assert first.consequences["partition-stray"] > 0


@pytest.mark.parametrize(
    ("name", "is_refused"),
    # as tried with Kafka 4.3
    [
        ("foo", True),
        ("bar-", True),
        ("-0", True),
        ("orders-3-stray", True),
        ("a.b-delete", True),
        ("x-y.u-stray", True),
        ("x-0-delete", True),
        ("x-99999999999", True),
        ("lost+found", True),
        (".hidden", True),
        ("orders-007", False),
        ("x-+1", False),
        ("sp ace-0", False),
        ("users-1.abc-delete", False),
        ("x-0.u-stray", False),
        ("remote-log-index-cache", False),
    ],
)
def test_names_that_keep_kafka_from_starting(directory: Path, name: str, is_refused: bool) -> None:
    (directory / name).mkdir()
    assert ("directory-name" in {finding.kind for finding in loud(directory)}) == is_refused


def test_a_loop_of_links_ends(directory: Path) -> None:
    (directory / PARTITION / "loop-0").symlink_to(directory, target_is_directory=True)
    assert loud(directory) == []


def test_unclean_shutdown_is_a_note(directory: Path) -> None:
    (directory / ".kafka_cleanshutdown").unlink()
    kinds = {finding.kind for finding in Verification([directory]).findings()}
    assert "unclean-shutdown" in kinds
    assert loud(directory) == []


# the command


def run(*arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    ended = kcli("verify", *arguments, cwd=cwd or Path.cwd())
    return subprocess.CompletedProcess(arguments, ended.status, ended.stdout, ended.stderr)


def test_a_crashed_directory_is_calm() -> None:
    shown = run(GOLDEN / "unclean" / "crashed")
    assert shown.returncode == 0
    first, *more = shown.stdout.splitlines()
    assert first.startswith("sound in 158 files, ")
    assert more[0].endswith(" notes not shown (--severity info shows them)")
    assert more[1] == "not shut down in order, or running: Kafka checks the logs when it starts"
    quiet = run("--quiet", GOLDEN / "unclean" / "crashed")
    assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", "")


def test_severity_filters_both_formats_and_the_status(directory: Path) -> None:
    remove_epochs(directory)
    for arguments, status, severities in (
        ((), 1, {"warning", "info"}),
        (("--severity", "warning"), 1, {"warning"}),
        (("--severity", "error"), 0, set()),
    ):
        done = run("--format", "jsonl", *arguments, directory)
        assert done.returncode == status
        assert {json.loads(line)["severity"] for line in done.stdout.splitlines()} == severities
        assert run(*arguments, directory).returncode == status
    summary = run("--severity", "error", directory).stdout
    assert summary.startswith("no errors in ")
    assert "1 warning and " in summary
    assert run("--severity", "fatal", directory).returncode == 2


def test_quiet_is_a_line_a_file(directory: Path) -> None:
    swap_logs(directory)
    remove_epochs(directory)
    lines = run("--quiet", directory).stdout.splitlines()
    assert [line.split()[:2] for line in lines] == [["error", "file-name"], ["warning", "checkpoint-missing"]]


def nexts(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if line.startswith("        Next: "):
            yield line.removeprefix("        Next: ")


EVERY = [*ONE, flip_metadata_log, foreign_index]


@pytest.mark.parametrize("damage", EVERY, ids=lambda damage: damage.__name__)
def test_next_runs_in_a_shell(directory: Path, tmp_path: Path, damage: Callable[[Path], Path]) -> None:
    """The commands run as printed, in the directory of verify, with paths that need quotes."""
    damage(directory)
    shown = run(directory.name, cwd=tmp_path)
    commands = list(nexts(shown.stdout))
    assert commands
    (tmp_path / "kcli").write_text(f'#!/bin/sh\nexec {shlex.join(KCLI)} "$@"\n')
    (tmp_path / "kcli").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }
    for command in commands:
        done = subprocess.run(
            ["sh", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
        )
        assert done.returncode in (0, 1), (command, done.stderr)
        assert "Traceback" not in done.stderr
        assert "No such file" not in done.stderr, command


@pytest.mark.parametrize(
    "damage",
    [
        swap_logs,
        swap_segments,
        rename_log,
        rename_segment_below,
        copy_log,
        foreign_name,
        remove_topic_id,
        flip_topic_id,
    ],
    ids=lambda damage: damage.__name__,
)
def test_next_mends(directory: Path, tmp_path: Path, damage: Callable[[Path], Path]) -> None:
    damage(directory)
    (command,) = nexts(run(directory.name, cwd=tmp_path).stdout)
    subprocess.run(["sh", "-c", command], check=True, cwd=tmp_path)
    assert loud(directory) == []


def test_a_lost_end_is_no_gap(directory: Path) -> None:
    log = logs(directory)[-1]
    for path in files_of(log):
        path.unlink()
    (finding,) = [each for each in loud(directory) if each.kind == "log-end"]
    assert finding.action.endswith("Without either, new records get these offsets")


@pytest.mark.parametrize("bit", [0, 1, 2, 3, 8, 24, 32])
def test_a_flipped_base_offset_of_the_last_batch(directory: Path, bit: int) -> None:
    """No CRC covers it; the batch before it and the checkpoints tell the right one."""
    log = logs(directory)[-1]
    data = bytearray(log.read_bytes())
    position, _ = frames(data)[-1]
    right = int.from_bytes(data[position : position + 8])
    data[position : position + 8] = (right ^ 1 << bit).to_bytes(8)
    log.write_bytes(data)
    (finding,) = loud(directory)
    assert (finding.kind, finding.path, finding.position) == ("offsets-order", str(log), position)
    assert finding.found == f"base offset {right ^ 1 << bit:,}, a flipped bit, which no CRC covers"
    assert str(finding.expected).startswith(f"{right:,}, behind the batch before it")
    assert "--salvage" in str(finding.command)


@pytest.mark.parametrize("bit", [0, 4, 10, 24])
@pytest.mark.parametrize("number", [1, 9, -1])
@pytest.mark.parametrize("segment", [0, 1])
def test_a_flipped_base_offset_of_another_batch(directory: Path, segment: int, number: int, bit: int) -> None:
    """The batches beside it leave one place for it. What the check of the indexes and of the batches behind it notices
    is no damage of its own."""
    log = logs(directory)[segment]
    data = bytearray(log.read_bytes())
    place = number % len(frames(data))
    position, length = frames(data)[number]
    right = int.from_bytes(data[position : position + 8])
    wrong = right ^ 1 << bit
    data[position : position + 8] = wrong.to_bytes(8)
    log.write_bytes(data)
    (finding,) = loud(directory)
    assert (finding.kind, finding.path, finding.position) == ("offsets-order", str(log), position)
    assert (finding.length, finding.offset) == (length, wrong)
    assert finding.found == f"base offset {wrong:,}, a flipped bit, which no CRC covers"
    assert str(finding.expected).startswith(f"{right:,}, which the batches beside it leave")
    assert (finding.valid_batches_before, finding.valid_batches_behind) == (place, len(frames(data)) - 1 - place)
    skipped = "it" if wrong < right else "the batches behind it"
    assert finding.action.startswith(f"Kafka keeps this batch as it is, and consumers skip {skipped};")
    assert "--salvage" in str(finding.command)


@pytest.mark.parametrize("bits", [(28, 36), (36, 28), (30, 30)])
def test_two_flipped_base_offsets_that_explain_the_same_findings(directory: Path, bits: tuple[int, int]) -> None:
    """The offsets behind both seem to have been used by either batch."""
    log = logs(directory)[0]
    data = bytearray(log.read_bytes())
    flipped = [(frames(data)[number][0], bit) for number, bit in zip((3, 7), bits, strict=True)]
    for position, bit in flipped:
        data[position : position + 8] = (int.from_bytes(data[position : position + 8]) ^ 1 << bit).to_bytes(8)
    log.write_bytes(data)
    assert {each.position for each in loud(directory)} == {position for position, _ in flipped}


def test_of_very_many_wrong_base_offsets_the_first_are_looked_for(tmp_path: Path) -> None:
    """With 8,000 batches verify once took half a minute."""
    batches = [batch(b"v", base_offset=i ^ (i % 2) << 20) for i in range(2_000)]
    path = tmp_path / "p-0" / f"{0:020}.log"
    path.parent.mkdir()
    path.write_bytes(b"".join(batches))
    found = [each for each in loud(path.parent) if each.kind == "offsets-order"]
    assert sum("a flipped bit" in str(each.found) for each in found) == PUT_BACK_MAX
