"""python -m tests.bench [--runs N] [--only WORD]: measure, print the table, write it to tests/bench/RESULTS.md.

Kafka's tool and kcli take turns (A B A B) on each log, output to a file; figures are medians of whole processes. Kafka
runs with the options of its own start scripts (KAFKA_PERF=1). The page cache is warm for both.
"""

import argparse
import filecmp
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench import compaction, logs
from tests.bench.measure import BenchError, Run, first_lines, run
from tests.bench.report import machine, table
from tests.conftest import SAMPLES
from tests.interop import kit

KCLI = str(Path(sys.executable).with_name("kcli"))
RESULTS = Path(__file__).with_name("RESULTS.md")
KAFKA_OUT, KCLI_OUT = logs.WORK / "kafka.out", logs.WORK / "kcli.out"
PEAK_GOAL_MB = 350
COMPACTION_GOAL_MB = 200  # the map's 128 MB and the rest


@dataclass(frozen=True)
class Figure:
    """One line of the table. `goal_ratio`: how many times as fast as Kafka kcli must be. `goal_seconds`, `goal_mb`: the
    largest value allowed."""

    name: str
    kcli: Run
    kafka: Run | None = None
    goal_ratio: float | None = None
    goal_seconds: float | None = None
    goal_mb: float | None = None
    same_output: bool | None = None

    @property
    def ratio(self) -> float | None:
        return self.kafka.seconds / self.kcli.seconds if self.kafka else None

    @property
    def reached(self) -> bool | None:
        """Whether the goal is reached; None without a goal, or without Kafka's figure."""
        checks = [
            None if self.goal_ratio is None or self.ratio is None else self.ratio >= self.goal_ratio,
            None if self.goal_seconds is None else self.kcli.seconds <= self.goal_seconds,
            None if self.goal_mb is None else self.kcli.peak_mb < self.goal_mb,
            self.same_output,
        ]
        known = [check for check in checks if check is not None]
        return all(known) if known else None

    def cells(self) -> list[str]:
        """The columns of the table, as COLUMNS names them."""
        goals = [
            self.goal_ratio and f">= {self.goal_ratio:g}x",
            self.goal_seconds and f"<= {self.goal_seconds:g} s",
            self.goal_mb and f"< {self.goal_mb:g} MB",
        ]
        return [
            self.name,
            f"{self.kcli.seconds:.3f} s",
            f"{self.kafka.seconds:.3f} s" if self.kafka else "",
            f"{self.ratio:.1f}x" if self.ratio else "",
            f"{self.kcli.peak_mb:.0f} MB",
            f"{self.kafka.peak_mb:.0f} MB" if self.kafka else "",
            ", ".join(goal for goal in goals if goal),
            {True: "yes", False: "MISSED", None: ""}[self.reached],
            {True: "same", False: "DIFFERENT", None: ""}[self.same_output],
        ]


COLUMNS = ["figure", "kcli", "Kafka", "ratio", "kcli peak", "Kafka peak", "goal", "reached", "output"]


def middle(runs: Sequence[Run]) -> Run:
    return Run(median(one.seconds for one in runs), max(one.peak_mb for one in runs))


