"""dump-segment as a process: pipelines, exit statuses, what goes where."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.run import KCLI, kcli
from tests.conftest import GOLDEN, SAMPLES

DIRECTORY = SAMPLES / "good/java-none-0"
LOG = DIRECTORY / "00000000000000000000.log"
INDEX = DIRECTORY / "00000000000000000000.index"
FORMATS = ["table", "jsonl", "kafka"]
HEAVY = ["numpy", "construct", "rich", "pyspark", "pydantic"]


@pytest.mark.parametrize("output", FORMATS)
def test_head_ends_quietly(output: str) -> None:
    command = [*KCLI, "dump-segment", "--format", output, str(GOLDEN / "codecs/data")]
    if output == "kafka":
        command.append("--print-data-log")
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == 0


@pytest.mark.parametrize("output", FORMATS)
def test_a_full_disk_is_one_line_and_status_1(output: str) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*KCLI, "dump-segment", "--format", output, LOG],
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert (done.stderr.decode(), done.returncode) == ("kcli: standard output: No space left on device\n", 1)


@pytest.mark.parametrize("output", FORMATS)
def test_what_cannot_be_read_is_one_line_and_status_2(output: str, tmp_path: Path) -> None:
    for path, reason in ((tmp_path / "no.log", "no such file"), (LOG / "below.log", ""), (tmp_path, "no log file")):
        ended = kcli("dump-segment", "--format", output, path)
        assert ended.status == 2, ended
        assert str(path) in ended.complaint
        assert reason in ended.complaint.lower()
        assert output == "kafka" or not ended.stdout


@pytest.mark.parametrize("output", FORMATS)
def test_an_empty_file_is_no_fault(output: str, tmp_path: Path) -> None:
    paths = [tmp_path / f"00000000000000000000{suffix}" for suffix in (".log", ".index", ".timeindex", ".txnindex")]
    for path in paths:
        path.write_bytes(b"")
    ended = kcli("dump-segment", "--format", output, *paths)
    assert (ended.stderr, ended.status) == ("", 0)


def test_findings_are_status_1_in_every_format() -> None:
    for output in FORMATS:
        ended = kcli("dump-segment", "--format", output, "broken/length-past-end-0", "broken/codec-6-0")
        assert ended.status == 1, output
        if output == "jsonl":
            assert all(json.loads(line) for line in ended.stdout.splitlines())


def test_the_rest_is_shown_behind_what_cannot_be_read() -> None:
    ended = kcli(
        "dump-segment", "missing", "good/v1-none-0/partition.metadata", "README.md", "good/t-txn-0/partition.metadata"
    )
    assert ended.stdout.count("topic_id") == 2
    assert [line.split(":")[1].strip() for line in ended.stderr.splitlines()] == ["missing", "README.md"]
    assert ended.status == 2


def test_usage_is_status_2() -> None:
    for arguments in (
        ["--format", "xml", "x"],
        ["--limit", "-1", "x"],
        ["--from-time", "soon", "x"],
        ["--files", ","],
        ["--from-offset", "1e3", "x"],
    ):
        ended = kcli("dump-segment", *arguments)
        assert ended.status == 2, arguments
        assert not ended.stdout, arguments
        assert "Traceback" not in ended.stderr
    assert kcli("no-such-command").status == 2


def test_stdin_from_a_pipe_and_from_a_file() -> None:
    from_path = [json.loads(line) for line in kcli("dump-segment", "--format", "jsonl", LOG).stdout.splitlines()]
    expected = [each | {"topic": None, "partition": None} for each in from_path]
    piped = kcli("dump-segment", "--format", "jsonl", "-", input=LOG.read_bytes())
    with LOG.open("rb") as file:
        redirected = kcli("dump-segment", "--format", "jsonl", "-", stdin=file)
    for ended in (piped, redirected):
        assert (ended.stderr, ended.status) == ("", 0)
        assert [json.loads(line) for line in ended.stdout.splitlines()] == expected
    assert len(expected) == 108
    some = kcli("dump-segment", "--format", "jsonl", "--from-offset", "100", "-", input=LOG.read_bytes())
    assert [json.loads(line) for line in some.stdout.splitlines()] == expected[100:]


def test_a_file_without_a_telling_name_needs_a_type(tmp_path: Path) -> None:
    for source, name in ((LOG, "log"), (INDEX, "index")):
        copy = tmp_path / "anything"
        copy.write_bytes(source.read_bytes())
        assert "--type" in kcli("dump-segment", copy).complaint
        shown = kcli("dump-segment", "--format", "jsonl", "--type", name, copy)
        assert (shown.stderr, shown.status) == ("", 0)
        assert shown.stdout.count("\n") == (108 if name == "log" else INDEX.stat().st_size // 8)


def test_files_are_those_of_kafkas_tool() -> None:
    index = INDEX.relative_to(SAMPLES).as_posix()
    log = LOG.relative_to(SAMPLES).as_posix()
    together = kcli("dump-segment", "--format", "kafka", "--files", f"{log},{index}")
    apart = [kcli("dump-segment", "--format", "kafka", path).stdout for path in (log, index)]
    assert together.stdout == "".join(apart)
    assert (together.stderr, together.status) == ("", 0)


def test_file_names_that_are_no_text(tmp_path: Path) -> None:
    directory = os.fsencode(tmp_path) + b"/caf\xe9-0"
    os.mkdir(directory)  # noqa: PTH102 (the path is bytes)
    path = Path(os.fsdecode(directory)) / LOG.name
    path.write_bytes(LOG.read_bytes()[:4000])
    for output in FORMATS:
        ended = kcli("dump-segment", "--format", output, path)
        assert "Traceback" not in ended.stderr, ended.stderr
        assert ended.status in (0, 1)
        if output == "jsonl":
            assert all(json.loads(line)["topic"] is None for line in ended.stdout.splitlines())


def test_a_directory_gives_its_partitions_in_order() -> None:
    ended = kcli("dump-segment", "--format", "jsonl", "--limit", "2000", GOLDEN / "codecs/data")
    places = [(each["topic"], each["partition"]) for each in map(json.loads, ended.stdout.splitlines())]
    assert len(places) == 2000
    assert places == sorted(places)


def test_times_ago(tmp_path: Path) -> None:
    """The records are hours old: the last hour has none of them, the last ten thousand weeks have all."""
    ended = kcli("dump-segment", "--format", "jsonl", "--from-time", "-10000w", "good/v1-none-0")
    assert ended.stdout.count("\n") == 114
    ended = kcli("dump-segment", "--format", "jsonl", "--from-time", "-1h", "good/v1-none-0")
    assert (ended.stdout, ended.status) == ("", 0)
    whole = kcli("dump-segment", "--format", "jsonl", "good/v1-none-0")
    assert kcli("dump-segment", "--format", "jsonl", "--to-time", "-1h", "good/v1-none-0").stdout == whole.stdout


def test_help() -> None:
    ended = kcli("--help")
    assert (ended.stderr, ended.status) == ("", 0)
    assert "dump-segment" in ended.stdout
    assert "verify" in ended.stdout
    ended = kcli("dump-segment", "--help")
    for option in (
        "--format",
        "--from-offset",
        "--to-time",
        "--key",
        "--limit",
        "--deep-iteration",
        "--offsets-decoder",
    ):
        assert option in ended.stdout
    assert kcli("--version").stdout.startswith("kcli ")


@pytest.mark.parametrize("arguments", [["--help"], ["dump-segment", "--format", "kafka", "--print-data-log", str(LOG)]])
def test_what_is_heavy_is_not_loaded(arguments: list[str]) -> None:
    program = (
        "import os, sys\n"
        "import kcli.cli\n"
        "def leave(status):\n"
        f"    found = [name for name in {HEAVY!r} if name in sys.modules]\n"
        "    os.write(2, repr(found).encode())\n"
        "    os.kill(os.getpid(), 9)\n"
        "os._exit = leave\n"
        "kcli.cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, check=False, timeout=60, cwd=SAMPLES.parent
    )
    assert done.stdout
    assert done.stderr == b"[]"


def on_a_terminal(**environment: str) -> bytes:
    """Return what a dump prints where stdout is a terminal."""
    ours, theirs = os.openpty()
    command = [*KCLI, "dump-segment", "--limit", "3", str(LOG)]
    values = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "TERM"}}
    with subprocess.Popen(command, stdout=theirs, env=values | {"TERM": "xterm"} | environment) as process:
        os.close(theirs)
        found = b""
        try:
            while part := os.read(ours, 65536):
                found += part
        except OSError:  # how Linux ends a terminal whose other side has gone
            pass
        finally:
            os.close(ours)
        assert process.wait(30) == 0
    return found.replace(b"\r\n", b"\n")


def test_colour_only_on_a_terminal_that_wants_it() -> None:
    assert b"\x1b[" in on_a_terminal()
    assert b"\x1b[" not in on_a_terminal(NO_COLOR="1")
    assert b"\x1b[" not in on_a_terminal(TERM="dumb")
    assert "\x1b[" not in kcli("dump-segment", LOG).stdout


CRASHED = GOLDEN / "unclean/crashed"
OF_EACH_TYPE = {
    "log": "u-idem-0/00000000000000000000.log",
    "index": "u-idem-0/00000000000000000000.index",
    "timeindex": "u-idem-0/00000000000000000257.timeindex",
    "txnindex": "u-txn-0/00000000000000000010.txnindex",
    "snapshot": "u-idem-0/00000000000000000127.snapshot",
    "leader-epoch-checkpoint": "u-idem-0/leader-epoch-checkpoint",
    "partition.metadata": "u-idem-0/partition.metadata",
    "offset-checkpoint": "recovery-point-offset-checkpoint",
    "meta.properties": "meta.properties",
}


@pytest.mark.parametrize("output", ["table", "jsonl", "kafka"])
@pytest.mark.parametrize(("file_type", "name"), OF_EACH_TYPE.items())
def test_a_type_on_standard_input(file_type: str, name: str, output: str, tmp_path: Path) -> None:
    """A file named by base offset 0 and the same bytes from a pipe give the same output."""
    named = tmp_path / f"{0:020}"
    named.write_bytes((CRASHED / name).read_bytes())
    options = ["dump-segment", "--format", output, "--type", file_type]
    alone = kcli(*options, named)
    with named.open("rb") as file:
        from_file = kcli(*options, "-", stdin=file)
    from_pipe = kcli(*options, "-", input=named.read_bytes())
    has_face = output != "kafka" or file_type.endswith(("log", "index", "snapshot"))
    note = "" if has_face else "Ignoring unknown file -\n"  # as kafka-dump-log says of a file of that name
    assert (note, 0) == (from_file.stderr, from_file.status) == (from_pipe.stderr, from_pipe.status)
    entries = [_entries(ended.stdout, output) for ended in (alone, from_file, from_pipe)]
    assert entries[0] == entries[1] == entries[2]
    assert bool(entries[0]) == has_face


def _entries(text: str, output: str) -> list[str]:
    """Return the output without the titles and sums that name the file, its size and the time taken."""
    if output == "jsonl":
        return [json.dumps({**json.loads(line), "file": ""}) for line in text.splitlines()]
    if output == "table":
        return text.splitlines()[1:-1]
    return [line for line in text.splitlines() if not line.startswith(("Dumping", "Log starting"))]


def test_what_no_index_can_be() -> None:
    with Path("/dev/zero").open("rb") as endless:
        ended = kcli("dump-segment", "--type", "index", "-", stdin=endless)
    assert ended.status == 2
    assert ended.complaint == "kcli: -: more than 67,108,864 bytes, which such a file cannot have"
