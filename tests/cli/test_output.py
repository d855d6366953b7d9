"""Output that cannot be written: stdout full, closed or left by its reader; a full disk."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from kcli.cli.app import COMMANDS
from tests.cli.run import KCLI, Ended, kcli, small_files
from tests.conftest import GOLDEN, SAMPLES

FULL = "kcli: standard output: No space left on device"
CLOSED = "kcli: standard output: Bad file descriptor"
READING: dict[str, list[str | Path]] = {
    "help": ["--help"],
    "version": ["--version"],
    "dump-table": ["dump-segment", "good/java-zstd-0"],
    "dump-jsonl": ["dump-segment", "--format", "jsonl", "good/java-zstd-0"],
    "dump-kafka": ["dump-segment", "--format", "kafka", "good/java-zstd-0"],
    "verify": ["verify", "broken/crc-field-flip-0"],
    "recover": ["recover", "broken/zero-page-in-middle-0"],
    "compact": ["compact", "good/t-txn-0", "-o", "cleanup.policy=compact"],
    "why": ["compact", "good/t-txn-0", "-o", "cleanup.policy=compact", "--why", "key-003"],
    "transactions": ["transactions", "list", "--data-dir", GOLDEN / "txn" / "data"],
    "serve": ["serve", "--listen", "127.0.0.1:0"],
}


def redirected(redirection: str, *arguments: str | Path, **options: Any) -> Ended:
    """Run kcli with a redirection of the shell."""
    command = ["sh", "-c", f'exec "$@" {redirection}', "sh", *KCLI, *arguments]
    done = subprocess.run(command, cwd=SAMPLES, capture_output=True, check=False, text=True, timeout=60, **options)
    return Ended(done.stdout, done.stderr, done.returncode)


def last_line(ended: Ended) -> str:
    """Return the last line of the output, the only one besides the broker's log; check that it has no traceback."""
    lines = ended.stderr.splitlines()
    assert [line for line in lines if line.startswith("kcli:")] == lines[-1:], ended.stderr
    assert "Traceback" not in ended.stderr
    return lines[-1]


@pytest.mark.parametrize("arguments", READING.values(), ids=list(READING))
@pytest.mark.parametrize(("redirection", "complaint"), [(">/dev/full", FULL), (">&-", CLOSED)], ids=["full", "closed"])
def test_stdout_takes_nothing(arguments: list[str | Path], redirection: str, complaint: str) -> None:
    ended = redirected(redirection, *arguments)
    assert (last_line(ended), ended.status) == (complaint, 1)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_every_command(command: str) -> None:
    ended = redirected(">/dev/full", command, "--help")
    assert (ended.complaint, ended.status) == (FULL, 1)


@pytest.mark.parametrize("name", ["help", "version", "dump-jsonl", "recover"])
def test_nobody_reads(name: str) -> None:
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    assert reader.stdin is not None, "piped"
    with reader.stdin as pipe:
        done = subprocess.run(
            [*KCLI, *READING[name]], cwd=SAMPLES, stdout=pipe, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert (done.stderr, done.returncode) == (b"", 0), "no failure: it has read what it wanted"


@pytest.mark.parametrize("options", [[], ["--format", "jsonl"]])
def test_findings_that_nobody_reads(options: list[str]) -> None:
    reader = subprocess.Popen(["true"], stdin=subprocess.PIPE)
    reader.wait()
    assert reader.stdin is not None, "piped"
    with reader.stdin as pipe:
        done = subprocess.run(
            [*KCLI, "verify", *options, "broken/epoch-checkpoint-garbage-0"],
            cwd=SAMPLES,
            stdout=pipe,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (done.stderr, done.returncode) == (b"", 1)


@pytest.mark.parametrize("redirection", ["2>/dev/full", "2>&-"])
def test_stderr_takes_nothing(redirection: str) -> None:
    ended = redirected(redirection, "verify", "no-such-directory")
    assert ended == ("", "", 2), "what is said there goes nowhere else"


def test_a_closed_stdout_is_no_file_of_the_commands(tmp_path: Path) -> None:
    wanted, closed = tmp_path / "wanted", tmp_path / "closed"
    arguments = ["recover", "broken/zero-page-in-middle-0", "--out"]
    assert kcli(*arguments, wanted).status == 0
    assert redirected(">&-", *arguments, closed).complaint == CLOSED
    assert not closed.exists(), "what could not be told is not done"
    ended = redirected("<&- >&-", "recover", "broken/zero-page-in-middle-0")
    assert ended.complaint == CLOSED
    assert redirected("<&-", *arguments, closed).status == 0
    assert {each.name: each.read_bytes() for each in closed.iterdir()} == {
        each.name: each.read_bytes() for each in wanted.iterdir()
    }


def test_a_closed_stdin() -> None:
    ended = redirected("<&-", "dump-segment", "-")
    assert (ended.stderr, ended.status) == ("kcli: -: Bad file descriptor\n", 2)


@pytest.mark.parametrize(
    "arguments",
    [
        ["recover", "broken/zero-page-in-middle-0", "--out"],
        ["compact", "good/t-txn-0", "-o", "cleanup.policy=compact", "--out"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_the_path_that_failed_is_named(tmp_path: Path, arguments: list[str]) -> None:
    out = tmp_path / "out"
    ended = kcli(*arguments, out, preexec_fn=small_files)
    assert ended.status == 1
    assert ended.complaint.startswith(f"kcli: {out}.part/"), "not what was read"
    assert ended.complaint.endswith(": File too large")
    assert not any(tmp_path.iterdir()), "nothing of it stays"
