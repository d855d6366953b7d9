"""The inputs of the kernels: golden logs and those of the samples, in pieces, and the n-th random input of a seed.

Kind, seed and n alone decide an input, so that it can be run again. Of a hundred inputs of the kind MIXED, 70 are
windows of logs, 16 columns of payloads, 10 frames of requests and 4 directories, which take as long as all the others.
An input of the kind FRAMES is 500 Produce requests for the fast path.
"""

from __future__ import annotations

import shutil
import tempfile
from functools import cache
from pathlib import Path
from random import Random

from tests.conftest import GOLDEN, SAMPLES
from tests.damage import changed, disordered, frames, segments
from tests.sanitize import directories, logs, payloads, requests

MIXED, FRAMES = KINDS = "mixed", "frames"
WINDOW_BYTES = 3_000
PARTITION_BYTES = 40_000
PIECES_MAX = 3_000


@cache
def windows() -> list[bytes]:
    """Yield runs of batches of every log, a few kilobytes each; for a log without any framing its first bytes."""
    found: dict[bytes, None] = {}
    for path in sorted([*GOLDEN.rglob("*.log"), *GOLDEN.rglob("*.checkpoint"), *SAMPLES.rglob("*.log")]):
        data = path.read_bytes()
        batches = frames(data)
        starts = [start for start, _ in batches[:: max(1, len(batches) // 4)]][:5] or [0]
        for start in starts:
            stop = max((at + size for at, size in batches if at + size <= start + WINDOW_BYTES), default=0)
            piece = data[start : stop if stop > start else start + WINDOW_BYTES]
            if piece:
                found[piece] = None
    pieces = list(found)
    return [*pieces[:: max(1, len(pieces) // PIECES_MAX)], b"", bytes(100)]


@cache
def partitions() -> list[Path]:
    """Return partition directories with small logs, damaged ones among them."""
    found = {path.parent for path in [*GOLDEN.rglob("*.log"), *SAMPLES.rglob("*.log")]}
    return sorted(each for each in found if sum(path.stat().st_size for path in each.iterdir()) <= PARTITION_BYTES)


def copied(source: Path, target: Path) -> Path:
    """Return a partition's files in a writable copy."""
    target.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_file():
            (target / path.name).write_bytes(path.read_bytes())
    return target


def run(kind: str, seed: int, n: int) -> None:
    """Run the n-th input of a kind and seed. Any exception is a report."""
    random = Random(f"{seed}:{n}")
    if kind == FRAMES:
        requests.many_frames(random, n)
        return
    share = random.random()
    if share < 0.70:
        logs.run(changed(random.choice(windows()), random, random.choice(windows())), random)
    elif share < 0.86:
        payloads.run(random)
    elif share < 0.96:
        requests.run(random)
    else:
        directory(random)


def directory(random: Random) -> None:
    """A damaged partition through one command."""
    scratch = Path(tempfile.mkdtemp(prefix="kcli-sanitize-"))
    try:
        partition = copied(random.choice(partitions()), scratch / random.choice(("t-0", "t-0", "__consumer_offsets-0")))
        if random.random() < 0.5:  # another segment follows, so that the existing ones may be cleaned
            base = max((int(path.stem) for path in segments(partition)), default=0) + random.choice((1, 50, 10**6))
            (partition / f"{min(base, 2**63 - 1):020}.log").touch()
        disordered(partition, random)
        directories.run(random.choice(list(directories.COMMANDS)), partition)
    finally:
        shutil.rmtree(scratch)


def run_whole(n: int) -> bool:
    """Run the n-th of the undamaged inputs: every window through every step, every partition through every command.
    Returns False where there is none."""
    random = Random(n)
    if n < len(windows()):
        logs.run(windows()[n], random, steps=len(logs.STEPS))
        return True
    n -= len(windows())
    if n >= len(partitions()):
        return False
    for command in directories.COMMANDS:
        with tempfile.TemporaryDirectory(prefix="kcli-sanitize-") as scratch:
            directories.run(command, copied(partitions()[n], Path(scratch) / "t-0"))
    return True
