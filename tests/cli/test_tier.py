"""kcli tier as a process: exit statuses, formats, names that anybody may have written, no trace on the disk."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from kcli.printable import has_hidden
from tests.cli.run import KCLI, kcli
from tests.conftest import files_below
from tests.tier.records import uuid
from tests.tier.stores import TIERED, Copy

DATA, REMOTE = TIERED / "data", TIERED / "remote"
HOSTILE = "\x1b[31mRED\x1b]0;pwned\x07\u202e"


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy.of_golden(tmp_path)


def test_list() -> None:
    ended = kcli("tier", "list", DATA, "--tier", REMOTE, "--topic", "r-short")
    assert (ended.status, ended.stderr) == (0, "")
    heading, *rows = ended.stdout.splitlines()
    assert heading.split() == ["TOPIC", "PARTITION", "OFFSETS", "EPOCHS", "SIZE", "STATE", "LOCAL", "OBJECTS"]
    assert len(rows) == 14
    assert rows[1].split()[:8] == ["r-short", "0", "5..85", "0", "11.7", "kB", "COPY_SEGMENT_FINISHED", "no"]
    assert rows[1].endswith("-Vx-P2JSwR3-v8HZOhqCuTw.{log,index,timeindex,txnindex,snapshot,leader_epoch_checkpoint}")


def test_list_for_programs() -> None:
    ended = kcli("tier", "list", DATA, "--tier", REMOTE, "--format", "jsonl")
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert len(rows) == 21
    assert {each["state"] for each in rows} == {"COPY_SEGMENT_FINISHED"}
    assert {each["local"] for each in rows if each["topic"] == "r-keep"} == {"yes"}
    assert sum(len(each["objects"]) for each in rows) == 114
    alone = [
        json.loads(line) for line in kcli("tier", "list", "--tier", REMOTE, "--format", "jsonl").stdout.splitlines()
    ]
    same = (
        "topic",
        "partition",
        "topic_id",
        "segment_id",
        "start_offset",
        "end_offset",
        "leader_epochs",
        "size",
        "objects",
    )
    assert [[each[name] for name in same] for each in alone] == [[each[name] for name in same] for each in rows]
    assert {each["state"] for each in alone} == {None}


@pytest.mark.parametrize("command", ["list", "verify", "orphans"])
def test_only_reads(copy: Copy, command: str) -> None:
    before = files_below(copy.data.parent)
    kcli("tier", command, copy.data, "--tier", copy.remote)
    assert files_below(copy.data.parent) == before


def test_verify_and_orphans(copy: Copy) -> None:
    arguments: list[str | Path] = [copy.data, "--tier", copy.remote]
    for command in ("verify", "orphans"):
        ended = kcli("tier", command, *arguments)
        assert (ended.status, ended.stdout[:19]) == (0, "sound in 114 files,")
    log = copy.object(172, ".log")
    shutil.copyfile(log, log.with_name(f"{300:020}-{uuid(1)}.log"))
    os.truncate(log, 6000)
    ended = kcli("tier", "verify", *arguments)
    assert (ended.status, ended.stdout.split()[:2]) == (1, ["error", "tier-segment-cut"])
    ended = kcli("tier", "orphans", *arguments, "--format", "jsonl")
    (row,) = map(json.loads, ended.stdout.splitlines())
    assert (ended.status, row["kind"], row["command"]) == (
        1,
        "tier-orphan",
        f"rm -- {log.with_name(f'{300:020}-{uuid(1)}.log')}",
    )


def test_fetch(copy: Copy, tmp_path: Path) -> None:
    arguments: list[str | Path] = [
        "tier",
        "fetch",
        copy.data,
        "--tier",
        copy.remote,
        "--topic",
        "r-short",
        "--out",
        tmp_path / "new",
    ]
    assert kcli(*arguments, "--partition", "1").stdout.splitlines() == [
        "r-short-1  7 segments of the tier, 1 local, 41.7 kB, log start offset 0",
        f"Next: kcli verify {tmp_path / 'new'}",
    ]
    assert {each.name for each in (tmp_path / "new").iterdir()} == {"meta.properties", "r-short-1"}
    again = kcli(*arguments)
    assert (again.status, again.complaint) == (
        2,
        f"kcli: {tmp_path / 'new'}: is there already; --out makes a new directory",
    )
    shutil.rmtree(tmp_path / "new")
    copy.object(172, ".log").unlink()
    ended = kcli(*arguments, "--format", "jsonl")
    assert ended.status == 1
    assert [json.loads(line)["missing"] != [] for line in ended.stdout.splitlines()] == [True, False]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["list", "--tier", "none"], "none: No such file or directory"),
        (["list", "none", "--tier", REMOTE], "none: No such file or directory"),
        (["verify", DATA, "--tier", DATA / "meta.properties"], "meta.properties: Not a directory"),
        (["orphans", "--tier", REMOTE], "no LOG_DIR: without its __remote_log_metadata nothing says"),
        (["orphans", "broken", "--tier", REMOTE], "broken: no partition of __remote_log_metadata"),
        (["fetch", DATA, "--tier", REMOTE, "--topic", "none", "--out", "new"], "none: the tier has no such topic"),
        (
            ["fetch", DATA, "--tier", REMOTE, "--topic", "r-keep", "--partition", "7", "--out", "new"],
            "the tier has no partition 7 of r-keep",
        ),
        (["fetch", DATA, "--tier", REMOTE, "--topic", "r-keep", "--topic-id", "x", "--out", "new"], "no such topic"),
    ],
)
def test_bad_input(arguments: list[str | Path], complaint: str, tmp_path: Path) -> None:
    ended = kcli("tier", *arguments)
    assert (ended.status, ended.stdout) == (2, "")
    assert complaint in ended.complaint


@pytest.mark.parametrize("command", ["list", "verify", "orphans"])
def test_a_directory_that_is_no_tier(tmp_path: Path, command: str) -> None:
    """A path that is misspelt is no sound tier; nor is the topic of another."""
    (tmp_path / "passwd").write_text("x")
    ended = kcli("tier", command, "--tier", tmp_path)
    assert (ended.stdout, ended.status) == ("", 2)
    assert "no object in it is named as one of a tier" in ended.stderr
    if command != "orphans":
        for place in ([], [DATA]):
            ended = kcli("tier", command, *place, "--tier", REMOTE, "--topic", "nosuch")
            assert (ended.stdout, ended.status) == ("", 2)
            assert "the tier has no such topic" in ended.stderr


def test_names_with_escapes(copy: Copy, tmp_path: Path) -> None:
    home = copy.remote / "kafka-tiered-storage"
    (home / f"{HOSTILE}-0-{uuid(5)}").mkdir()
    (home / f"{HOSTILE}-0-{uuid(5)}" / f"{0:020}-{uuid(6)}.log").write_bytes(b"x")
    (home / HOSTILE).write_bytes(b"")
    copy.object(172, ".log").with_name(HOSTILE).symlink_to("/etc/passwd")
    for arguments in (
        ["list"],
        ["verify"],
        ["orphans"],
        ["orphans", "--format", "jsonl"],
        ["verify", "--severity", "info"],
    ):
        ended = kcli("tier", *arguments, copy.data, "--tier", copy.remote)
        assert "Traceback" not in ended.stderr
        assert not has_hidden((ended.stdout + ended.stderr).replace("\n", ""))
    assert "tier-foreign-file" in kcli("tier", "orphans", copy.data, "--tier", copy.remote).stdout


def test_head() -> None:
    words = " ".join(map(str, [*KCLI, "tier", "list", DATA, "--tier", REMOTE, "--format", "jsonl"]))
    done = subprocess.run(
        ["bash", "-c", f"{words} | head -n 1; echo ${{PIPESTATUS[0]}}"], capture_output=True, text=True, check=True
    )
    assert (done.stderr, done.stdout.splitlines()[-1]) == ("", "0")


def test_help_shows_examples() -> None:
    ended = kcli("tier", "--help")
    assert "kcli tier fetch /var/lib/kafka --tier /mnt/tier --topic orders --out fetched" in ended.stdout
    for command in ("list", "verify", "orphans", "fetch"):
        assert kcli("tier", command, "--help").status == 0


def test_completion_of_topics() -> None:
    for command, before in (("list", ""), ("fetch", "--out new ")):
        words = f"kcli tier {command} {before}--tier {REMOTE} --topic r-k"
        asked = {"_KCLI_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        assert kcli(env=os.environ | asked).stdout == "r-keep\n"
