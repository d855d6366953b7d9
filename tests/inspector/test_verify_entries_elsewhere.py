"""Entries of cleaner-offset-checkpoint for partitions that lie in another log directory of the broker: with two entries
of one partition Kafka 4.3's log cleaner ends (Duplicate key)."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from formats.file_name import FileKind
from kcli.inspector.verify import Finding, Verification
from kcli.log.log_directory import LogDirectory, read_properties
from kcli.protocol.topic_partition import TopicPartition
from tests.cli.run import kcli
from tests.inspector.test_verify_causes import loud
from tests.two_directories import MOVED, two_directories

KIND = "checkpoint-elsewhere"
CLEANER = FileKind.CLEANER_OFFSETS
FIRST, SECOND = TopicPartition("java-none", 0), TopicPartition("crafted", 0)
Homes = tuple[Path, Path, Path]


def write(home: Path, entries: dict[TopicPartition, int]) -> None:
    lines = [f"{name.topic} {name.partition} {offset}" for name, offset in entries.items()]
    (home / CLEANER).write_text("\n".join(["0", str(len(lines)), *lines, ""]))


@pytest.fixture
def homes(tmp_path: Path) -> Homes:
    """Two log directories, each with the entry of one of its partitions, and a server.properties."""
    one, two, server = two_directories(tmp_path)
    assert (one / str(FIRST)).is_dir()
    assert str(SECOND) in MOVED
    write(one, {FIRST: 1})
    write(two, {SECOND: 1})
    return one, two, server


def the_only(findings: list[Finding]) -> Finding:
    (finding,) = findings
    assert (finding.kind, finding.severity) == (KIND, "warning")
    return finding


def rows(homes: Homes, number: int) -> list[dict[str, str]]:
    ended = kcli("recover", "--config", homes[2], "--format", "jsonl", homes[number])
    found = map(json.loads, ended.stdout.splitlines())
    return [row for row in found if row.get("file") == CLEANER]


def test_sound_entries(homes: Homes) -> None:
    one, two, _ = homes
    assert loud(one, two) == []
    assert rows(homes, 0) == rows(homes, 1) == []


def test_a_copy_of_the_other_file(homes: Homes) -> None:
    one, two, _ = homes
    shutil.copyfile(one / CLEANER, two / CLEANER)
    finding = the_only(loud(one, two))
    assert finding.path == str(two / CLEANER)
    assert f"an entry of {FIRST}, which has one in {one / CLEANER}, too: Kafka starts" in str(finding.found)
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert (two / CLEANER).read_text() == "0\n0\n"
    assert loud(one, two) == []


def test_the_command_keeps_the_other_entries(homes: Homes) -> None:
    one, two, _ = homes
    write(two, {SECOND: 1, FIRST: 2})
    finding = the_only(loud(one, two))
    subprocess.run(["bash", "-c", str(finding.command)], check=True)
    assert LogDirectory(two).offsets(CLEANER) == {SECOND: 1}


def test_a_partition_that_was_moved_by_hand(homes: Homes) -> None:
    """Its entry stays in the file of the first directory, and the second gets one when Kafka cleans the log."""
    one, two, server = homes
    (one / str(FIRST)).rename(two / str(FIRST))
    finding = the_only(loud(one, two))
    assert finding.path == str(one / CLEANER)
    assert f"which lies in {two}: once Kafka has cleaned it there" in str(finding.found)
    alone = Verification([two], server=read_properties(server), config=server).findings()
    assert [each.path for each in alone if each.kind == KIND] == [finding.path]
    write(two, {FIRST: 2, SECOND: 1})
    assert f"has one in {two / CLEANER}, too" in str(the_only(loud(one, two)).found)


def test_of_a_partition_in_neither_directory_one_entry_stays(homes: Homes) -> None:
    one, two, _ = homes
    gone = TopicPartition("gone", 0)
    write(one, {FIRST: 1, gone: 3})
    write(two, {SECOND: 1, gone: 4})
    assert the_only(loud(one, two)).path == str(two / CLEANER)


def test_many_entries_are_left_to_recovery(homes: Homes) -> None:
    one, two, _ = homes
    write(two, {FIRST: 1, **{TopicPartition("gone", number): 1 for number in range(101)}})
    assert the_only(loud(one, two)).command == f"kcli recover --dry-run {two}"


def test_copied_checkpoints_are_two_findings(homes: Homes) -> None:
    """Kafka ignores the entries of the other files, but not those for the cleaner."""
    one, two, server = homes
    write(one, {FIRST: 1, TopicPartition("java-gzip", 0): 1})
    for kind in (FileKind.REPLICATION_OFFSETS, CLEANER):
        shutil.copyfile(one / kind, two / kind)
    assert {each.kind for each in loud(one, two)} == {"checkpoint-exchanged", KIND}
    (exchanged,) = (each for each in loud(one, two) if each.kind == "checkpoint-exchanged")
    assert CLEANER not in str(exchanged.found)
    assert "Kafka passes over the entries" in str(exchanged.found)
    shown = kcli("recover", "--config", server, two).stdout
    assert f"2 entries of java-gzip-0, java-none-0; java-gzip-0 has one in {one / CLEANER}, too" in shown


def test_exchanged_files_are_exchanged_again(homes: Homes) -> None:
    one, two, _ = homes
    write(one, {SECOND: 1, TopicPartition("mixed", 0): 1})
    write(two, {FIRST: 1, TopicPartition("java-gzip", 0): 1})
    (finding,) = loud(one, two)
    assert finding.kind == "checkpoint-exchanged"
    assert "its log cleaner ends" in str(finding.found)
    subprocess.run(["bash", "-c", str(finding.command)], check=True)
    assert loud(one, two) == []


@pytest.mark.parametrize("options", [(), ("--salvage",)])
@pytest.mark.parametrize("in_place", [True, False])
def test_recovery_leaves_the_entry_out(
    homes: Homes, tmp_path: Path, options: tuple[str, ...], *, in_place: bool
) -> None:
    one, two, server = homes
    write(two, {SECOND: 1, FIRST: 2})
    (row,) = rows(homes, 1)
    assert row["kind"] == "passed-over"
    assert "its log cleaner ends" in row["reason"]
    assert rows(homes, 0) == []
    out = two if in_place else tmp_path / "out"
    to = ("--in-place",) if in_place else ("--out", out)
    assert kcli("recover", *options, "--config", server, *to, two).status == 0
    assert LogDirectory(out).offsets(CLEANER) == {SECOND: 1}
    assert LogDirectory(one).offsets(CLEANER) == {FIRST: 1}
    if in_place:
        assert rows(homes, 1) == []


def test_salvage_leaves_out_the_entry_of_a_copy_that_it_sets_aside(homes: Homes, tmp_path: Path) -> None:
    """Kafka does not start with both copies."""
    one, two, server = homes
    shutil.copytree(two / str(SECOND), one / str(SECOND))
    write(one, {FIRST: 1, SECOND: 1})
    assert KIND not in {each.kind for each in loud(one, two)}
    assert kcli("recover", "--salvage", "--config", server, "--out", tmp_path / "out", one).status == 0
    assert LogDirectory(tmp_path / "out").offsets(CLEANER) == {FIRST: 1}