@dataclass(frozen=True)
class Bench:
    """What to measure with: how often, and whether Kafka's tool is there."""

    runs: int
    with_kafka: bool

    def side_by_side(
        self, name: str, log: logs.Log, kcli: Sequence[str], kafka: Sequence[str], goal_ratio: float | None = None
    ) -> Figure:
        """kafka-dump-log and kcli in turn on one log; kcli prints in Kafka's format, so both outputs must be equal."""
        ours, theirs = [], []
        for _ in range(self.runs):
            if self.with_kafka:
                theirs.append(run([str(kit.SCRIPT), "dump", *kafka, "--files", str(log.path)], KAFKA_OUT))
            ours.append(run([KCLI, *kcli, str(log.path)], KCLI_OUT))
        same = filecmp.cmp(KAFKA_OUT, KCLI_OUT, shallow=False) if theirs else None
        return Figure(name, middle(ours), middle(theirs) if theirs else None, goal_ratio, same_output=same)

    def alone(self, args: Sequence[str], measured: Callable[[Sequence[str]], Run] | None = None) -> Run:
        """kcli alone."""
        one = measured or (lambda command: run(command, KCLI_OUT))
        return middle([one([KCLI, *args]) for _ in range(self.runs)])

    def plain_figures(self) -> Iterator[Figure]:
        dump = ["dump-segment", "--format", "kafka"]
        deep = self.side_by_side(
            "dump --deep-iteration, 2 M x 100 B", logs.PLAIN, [*dump, "--deep-iteration"], ["--deep-iteration"], 10
        )
        yield deep
        verify = self.alone(["verify", str(logs.PLAIN.path)])
        yield Figure("verify, 2 M x 100 B (Kafka: the dump above)", verify, deep.kafka, 25)
        yield self.side_by_side("dump of batches, 2 M x 100 B", logs.PLAIN, dump, [], 1)
        for log in logs.COMPRESSED:
            name = f"dump --deep-iteration, 2 M x 100 B, {log.codec}"
            yield self.side_by_side(name, log, [*dump, "--deep-iteration"], ["--deep-iteration"], 5)
        yield self.side_by_side(
            "dump --deep-iteration, 1 M x 1 KB", logs.WIDE, [*dump, "--deep-iteration"], ["--deep-iteration"]
        )

    def gib_figures(self) -> Iterator[Figure]:
        segment = str(logs.GIB.path)
        dump = ["dump-segment", "--format", "kafka", "--deep-iteration", segment]
        yield Figure("dump --deep-iteration, 1 GiB", self.alone(dump), goal_mb=PEAK_GOAL_MB)
        yield Figure("verify, 1 GiB", self.alone(["verify", segment]), goal_mb=PEAK_GOAL_MB)
        for style in ("table", "kafka", "jsonl"):
            shown = self.alone(["dump-segment", "--format", style, segment], first_lines)
            yield Figure(f"first lines of a 1 GiB dump, {style}", shown, goal_seconds=0.7)

    def engine_figures(self) -> Iterator[Figure]:
        engine = [sys.executable, "-m", "tests.bench.engine"]
        directory = str(logs.WORK / "engine")
        appended = middle([run([*engine, "append", f"{directory}-append"], KCLI_OUT) for _ in range(self.runs)])
        yield Figure("append 1 GB in batches of 16 KB, one core", appended, goal_seconds=2.5)
        run([*engine, "prepare", directory], KCLI_OUT)
        opened = middle([run([*engine, "open", directory], KCLI_OUT) for _ in range(self.runs)])
        yield Figure("open 2,000 clean partitions", opened, goal_seconds=2)

    def compaction_figures(self) -> Iterator[Figure]:
        source, target = compaction.make(), logs.WORK / "compacted-0"
        command = [KCLI, "compact", str(source), "--out", str(target), *compaction.CONFIG]
        ours = []
        for _ in range(self.runs):
            shutil.rmtree(target, ignore_errors=True)
            ours.append(run(command, KCLI_OUT))
        shutil.rmtree(target, ignore_errors=True)
        theirs = Run(compaction.kafka_seconds(), 0) if self.with_kafka else None
        name = "compact 400 MB, 3.6 M records, 200 k keys (Kafka: its cleaner alone, warm)"
        yield Figure(name, middle(ours), theirs, goal_ratio=4, goal_mb=COMPACTION_GOAL_MB)

    def recovery_figures(self) -> Iterator[Figure]:
        """Kafka recovers about 1.05 GB/s a thread, as its log tells: 1.2 times that, as kcli tells."""
        partition = logs.WORK / "recovery" / "bench-0"
        partition.mkdir(parents=True, exist_ok=True)
        segment = partition / logs.GIB.path.name
        if not segment.exists():
            segment.hardlink_to(logs.GIB.path)  # a sound log is read only
        ours = []
        for _ in range(self.runs):
            for built in partition.iterdir():
                if built != segment:
                    built.unlink()
            whole = run([KCLI, "recover", "--in-place", str(partition)], KCLI_OUT)
            own = re.search(r"([\d.]+) s$", KCLI_OUT.read_text())
            assert own, "recover ends with the time it took"
            ours.append(whole._replace(seconds=float(own[1])))
        goal = logs.GIB.path.stat().st_size / (1.2 * 1.05e9)
        yield Figure(
            "recover a 1 GiB segment, indexes rebuilt (without the start)", middle(ours), goal_seconds=round(goal, 2)
        )

    def start_figures(self) -> Iterator[Figure]:
        small = str(SAMPLES / "good/java-zstd-0/00000000000000000000.log")
        yield Figure("kcli --help", self.alone(["--help"]), goal_seconds=0.15)
        yield Figure("dump of a small file", self.alone(["dump-segment", small]), goal_seconds=0.4)


def kafka_is_there() -> bool:
    try:
        kit.set_up()
    except kit.KafkaUnavailableError as unavailable:
        print(f"Without Kafka ({unavailable}): kcli alone, on logs made without it.", flush=True)
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description="Time kcli beside kafka-dump-log.")
    parser.add_argument("--runs", type=int, default=3, help="runs of each command; the median counts (default: 3)")
    parser.add_argument(
        "--only",
        choices=["plain", "gib", "engine", "compaction", "recovery", "start"],
        help="only this part; RESULTS.md is left alone",
    )
    options = parser.parse_args()
    bench = Bench(options.runs, kafka_is_there())
    make = logs.make_with_kafka if bench.with_kafka else logs.make_without_kafka
    parts = {
        "plain": (bench.plain_figures, [logs.PLAIN, *logs.COMPRESSED, logs.WIDE]),
        "gib": (bench.gib_figures, [logs.GIB]),
        "engine": (bench.engine_figures, []),
        "compaction": (bench.compaction_figures, []),
        "recovery": (bench.recovery_figures, [logs.GIB]),
        "start": (bench.start_figures, []),
    }
    figures = []
    try:
        for name in [options.only] if options.only else parts:
            part, needed = parts[name]
            make(needed)
            for figure in part():
                print(f"{figure.name}: {figure.kcli.seconds:.3f} s", flush=True)
                figures.append(figure)
    except (BenchError, subprocess.CalledProcessError) as failed:
        print(f"bench: {failed}", file=sys.stderr)
        return 1
    finally:
        KAFKA_OUT.unlink(missing_ok=True)
        KCLI_OUT.unlink(missing_ok=True)
    result = table([COLUMNS, *(figure.cells() for figure in figures)])
    print(result)
    if not options.only:
        heading = f"# make bench\n\nMedians of {bench.runs} runs, whole processes, output to a file. {machine()}.\n\n"
        RESULTS.write_text(heading + result + "\n", encoding="utf-8")
    return 1 if any(figure.reached is False for figure in figures) else 0


if __name__ == "__main__":
    sys.exit(main())
