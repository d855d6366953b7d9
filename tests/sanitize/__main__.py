"""Run the builds, each in a process of its own, and print what ended one and how to run that input again."""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.sanitize.builds import FULL, NAMED, ROOT, Build, NoCompiler, make
from tests.sanitize.inputs import FRAMES, KINDS, MIXED

INPUTS = 1_000_000
AS_IT_IS = -1
REPORT_CHARACTERS = 6_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one run: the number of inputs, the seconds, and the report that ended it."""

    build: str
    inputs: int
    seconds: float
    report: str = ""


def feed(
    build: Build, place: Path, seed: int, first: int, count: int, seconds: float = 1e9, *, kind: str = MIXED
) -> Outcome:
    """Run inputs [first, first + count) of a kind and seed, or as many as the time allows. AS_IT_IS: the undamaged
    data."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as scratch:
        note = Path(scratch, "input")
        numbers = map(str, (seed, first, count, seconds))
        command = [sys.executable, "-m", "tests.sanitize.run", str(place), str(note), kind, *numbers]
        done = subprocess.run(
            command, cwd=ROOT, env=build.environment(), capture_output=True, text=True, errors="replace", check=False
        )
        at = note.read_text().strip() if note.exists() else "none"
    took = time.monotonic() - began
    if done.returncode == 0:
        return Outcome(build.name, int(done.stdout.split()[-1]), took)
    again = f"python -m tests.sanitize --kind {kind} --build {build.name} --seed {seed} --first {at} --inputs 1"
    text = (done.stdout + done.stderr)[-REPORT_CHARACTERS:]
    return Outcome(build.name, int(at) - first if at.isdecimal() else 0, took, f"{text}\ninput {at}; again: {again}")


def main() -> int:
    """Returns the exit status: 1 where there is a report."""
    parser = argparse.ArgumentParser(prog="python -m tests.sanitize", description=__doc__)
    parser.add_argument("--inputs", type=int, default=INPUTS, help="of all builds together")
    parser.add_argument("--kind", choices=KINDS, default=MIXED, help=f"{FRAMES}: 500 Produce requests are an input")
    parser.add_argument(
        "--build", choices=sorted(NAMED), action="append", help="one build; without: bounds and address"
    )
    parser.add_argument("--seed", type=int, default=random.getrandbits(31), help=f"{AS_IT_IS}: the data as it is")
    parser.add_argument("--first", type=int, default=0, help="the first input of the seed")
    parser.add_argument("--build-only", action="store_true", help="compile, and feed nothing")
    options = parser.parse_args()
    builds = [NAMED[name] for name in options.build] if options.build else list(FULL)
    try:
        places = make(*builds, say=print)
    except NoCompiler as error:
        print(f"skipped: {error}")
        return 0
    if options.build_only:
        return 0
    each = -(-options.inputs // len(builds))
    print(f"seed {options.seed}: {each:,} inputs for each of {', '.join(build.name for build in builds)}", flush=True)
    with ThreadPoolExecutor() as pool:
        runs = []
        for number, (build, place) in enumerate(zip(builds, places, strict=True)):
            first = options.first + number * each
            runs.append(pool.submit(run, build, place, options.kind, options.seed, first, each))
        outcomes = [outcome for found in runs for outcome in found.result()]
    return 1 if any(outcome.report for outcome in outcomes) else 0


def run(build: Build, place: Path, kind: str, seed: int, first: int, count: int) -> list[Outcome]:
    """Run the undamaged data, then the inputs of a seed; print a line after each."""
    outcomes = []
    parts = [(seed, first, count)]
    if kind == MIXED and seed != AS_IT_IS and count > 1:
        parts.insert(0, (AS_IT_IS, 0, 10**9))
    for part in parts:
        outcome = feed(build, place, *part, kind=kind)
        what = "whole" if part[0] == AS_IT_IS else "mutated"
        done = f"{outcome.inputs:,} {what} inputs in {outcome.seconds:,.0f} s"
        print(f"{build.name}: {done} {outcome.report}".rstrip(), flush=True)
        outcomes.append(outcome)
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
