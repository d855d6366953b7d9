"""kcli export-to-parquet beside a consumer of a running Kafka, and pyarrow alone: python -m tests.bench.export.

    warm            all sides in processes that stay (export_sides.py), in turn; the first runs do not count
    whole process   from the command to its end, with the start of Python, and of Spark's JVM
    memory          of a whole kcli process with all its children, each at its peak
    tables          the same job to Iceberg and Delta tables, beside the files alone
    --why           beside df.write.parquet from the data source, which the job does not use (kcli/export/job.py)

All write the same columns with the same codec, and what the consumer wrote must equal what kcli wrote. Kafka runs with
the options of its own start scripts (KAFKA_PERF=1), and has the logs in its page cache, as kcli has.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq

from kcli.export import class_archive
from kcli.export.columns import STANDARD
from kcli.export.decoding import make_decoder
from kcli.export.manifest import read_manifest
from tests.bench.export_logs import WORK, Log, kafka_with, make
from tests.bench.export_sides import Side, command, remove, warm
from tests.bench.measure import BenchError, run
from tests.bench.report import ServeFigure, machine, serve_table
from tests.bench.serve import KCLI
from tests.export.decoding.orders import SCHEMA, encoded, orders
from tests.interop import kit

RESULTS = Path(__file__).with_name("EXPORT.md")
CORES = 2
SMALL, WIDE = (2_000_000, 100), (1_000_000, 1024)
MEMORY_BYTES = 200_000_000, 4_000_000_000
FLAT = 1.25
TABLE_LEAST = 0.77  # within 1.3 times
AVRO_RECORDS, AVRO_PATTERNS = 500_000, 10_000
SAMPLE_S = 0.05
KINDS = {"driver": "the driver", "jvm": "Spark's JVM", "worker": "the largest worker"}


def log_of(records: float, value_bytes: int) -> Log:
    """Return a log, which is made unless it exists."""
    return make(Log(f"export-{round(records)}x{value_bytes}", round(records), value_bytes))


def named(log: Log) -> str:
    """For the table."""
    count = f"{log.records / 1e6:g} M" if log.records >= 1e5 else f"{log.records:,}"
    return f"{count} x {'1 KB' if log.value_bytes == 1024 else f'{log.value_bytes} B'}"


# speed


def rates(sides: Mapping[str, Side], log: Log, runs: int) -> dict[str, float]:
    """Records a second of each side, the median of the runs."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(runs + 1):
        for name, export in sides.items():
            took = export(log, WORK / "out" / name)
            if number:
                seconds[name].append(took)
        if number == 0:
            same(WORK / "out" / "kcli", WORK / "out" / "consumer")
    for name in sides:
        remove(WORK / "out" / name)
        print(f"  {named(log)}, {name}: {_shown(seconds[name])}", flush=True)
    return {name: log.records / median(each) for name, each in seconds.items()}


def _shown(seconds: list[float]) -> str:
    return " ".join(f"{took:.2f}" for took in seconds) + " s"


def same(ours: Path, theirs: Path) -> None:
    """Raise BenchError unless both tables have the same rows."""
    files = [ours / file.path for file in read_manifest(ours).files]
    mine = pa.concat_tables([pq.read_table(path) for path in files]).sort_by("offset")
    its = pq.read_table(theirs)
    for name in its.column_names:
        if not mine[name].equals(its[name]):
            raise BenchError(f"{name}: the consumer wrote something else")


def whole(side: list[str], out: Path) -> float:
    """Seconds of a process."""
    remove(out)
    seconds = run(side, WORK / "out" / "printed").seconds
    remove(out)
    return seconds


def processes(address: str, codec: str, log: Log, runs: int) -> tuple[float, float]:
    """Records a second of kcli's and the consumer's whole processes, which take turns."""
    ours, theirs = WORK / "out" / "ours", WORK / "out" / "theirs"
    seconds: tuple[list[float], list[float]] = [], []
    for _ in range(runs):
        seconds[0].append(whole(export_command(log, codec, ours), ours))
        seconds[1].append(whole(command("consumer", address, codec, log, theirs), theirs))
    print(f"  {named(log)}, whole: kcli {_shown(seconds[0])}, consumer {_shown(seconds[1])}", flush=True)
    return log.records / median(seconds[0]), log.records / median(seconds[1])


def export_command(log: Log, codec: str, out: Path) -> list[str]:
    """kcli's command."""
    how = ["--master", f"local[{CORES}]", "--codec", codec, "--columns", ",".join(STANDARD)]
    return [KCLI, "export-to-parquet", str(log.path), "--out", str(out), *how]


def speed_figures(address: str, codec: str, runs: int, scale: float, *, why: bool) -> Iterator[ServeFigure]:
    """What is measured in turn."""
    logs = [log_of(records * scale, size) for records, size in (SMALL, WIDE)]
    started = {
        "kcli": ("kcli", f"local[{CORES}]"),
        "one core": ("kcli", "local[1]"),
        "Iceberg": ("iceberg", f"local[{CORES}]"),
        "Delta": ("delta", f"local[{CORES}]"),
        "consumer": ("consumer", address),
        "pyarrow": ("pyarrow", "-"),
    }
    if why:
        started["spark"] = "spark", f"local[{CORES}]"
    with ExitStack() as stack:
        sides = {name: stack.enter_context(warm(*side, codec)) for name, side in started.items()}
        found = [rates(sides, log, runs) for log in logs]
    for log, per_s in zip(logs, found, strict=True):
        yield _line(log, per_s, "warm: consumer and pyarrow", "consumer", 5)
        ours, theirs = processes(address, codec, log, runs)
        yield _line(log, {"kcli": ours, "consumer": theirs}, "whole process: consumer and pyarrow", "consumer", 1.3)
        yield _line(log, per_s, "warm: pyarrow alone, columns in memory", "pyarrow", 0.25)
        yield _line(log, per_s, "two cores: one core", "one core", 1.6)
        for table in ("Iceberg", "Delta"):
            by_files = {"kcli": per_s[table], "files": per_s["kcli"]}
            yield _line(log, by_files, f"warm: a table of {table}: the files alone", "files", TABLE_LEAST)
        if why:
            yield _line(log, per_s, "warm: df.write.parquet of the data source", "spark")


