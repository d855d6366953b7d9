"""`kcli connect run` as a process, with Spark: a file becomes a topic, which becomes a file."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kcli.connect.rest_client import ask
from kcli.testing import Kafka
from tests.connect.test_distributed import done

STRING = "org.apache.kafka.connect.storage.StringConverter"
WAIT_S = 120.0


@contextmanager
def running(directory: Path, *connectors: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Run a worker; yields its URL."""
    command = [sys.executable, "-m", "kcli", "connect", "run", "worker.properties", *connectors]
    process = subprocess.Popen(command, cwd=directory, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        with process.stdout:
            yield process.stdout.readline().split()[-1].rstrip("/"), process
    finally:
        process.kill()
        process.wait()


def until(directory: Path, text: str) -> None:
    """Wait until the sink's file has a text."""
    end = time.monotonic() + WAIT_S
    out = directory / "out.txt"
    while not out.exists() or out.read_text() != text:
        assert time.monotonic() < end, out.read_text() if out.exists() else "no file"
        time.sleep(0.1)


def offset(url: str, name: str) -> object:
    """Return the offset of a connector's only partition."""
    return ask(url, "GET", f"/connectors/{name}/offsets")["offsets"][0]["offset"]


def test_a_file_becomes_a_topic_becomes_a_file(tmp_path: Path) -> None:
    with Kafka.started() as kafka:
        kafka.create_topic("lines")
        (tmp_path / "worker.properties").write_text(
            f"bootstrap.servers={kafka.bootstrap_servers}\nkey.converter={STRING}\nvalue.converter={STRING}\n"
            "listeners=http://127.0.0.1:0\noffset.storage.file.filename=offsets\noffset.flush.interval.ms=500\n"
        )
        (tmp_path / "in.properties").write_text(
            f"name=in\nconnector.class=FileStreamSource\nfile={tmp_path}/in.txt\ntopic=lines\n"
        )
        (tmp_path / "out.properties").write_text(
            f"name=out\nconnector.class=FileStreamSink\nfile={tmp_path}/out.txt\ntopics=lines\n"
        )
        (tmp_path / "in.txt").write_text("one\ntwo\n")
        with running(tmp_path, "in.properties", "out.properties") as (url, process):
            until(tmp_path, "one\ntwo\n")
            assert ask(url, "GET", "/connectors/in/status")["tasks"][0]["state"] == "RUNNING"
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        with (tmp_path / "in.txt").open("a") as file:
            file.write("three\n")
        with running(tmp_path, "in.properties", "out.properties") as (url, process):
            until(tmp_path, "one\ntwo\nthree\n")
            done("offsets", lambda: offset(url, "in") == {"position": len("one\ntwo\nthree\n")})
            done("committed", lambda: offset(url, "out") == {"kafka_offset": 3})
