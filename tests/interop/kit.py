"""Real Apache Kafka 4.3.0 for tests and benchmarks: the script `kafka` beside this file, from Python.

Jars live in ${KAFKA_KIT_DIR:-~/.cache/kafka-kit}; they are fetched there once, with Maven. An archive of the classes
that a broker loads is made beside them (class data sharing, JEP 350)."""

import atexit
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import IO, Any, NamedTuple

SCRIPT = Path(__file__).with_name("kafka")
TOOLS = dict(re.findall(r"^  ([a-z-]+)\) run (\S+) ", SCRIPT.read_text(), re.MULTILINE))
"""The classes of Kafka's tools, by the names that the script gives them."""
SCRIPT_S = 180
TOOL_SERVER = Path(__file__).with_name("ToolServer.java")
DUMP = "org.apache.kafka.tools.DumpLogSegments"
OLDEST_JAVA = 17


class KafkaUnavailableError(Exception):
    """Real Kafka cannot run here; the message says why."""


class Output(NamedTuple):
    """What a run of one of Kafka's tools printed (bytes that are not UTF-8 replaced), and its exit status."""

    stdout: str
    stderr: str
    exit: int


def kit_dir() -> Path:
    return Path(os.environ.get("KAFKA_KIT_DIR", Path.home() / ".cache" / "kafka-kit"))


