"""The memory of a pipe's driver over many short epochs: python -m tests.bench.pipelines --epochs 3600.

`kcli pipe --follow` copies a topic to another one, exactly once, epoch after epoch, while records come in. Beside the
number of the epoch the resident memory of its processes is written to epochs.csv: kcli itself, which is the driver's
Python, Spark's JVM, and the Python process in which Spark keeps the stream's reader. Memory is flat if the median of
the last quarter is hardly above that of the second; the first is the start. The JVM has its whole heap from the start,
as garbage fills it up to its limit some time; what its objects take after a collection (jcmd GC.run) is compared
between the half and the end.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from confluent_kafka import Producer

from kcli.export.session import QUICK_JAVA
from kcli.testing.kafka import Kafka
from tests.bench.measure import BenchError
from tests.bench.report import ServeFigure
from tests.export.processes import below

HOUR = 3600
"""As many epochs as the default interval of a pipe into a topic makes in an hour."""
INTERVAL_S, PRODUCE_S = 0.1, 0.05
SAMPLES = 400
FLAT = 1.05
HEAP = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": f"{QUICK_JAVA} -Xms512m -XX:+AlwaysPreTouch",
}
JVM = "JVM"
CLEANED_S = 3
END_S = 60
PARTS = {JVM: b"SparkSubmit", "stream reader": b"python_streaming_source_runner"}
"""The processes below kcli, each with a part of its command line."""


def figures(epochs: int, work: Path) -> Iterator[ServeFigure]:
    """Run so many epochs, write epochs.csv to a directory, and yield the memory of each process. Raises BenchError."""
    work.mkdir(parents=True, exist_ok=True)
    live: list[float] = []
    with Kafka.started(process="child", seed={"t": 1, "u": 1}) as kafka, producing(kafka):
        rows = [*measured(kafka, epochs, work, live)]
    if len(rows) < 4:
        raise BenchError(f"{epochs} epochs are too few to compare their quarters")
    with (work / "epochs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["epoch", "seconds", *(f"{name} MB" for name in rows[0][2])])
        writer.writerows([epoch, f"{at:.1f}", *(f"{mb:.1f}" for mb in memory.values())] for epoch, at, memory in rows)
    quarter = len(rows) // 4
    for name in rows[0][2]:
        first, last = (median(row[2][name] for row in part) for part in (rows[quarter : 2 * quarter], rows[-quarter:]))
        yield ServeFigure(f"{epochs:,} epochs, {name}: last quarter: second", last, first, "MB", most_ratio=FLAT)
    if live:
        yield ServeFigure(f"{epochs:,} epochs, the JVM's objects: end: half", live[-1], live[0], "MB", most_ratio=FLAT)


@contextmanager
def producing(kafka: Kafka) -> Iterator[None]:
    """A context in which records come in all the time."""
    stop = threading.Event()

    def produce() -> None:
        producer = Producer(kafka.client_config("confluent"))
        while not stop.wait(PRODUCE_S):
            producer.produce("t", b"x" * 100)
            producer.poll(0)
        producer.flush()

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def measured(kafka: Kafka, epochs: int, work: Path, live: list[float]) -> Iterator[tuple[int, float, dict[str, float]]]:
    """Pipe for so many epochs; yield now and then the epoch, the seconds since the start, and the memory (MB) of each
    process. live: takes what the JVM's objects take after half of the epochs and at the end, where jcmd is there.
    Raises BenchError if the pipe ends before."""
    ends = [f"kafka://{kafka.bootstrap_servers}/{topic}" for topic in ("t", "u")]
    checkpoint = kafka.data_dir.with_name("epochs.checkpoint")
    options = ["--checkpoint", str(checkpoint), "--follow", "--interval", str(INTERVAL_S), "--format", "jsonl"]
    settings = [word for name, text in HEAP.items() for word in ("--spark-conf", f"{name}={text}")]
    command = [sys.executable, "-m", "kcli", "pipe", *ends, *options, "--master", "local[1]", *settings]
    began, due = time.perf_counter(), 0.0
    with (work / "epochs.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    assert process.stdout is not None
    epoch = 0
    try:
        for line in process.stdout:
            epoch = json.loads(line).get("batches", epoch)
            if epoch >= due:
                due = epoch + epochs / SAMPLES
                memory = resident_mb(process.pid)
                at = time.perf_counter() - began
                print(
                    f"epoch {epoch:,}, {at:.0f} s: " + ", ".join(f"{name} {mb:.0f} MB" for name, mb in memory.items())
                )
                yield epoch, at, memory
            if epoch >= (len(live) + 1) * epochs / 2:
                live += live_mb(process.pid)
            if epoch >= epochs:
                break
        else:
            raise BenchError(f"the pipe has ended after {epoch:,} epochs: {(work / 'epochs.log').read_text()}")
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=END_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()


def resident_mb(pid: int) -> dict[str, float]:
    """The resident memory of kcli and of the processes below it, by name. Raises BenchError if one is missing."""
    return {name: _resident_mb(each) for name, each in _processes(pid).items()}


def live_mb(pid: int) -> list[float]:
    """What the objects of the JVM below kcli take (MB) after a collection; nothing without jcmd. A first one lets Spark
    drop the broadcasts of epochs that are over, which a second one frees. Raises BenchError."""
    if shutil.which("jcmd") is None:
        return []
    jvm = str(_processes(pid)[JVM])
    subprocess.run(["jcmd", jvm, "GC.run"], capture_output=True, check=True)
    time.sleep(CLEANED_S)
    subprocess.run(["jcmd", jvm, "GC.run"], capture_output=True, check=True)
    told = subprocess.run(["jcmd", jvm, "GC.heap_info"], capture_output=True, text=True, check=True).stdout
    heap = told.partition("Metaspace")[0]
    return [sum(int(found) for found in re.findall(r"generation\s+total \d+K, used (\d+)K", heap)) * 1024 / 1e6]


def _processes(pid: int) -> dict[str, int]:
    found = {"kcli": pid}
    for child, command in sorted(below(pid)):  # a JVM that forks has a child with its command for a moment
        for name, part in PARTS.items():
            if part in command:
                found.setdefault(name, child)
    if missing := PARTS.keys() - found.keys():
        raise BenchError(f"kcli has no {min(missing)}")
    return found


def _resident_mb(pid: int) -> float:
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024 / 1e6
