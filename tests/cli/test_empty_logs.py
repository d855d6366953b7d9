"""Empty .log files that no broker has made, such as after `touch`: verify and recover name them, salvage leaves them
out, and no offset counts as lost. The outcomes are those of Kafka 4.3.0 with such files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kcli.inspector.verify.segment_names import log_name
from tests.broker.running import served_node
from tests.cli.run import kcli
from tests.cli.test_recover_metadata import image_of
from tests.inspector.test_verify_causes import files_of, logs, loud
from tests.metadata_damage import copied

PARTITION = "java-none-0"
METADATA = "__cluster_metadata-0"
GROUPS = "__consumer_offsets-0"
END = 298


def shown(directory: Path, *options: str | Path) -> list[dict[str, Any]]:
    ended = kcli("recover", "--format", "jsonl", *options, directory)
    assert not ended.stderr
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    kinds = "passed-over", "end-missing", "left-out", "gap", "refused"
    return [row for row in rows if row["kind"] in kinds and not row.get("mended")]


def found(directory: Path) -> tuple[str, str, str]:
    """Return the name of the file, the words and the action of the one loud finding."""
    (one,) = loud(directory)
    assert (one.kind, one.severity, one.lost_first_offset) == ("log-empty", "error", None)
    return Path(one.path).name, str(one.found), one.action


def batches(directory: Path, partition: str = PARTITION) -> bytes:
    return b"".join(path.read_bytes() for path in logs(directory, partition))


def is_left_out(directory: Path, new: Path, made: Path) -> None:
    """Check that salvage leaves out the file `made`, and nothing else."""
    rows = shown(directory, "--salvage", "--out", new)
    assert [row["file"] for row in rows if row["kind"] == "left-out"] == [made.name]
    assert not [row for row in rows if row["kind"] in ("gap", "end-missing")]
    assert not (new / made.parent.name / made.name).exists()
    assert batches(new, made.parent.name) == batches(directory, made.parent.name)
    assert not loud(new)


def test_within_the_last_log(tmp_path: Path) -> None:
    directory = copied(tmp_path)
    last = logs(directory)[-1]
    base = END - 3
    made = last.with_name(log_name(base))
    made.touch()
    file, what, action = found(directory)
    assert file == made.name
    assert f"{last.name} has the offsets from its name on ({base}..{END - 1}); no offset is lost" in what
    assert action.startswith(f"Kafka ends the log at {base}, and new records get these offsets again")
    passed, short = shown(directory)
    assert (passed["kind"], passed["file"]) == ("passed-over", made.name)
    assert short["unread"] == [f"{PARTITION}/{last.name}"]
    assert "offsets are lost" not in kcli("recover", directory).stdout
    is_left_out(directory, tmp_path / "new", made)


def test_within_an_earlier_log(tmp_path: Path) -> None:
    """Kafka looks for an offset in the file with the next lower name: consumers that begin there get no record of the
    file that has it."""
    directory = copied(tmp_path)
    first, second = logs(directory)[:2]
    made = first.with_name(log_name(3))
    made.touch()
    file, what, action = found(directory)
    assert (file, "no offset is lost" in what) == (made.name, True)
    assert action.startswith(f"consumers that begin at 3 or behind it get no record below {int(second.stem)}")
    assert [(row["kind"], row["file"]) for row in shown(directory)] == [("passed-over", made.name)]
    is_left_out(directory, tmp_path / "new", made)


@pytest.mark.parametrize("is_opened", [False, True])
def test_behind_the_end(tmp_path: Path, *, is_opened: bool) -> None:
    """A start adds empty indexes, which are no evidence."""
    directory = copied(tmp_path)
    made = directory / PARTITION / log_name(9999)
    made.touch()
    if is_opened:
        made.with_suffix(".index").write_bytes(bytes(800))
        made.with_suffix(".timeindex").write_bytes(bytes(1200))
    file, what, action = found(directory)
    assert file == made.name
    assert f"no file says that the log, which ends at {END} in {logs(directory)[-2].name}, had reached it" in what
    assert action.startswith("Kafka ends the log at 9,999")
    assert [(row["kind"], row["file"]) for row in shown(directory)] == [("passed-over", made.name)]
    is_left_out(directory, tmp_path / "new", made)


def test_in_a_coordinators_log(tmp_path: Path) -> None:
    directory = copied(tmp_path, "groups/data")
    name = next(each.name for each in sorted(directory.glob("__consumer_offsets-*")) if batches(directory, each.name))
    made = directory / name / log_name(1)
    made.touch()
    assert found(directory)[0] == made.name
    assert ("passed-over", made.name) in [(row["kind"], row["file"]) for row in shown(directory)]
    is_left_out(directory, tmp_path / "new", made)


@pytest.mark.parametrize("base", [5, 9999])
def test_in_the_metadata_log(tmp_path: Path, base: int) -> None:
    directory = copied(tmp_path)
    image = image_of(directory)
    made = directory / METADATA / log_name(base)
    made.touch()
    file, _, action = found(directory)
    assert file == made.name
    assert f"Kafka ends the metadata log at {base:,}, and the only voter does not get ready" in action
    assert [(row["kind"], row["file"]) for row in shown(directory)] == [("refused", f"{METADATA}/{made.name}")]
    new = tmp_path / "new"
    assert not shown(directory, "--salvage", "--out", new)
    assert image_of(new).topics == image.topics
    with served_node(new):
        pass


def test_an_emptied_log_has_lost_its_offsets(tmp_path: Path) -> None:
    """Its name is the end of the log before it."""
    directory = copied(tmp_path)
    emptied = logs(directory)[1]
    for path in files_of(emptied):
        path.unlink()
    emptied.touch()
    lost = [each for each in loud(directory) if each.lost_first_offset == int(emptied.stem)]
    assert [each.kind for each in lost] == ["log-missing"]


WITNESSES: dict[str, Callable[[Path], object]] = {
    "checkpoint": lambda partition: (partition.parent / "replication-offset-checkpoint").write_text(
        f"0\n1\n{partition.name.replace('-0', ' 0')} 9999\n"
    ),
    "epoch": lambda partition: (partition / "leader-epoch-checkpoint").write_text(f"0\n2\n0 0\n1 {END + 5}\n"),
    "index": lambda partition: (partition / log_name(9999)).with_suffix(".index").write_bytes(bytes(7) + b"\5"),
    "orphan": lambda partition: (partition / log_name(END + 9)).with_suffix(".index").write_bytes(bytes(7) + b"\5"),
    "snapshot": lambda partition: (partition / log_name(9999)).with_suffix(".snapshot").touch(),
    "no checkpoint": lambda partition: [each.write_text("0\n0\n") for each in partition.parent.glob("re*-checkpoint")],
}


@pytest.mark.parametrize("witness", WITNESSES)
def test_with_a_witness_the_offsets_behind_the_end_are_lost(tmp_path: Path, witness: str) -> None:
    directory = copied(tmp_path)
    partition = directory / PARTITION
    (partition / log_name(9999)).touch()
    WITNESSES[witness](partition)
    errors = [each for each in loud(directory) if each.kind != "log-empty" and each.lost_first_offset == END]
    assert errors
    passed = [row for row in shown(directory) if row["kind"] == "passed-over" and "it is empty" in row["reason"]]
    assert not passed


def test_behind_a_damaged_log_its_offsets_are_lost(tmp_path: Path) -> None:
    """Where the last batch of the log before it is cut, that log may have gone on to the name of the empty one."""
    directory = copied(tmp_path)
    last = logs(directory)[-1]
    os.truncate(last, last.stat().st_size - 3)
    made = last.with_name(log_name(END))
    made.touch()
    assert made.name not in [row["file"] for row in shown(directory) if row["kind"] == "passed-over"]
    assert "log-empty" not in [each.kind for each in loud(directory)]