def set_up() -> Path:
    """Return the directory of Kafka's jars, which are fetched if they are missing.

    Raises KafkaUnavailableError where Java is missing or too old, or the jars are missing and cannot be fetched.
    """
    if shutil.which("java") is None:
        raise KafkaUnavailableError("no java on the PATH")
    version = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(\d+)', version)
    if found is None or int(found[1]) < OLDEST_JAVA:
        raise KafkaUnavailableError(f"Kafka needs Java {OLDEST_JAVA} or newer; java says {version.strip()!r}")
    kit_dir().mkdir(parents=True, exist_ok=True)
    with (kit_dir() / ".setup-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run([SCRIPT, "setup"], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = "no mvn on the PATH" if shutil.which("mvn") is None else (done.stderr or done.stdout).strip()[-500:]
        raise KafkaUnavailableError(f"Kafka's jars are not in {kit_dir()} and cannot be fetched: {reason}")
    return Path(done.stdout.strip().splitlines()[-1])


def more_jars(pom: Path, jar: str, directory: str = "extra") -> Path:
    """Return the directory in the kit's with jars beside those of set_up(), where those of a POM are fetched if one of
    them is missing. Raises KafkaUnavailableError where they cannot be fetched."""
    jars = kit_dir() / directory
    if not (jars / jar).exists():
        if shutil.which("mvn") is None:
            raise KafkaUnavailableError(f"{jar} is not in {jars}, and no mvn on the PATH")
        fetch = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
        done = subprocess.run(fetch, capture_output=True, text=True, check=False)
        if done.returncode:
            raise KafkaUnavailableError(f"{jar} cannot be fetched: {(done.stderr or done.stdout).strip()[-300:]}")
    return jars


def shared_classes() -> list[str]:
    """Return JVM options that take the classes of set_up()'s jars from the archive, which halves the CPU time of a
    start.

    There are none without an archive; a JVM that the archive does not fit ignores it.
    """
    archive = kit_dir() / "kafka.jsa"
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"] if archive.exists() else []


def built(name: str, sources: Iterable[Path], build: Callable[[Path], None]) -> Path:
    """Return the directory of what `build` makes from these sources. One process makes it, once."""
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    programs = kit_dir() / "clients"
    programs.mkdir(parents=True, exist_ok=True)
    with (programs / f".{name}-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        directory = programs / f"{name}-{digest.hexdigest()[:16]}"
        if not directory.exists():
            making = directory.with_suffix(".part")
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            build(making)
            making.rename(directory)
    return directory


def java(jars: Path, source: Path, *options: str, more_jars: Path | None = None) -> list[str]:
    """Return the command of a Java program of one file, compiled once: `java FILE` would compile it at every start,
    which takes four times the CPU time of the start itself. options: of the JVM. more_jars: a directory of jars that
    the program needs beside Kafka's."""
    folders = [jars] if more_jars is None else [jars, more_jars]

    def build(directory: Path) -> None:
        class_path = ":".join(str(jar) for folder in folders for jar in folder.glob("*.jar"))
        compiler = ["java", "-m", "jdk.compiler/com.sun.tools.javac.Main", "-proc:none", "--release", str(OLDEST_JAVA)]
        subprocess.run([*compiler, "-cp", class_path, "-d", str(directory), str(source)], check=True)

    classes = built("java", [source], build)
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", *shared_classes()]
    # the archive holds for class paths that begin with the jars
    class_path = ":".join([*(f"{each}/*" for each in folders), str(classes)])
    return ["java", *quick, *options, "-cp", class_path, source.stem]


@dataclass
class ToolServer:
    """Kafka's tools in one JVM, which runs on while calls use the same working directory or need none."""

    jars: Path
    log_level: str = "error"
    cwd: Path | None = None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def run(self, tool: str, args: Sequence[str], cwd: Path | None = None, stdin: bytes = b"") -> Output:
        """Run a class of Kafka's with these arguments. cwd: the directory for paths that are not absolute."""
        if self.process is None or cwd not in (None, self.cwd):
            self.close()
            self.cwd = cwd or kit_dir()
            self.process = self._start(self.cwd)
        try:
            return self._answer("\t".join([str(len(stdin)), tool, *args]).encode() + b"\n" + stdin)
        except BaseException:  # the next call must not take the rest of this answer for its own
            self.process.kill()
            self.close()
            raise

    def _answer(self, request: bytes) -> Output:
        assert self.process is not None
        requests, answers = self.process.stdin, self.process.stdout
        assert requests is not None
        assert answers is not None
        requests.write(request)
        requests.flush()
        status, out_size, err_size = map(int, answers.readline().split())
        return Output(_text(answers, out_size), _text(answers, err_size), status)

    def _start(self, cwd: Path) -> subprocess.Popen[bytes]:
        logger = f"-Dorg.slf4j.simpleLogger.defaultLogLevel={self.log_level}"
        command = java(self.jars, TOOL_SERVER, "-Xmx512M", "-Dfile.encoding=UTF-8", logger)
        return subprocess.Popen(command, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self) -> None:
        if self.process is not None:
            with suppress(BrokenPipeError):
                self.process.communicate()
            self.process = None


@cache
def tool_server(log_level: str = "error") -> ToolServer:
    """Return the ToolServer of this process with that log level, for calls without a directory: a JVM of its own for
    each call, or for each test, would spend most of its time on its start."""
    server = ToolServer(set_up(), log_level)
    atexit.register(server.close)
    return server


def kafka(*arguments: str, stdin: str = "") -> str:
    """Run the script `kafka`, one of its tools in this process's tool server; return what it prints. Fails for an exit
    status that is not 0."""
    name, *given = arguments
    if name in TOOLS:
        output = tool_server().run(TOOLS[name], given, stdin=stdin.encode())
    else:
        done = subprocess.run(
            [SCRIPT, *arguments], capture_output=True, text=True, timeout=SCRIPT_S, check=False, input=stdin
        )
        output = Output(done.stdout, done.stderr, done.returncode)
    assert output.exit == 0, output.stderr[-2000:]
    return output.stdout


class Oracle:
    """Kafka's own classes in a JVM: a Java program reads a JSON question from each line, and writes a line with the
    JSON answer.

    program: its source. options: of the JVM. more_jars: as for java().
    """

    def __init__(self, jars: Path, program: Path, *options: str, more_jars: Path | None = None) -> None:
        command = java(jars, program, "-Xmx256M", *options, more_jars=more_jars)
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, ask: str, **details: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"ask": ask} | details).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.communicate()


def _text(stream: IO[bytes], size: int) -> str:
    return stream.read(size).decode(errors="replace")