def _line(log: Log, per_s: Mapping[str, float], what: str, other: str, least: float | None = None) -> ServeFigure:
    return ServeFigure(f"{named(log)}, {what}", per_s["kcli"], per_s[other], "records/s", least_ratio=least)


# memory


def peaks(log: Log, codec: str) -> dict[str, float]:
    """MB of the driver, of Spark's JVM and of the largest worker, each at its peak."""
    out = WORK / "out" / "memory"
    remove(out)
    found = dict.fromkeys(KINDS, 0.0)
    process = subprocess.Popen(export_command(log, codec, out), stdout=subprocess.DEVNULL)
    while process.poll() is None:
        for pid, kind in family(process.pid):
            found[kind] = max(found[kind], peak_mb(pid))
        time.sleep(SAMPLE_S)
    remove(out)
    if process.returncode:
        raise BenchError(f"exit {process.returncode} of an export of {log.path}")
    return found


def family(root: int) -> Iterator[tuple[int, str]]:
    """A process and its descendants, and which of KINDS each is."""
    parents = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    yield root, "driver"
    known, left = {root}, set(parents) - {root}
    while new := {pid for pid in left if parents[pid] in known}:
        known |= new
        left -= new
        for pid in new:
            with suppress(OSError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"org.apache.spark.deploy.SparkSubmit" in words:
                    yield pid, "jvm"
                elif any(word.endswith(b".daemon") for word in words):
                    yield pid, "worker"


def peak_mb(pid: int) -> float:
    """The largest resident memory of a process so far."""
    with suppress(OSError):
        known = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
        return int(known[1]) * 1024 / 1e6 if known else 0.0
    return 0.0


def memory_figures(codec: str, scale: float) -> Iterator[ServeFigure]:
    """Peaks of a large input, beside those of a small one."""
    small, large = (log_of(size * scale / 1050, 1024) for size in MEMORY_BYTES)
    before, after = peaks(small, codec), peaks(large, codec)
    sizes = [f"{size * scale / 1e9:g}" for size in MEMORY_BYTES]
    for kind, what in KINDS.items():
        name = f"peak of {what}, {sizes[1]} GB: {sizes[0]} GB"
        yield ServeFigure(name, after[kind], before[kind], "MB", most_ratio=FLAT)


# decoding


def avro_per_s(runs: int) -> float:
    """Records of Avro that are decoded in a second of processor time."""
    patterns = encoded(SCHEMA, orders(AVRO_PATTERNS))
    payloads = pa.concat_arrays([patterns] * (AVRO_RECORDS // AVRO_PATTERNS))
    with tempfile.TemporaryDirectory() as directory:
        schema = Path(directory) / "order.avsc"
        schema.write_text(json.dumps(SCHEMA))
        decoder = make_decoder(f"avro:{schema}")
        seconds = []
        for _ in range(runs + 1):
            began = time.process_time()
            _, reasons = decoder.decode(payloads)
            seconds.append(time.process_time() - began)
    assert reasons.null_count == len(payloads), "all decode"
    return len(payloads) / median(seconds[1:])


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.export", description="Time exports to Parquet.")
    parser.add_argument("--runs", type=int, default=3, help="measured runs of each (default: 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the logs; only at 1 EXPORT.md is written")
    parser.add_argument("--codec", default="snappy", help="of all sides (default: snappy, as pyarrow's and Spark's)")
    parser.add_argument("--why", action="store_true", help="df.write.parquet of the data source, too")
    parser.add_argument("--only", choices=("speed", "memory", "avro"), help="only this part, and write nothing")
    options = parser.parse_args()
    try:
        kit.set_up()
    except kit.KafkaUnavailableError as unavailable:
        print(f"bench: the consumer reads from real Kafka: {unavailable}", file=sys.stderr)
        return 1
    class_archive.make()  # on any machine this is the speed from the second export on
    (WORK / "out").mkdir(parents=True, exist_ok=True)
    wanted = (options.only,) if options.only else ("speed", "memory", "avro")
    rows: list[ServeFigure] = []
    try:
        if "speed" in wanted:
            logs = [log_of(records * options.scale, size) for records, size in (SMALL, WIDE)]
            with kafka_with(logs) as address:
                rows += speed_figures(address, options.codec, options.runs, options.scale, why=options.why)
        if "memory" in wanted:
            rows += memory_figures(options.codec, options.scale)
        if "avro" in wanted:
            per_s = avro_per_s(options.runs)
            rows.append(ServeFigure("Avro, decoded a core", per_s, None, "records/s", least=300_000))
    except (BenchError, OSError, subprocess.CalledProcessError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    text = serve_table(rows, "beside it")
    print(text)
    if options.scale == 1.0 and options.only is None:
        told = f"Medians of {options.runs} runs, {options.codec}, local[{CORES}]. {machine()}."
        heading = "# kcli export-to-parquet, beside what each line names"
        RESULTS.write_text(f"{heading}\n\n{told}\n\n{text}\n")
    return 1 if any(row.reached is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
