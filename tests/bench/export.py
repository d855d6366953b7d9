"""kcli export-to-parquet beside a consumer of a running Kafka: python -m tests.bench.export.

Kafka's own producer writes the topics. The consumer is confluent-kafka's, its records written by pyarrow, in batches;
kcli reads the directory of the same broker. Both write the same columns with the same codec. `warm` is without starts:
the consumer from its subscription on, kcli in a Spark that has run the job before. They take turns; medians count.
pyarrow alone has all columns in memory and writes them on one core. `--why` also times Spark's own Parquet writer, on
the data source.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from statistics import median
from typing import Any, Self

from tests.bench.measure import BenchError, run
from tests.bench.report import ServeFigure, machine, serve_table
from tests.bench.serve import KCLI, BrokerProcess, create, kafka, produce
from tests.interop import kit

RESULTS = Path(__file__).with_name("EXPORT.md")
WORK = Path(__file__).with_name(".work") / "export"
COLUMNS = "key,value,topic,partition,offset,timestamp,timestampType"
CODEC = "snappy"
LOADS = {"small": (2_000_000, 100, "2 M records of 100 B"), "wide": (1_000_000, 1000, "1 M records of 1 KB")}
FLAT_GB = (0.2, 4.0)
CONSUMED = 20_000
SAMPLE_S = 0.1


# what runs in processes of its own


def child_consume(bootstrap: str, topic: str, records: int, out: str) -> float:
    """Consume a topic from its start and write Parquet: what a data engineer would write."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    from confluent_kafka import Consumer

    settings = {"bootstrap.servers": bootstrap, "group.id": f"bench-{os.getpid()}", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "fetch.message.max.bytes": 10_000_000})
    schema = pa.schema(
        [
            ("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("partition", pa.int32()),
            ("offset", pa.int64()), ("timestamp", pa.timestamp("ms", "UTC")), ("timestampType", pa.int32()),
        ]
    )  # fmt: skip
    began = time.perf_counter()
    consumer.subscribe([topic])
    done = 0
    with pq.ParquetWriter(out, schema, compression=CODEC) as writer:
        while done < records:
            messages = consumer.consume(CONSUMED, timeout=1.0)
            if not messages:
                continue
            times = [message.timestamp() for message in messages]
            columns = [
                [message.key() for message in messages],
                [message.value() for message in messages],
                [message.topic() for message in messages],
                [message.partition() for message in messages],
                [message.offset() for message in messages],
                [time_ms for _, time_ms in times],
                [kind - 1 for kind, _ in times],
            ]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_batch(pa.record_batch(arrays, schema))
            done += len(messages)
    seconds = time.perf_counter() - began
    consumer.close()
    return seconds


def child_warm(path: str, cores: int, runs: int, out: str, *, native: bool) -> list[float]:
    """Export in one Spark, several times after a first one; native: with Spark's own writer."""
    from kcli.export.job import ExportOptions, Job
    from kcli.export.options import SourceOptions
    from kcli.export.session import SparkSettings, spark_session
    from kcli.export.table_writer import TableFormat

    given = SourceOptions.parse({"path": path, "columns": COLUMNS})
    seconds = []
    with spark_session(SparkSettings(f"local[{cores}]")) as spark:
        spark.conf.set("spark.sql.parquet.compression.codec", CODEC)
        for _ in range(runs + 1):
            shutil.rmtree(out, ignore_errors=True)
            began = time.perf_counter()
            if native:
                spark.read.format("kafka-log").option("columns", COLUMNS).load(path).write.parquet(out)
            else:
                Job(ExportOptions(given, Path(out), TableFormat(codec=CODEC)), spark.sparkContext).run()
            seconds.append(time.perf_counter() - began)
    return seconds[1:]


def child_arrow(path: str, runs: int, out: str) -> list[float]:
    """Write columns that are in memory already."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from kcli.export.options import SourceOptions
    from kcli.export.reading import read
    from kcli.export.splits import plan

    given = SourceOptions.parse({"path": path, "columns": COLUMNS})
    table = pa.Table.from_batches([batch for split in plan(given) for batch in read(split, given.columns)])
    seconds = []
    for _ in range(runs + 1):
        began = time.perf_counter()
        pq.write_table(table, out, compression=CODEC)
        seconds.append(time.perf_counter() - began)
    return seconds[1:]


def in_child(what: str, *arguments: object) -> Any:
    """Run one of them in a process of its own. Raises BenchError."""
    command = [sys.executable, "-m", "tests.bench.export", "--child", what, json.dumps(arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchError(f"{what}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


CHILDREN: dict[str, Callable[..., Any]] = {
    "consume": child_consume,
    "warm": lambda *given: child_warm(*given, native=False),
    "native": lambda *given: child_warm(*given, native=True),
    "arrow": child_arrow,
}


# memory


class Watch:
    """The largest resident memory of the processes below this one, by what they are, in MB."""

    def __init__(self) -> None:
        self.peaks: dict[str, float] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(SAMPLE_S):
            for kind, resident_mb in _resident(os.getpid()):
                self.peaks[kind] = max(self.peaks.get(kind, 0), resident_mb)


def _resident(top: int) -> Iterator[tuple[str, float]]:
    parents: dict[int, int] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    for pid, parent in parents.items():
        above = parent
        while above not in (0, top):
            above = parents.get(above, 0)
        if above == top:
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                status = Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            kind = "JVM" if b"org.apache.spark.deploy.SparkSubmit" in command else "driver"
            kind = "worker" if b"pyspark.daemon" in command else kind
            resident = next((line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")), "0")
            yield kind, int(resident) / 1024


def memory(segment: Path, gigabytes: float) -> dict[str, float]:
    """Peaks while so much is exported: partitions that are links to one segment's directory."""
    size = sum(path.stat().st_size for path in segment.glob("*.log"))
    with tempfile.TemporaryDirectory(dir=WORK) as top:
        for number in range(max(1, round(gigabytes * 1e9 / size))):
            log = Path(top) / "logs" / f"t-{number}"
            log.mkdir(parents=True)
            for path in segment.iterdir():
                os.link(path, log / path.name)
        with Watch() as watch:
            run([*_command(Path(top) / "logs"), "--out", f"{top}/out"], WORK / "kcli.log")
    return watch.peaks


def _command(path: Path) -> list[str]:
    return [KCLI, "export-to-parquet", str(path), "--codec", CODEC, "--columns", COLUMNS]


# figures


def one_load(broker: BrokerProcess | None, path: Path, name: str, records: int, runs: int) -> Iterator[ServeFigure]:
    """One topic's figures."""
    about = LOADS[name][2]
    out = str(WORK / "out")
    consumed, whole_consumed, whole = [], [], []
    for _ in range(runs):
        if broker is not None:
            began = time.perf_counter()
            consumed.append(in_child("consume", broker.bootstrap, name, records, out + ".parquet"))
            whole_consumed.append(time.perf_counter() - began)
        shutil.rmtree(out, ignore_errors=True)
        whole.append(run([*_command(path), "--out", out], WORK / "kcli.log").seconds)
    warm = median(in_child("warm", str(path), os.cpu_count(), runs, out))
    one_core = median(in_child("warm", str(path), 1, runs, out))
    two_cores = median(in_child("warm", str(path), 2, runs, out))
    alone = median(in_child("arrow", str(path), runs, out + ".parquet"))
    theirs = median(consumed) if consumed else None
    print(f"  {about}: {warm:.2f} s", flush=True)
    yield ServeFigure(f"{about}, warm, beside the consumer", warm, theirs, "s", most_ratio=1 / 5)
    begun = median(whole_consumed) if whole_consumed else None
    yield ServeFigure(f"{about}, whole process, beside the consumer", median(whole), begun, "s", most_ratio=1 / 1.3)
    yield ServeFigure(f"{about}, warm, beside pyarrow alone", warm, alone, "s", most_ratio=4)
    yield ServeFigure(f"{about}, two cores beside one", two_cores, one_core, "s", most_ratio=1 / 1.6)


def main() -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.export", description="Time exports to Parquet.")
    parser.add_argument("--runs", type=int, default=3, help="measured runs of each (default: 3)")
    parser.add_argument("--scale", type=float, default=1.0, help="of the loads; below 1 nothing is written")
    parser.add_argument("--why", action="store_true", help="time Spark's own Parquet writer too")
    parser.add_argument("--logs", type=Path, help="directories none100-0 and none1k-0 of another bench, and no Kafka")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(CHILDREN[options.child[0]](*json.loads(options.child[1]))))
        return 0
    WORK.mkdir(parents=True, exist_ok=True)
    rows: list[ServeFigure] = []
    try:
        if options.logs is None:
            kit.set_up()
        with kafka() if options.logs is None else nullcontext() as broker:
            paths = {}
            for name, (count, size, _) in LOADS.items():
                if broker is None:
                    paths[name] = options.logs / {"small": "none100-0", "wide": "none1k-0"}[name]
                else:
                    create(broker, name, 1)
                    produce(broker, name, round(count * options.scale), size)
                    paths[name] = broker.data / f"{name}-0"
            for name, (count, _, about) in LOADS.items():
                rows += one_load(broker, paths[name], name, round(count * options.scale), options.runs)
                if options.why:
                    native = median(in_child("native", str(paths[name]), os.cpu_count(), 1, str(WORK / "out")))
                    rows.append(ServeFigure(f"{about}, Spark's own writer", native, None, "s"))
            little, much = (memory(paths["wide"], size * options.scale) for size in FLAT_GB)
            rows += [
                ServeFigure(
                    f"memory of the {kind}, 4 GB beside 0.2", much[kind], little.get(kind), "MB", most_ratio=1.3
                )
                for kind in sorted(much)
            ]
    except kit.KafkaUnavailableError as unavailable:
        print(f"bench: the load comes from Kafka's own tools: {unavailable}", file=sys.stderr)
        return 1
    except (BenchError, subprocess.CalledProcessError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    finally:
        shutil.rmtree(WORK / "out", ignore_errors=True)
    text = serve_table(rows, "the other")
    print(text)
    if options.scale == 1.0 and options.logs is None:
        RESULTS.write_text(f"# Exports to Parquet\n\n{options.runs} runs each, {CODEC}. {machine()}.\n\n{text}\n")
    return 1 if any(row.reached is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
