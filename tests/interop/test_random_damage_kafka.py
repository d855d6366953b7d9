"""What `kcli recover` predicts for randomly damaged partitions is what real Kafka's start does: the log start offset
and the log end offset of each. Kafka also starts on what --salvage makes of them, with the offsets that salvage says.

Every partition of a killed broker's directory is damaged, most of them twice, as disks, copies and operators do it. A
partition with which Kafka would not start keeps this damage only until that is predicted.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from kcli.log.recovery.plan import PartitionPlan
from kcli.log.recovery.run import Recovery
from tests.conftest import GOLDEN, is_soak
from tests.damage import frames
from tests.interop.kit import kafka
from tests.interop.test_recover_kafka import now_ms
from tests.log.recovery.test_recover_golden import topic_config

NODE = f"kcli-damaged-{os.getpid()}"
CRASHED = GOLDEN / "unclean/crashed"
ROUNDS = range(1000, 1060 if is_soak() else 1001)
LOADED = re.compile(r"Completed load of Log\(dir=\S*/([^/,]+),.*?logStartOffset=(\d+), logEndOffset=(\d+)\)")
SECTOR, PAGE, HEADER = 512, 4096, 61
Damage = Callable[[Random, Path], str | None]


def flip(random: Random, path: Path, begin: int = 0, end: int | None = None) -> str | None:
    data = bytearray(path.read_bytes())
    if len(data) <= begin:
        return None
    at, bit = random.randrange(begin, min(len(data), end or len(data))), random.randrange(8)
    data[at] ^= 1 << bit
    path.write_bytes(data)
    return f"bit {bit} of byte {at} flipped"


def flip_in_header(random: Random, path: Path) -> str | None:
    if path.suffix != ".log" or path.stat().st_size < HEADER:
        return None
    begin, _ = random.choice(frames(path.read_bytes()))
    return flip(random, path, begin, begin + HEADER)


def zeros(random: Random, path: Path) -> str | None:
    size = random.choice((SECTOR, PAGE))
    data = bytearray(path.read_bytes())
    if len(data) < size:
        return None
    at = random.randrange(len(data) // size) * size
    data[at : at + size] = bytes(size)
    path.write_bytes(data)
    return f"{size} bytes of zeros at byte {at}"


def page(random: Random, path: Path) -> str | None:
    data = bytearray(path.read_bytes())
    if len(data) < 3 * SECTOR:
        return None
    to, source = (SECTOR * each for each in random.sample(range(len(data) // SECTOR), 2))
    data[to : to + SECTOR] = data[source : source + SECTOR]
    path.write_bytes(data)
    return f"sector at byte {source} written at byte {to}, too"


def shift(random: Random, path: Path) -> str | None:
    data = bytearray(path.read_bytes())
    if len(data) < 3 * SECTOR:
        return None
    at, dropped = random.randrange(len(data) // SECTOR) * SECTOR, random.random() < 0.5
    data[at : at + SECTOR] = b"" if dropped else data[at : at + SECTOR] * 2
    path.write_bytes(data)
    return f"sector at byte {at} {'dropped' if dropped else 'doubled'}"


def cut(random: Random, path: Path) -> str | None:
    size = random.randrange(max(1, path.stat().st_size))
    os.truncate(path, size)
    return f"cut to {size} bytes"


def append(random: Random, path: Path) -> str | None:
    more = random.choice((bytes(PAGE), random.randbytes(300), path.read_bytes()[:PAGE]))
    with path.open("ab") as file:
        file.write(more)
    return f"{len(more)} bytes appended"


def remove(_: Random, path: Path) -> str | None:
    path.unlink()
    return "removed"


def swap(random: Random, path: Path) -> str | None:
    others = sorted(each for each in path.parent.glob(f"*{path.suffix}") if each != path)
    if not others:
        return None
    other = random.choice(others)
    mine, its = path.read_bytes(), other.read_bytes()
    path.write_bytes(its)
    other.write_bytes(mine)
    return f"exchanged with {other.name}"


def rename(random: Random, path: Path) -> str | None:
    base = path.name[:20]
    if not base.isdigit():
        return None
    offset = int(base) + random.choice((-7, -1, 5, 1000))
    other = path.with_name(f"{max(0, offset):020}{path.name[20:]}")
    if other.exists():
        return None
    copies = random.random() < 0.3
    shutil.copyfile(path, other)
    if not copies:
        path.unlink()
    return f"{'copied' if copies else 'renamed'} to {other.name}"


def mark(random: Random, path: Path) -> str | None:
    suffix = random.choice((".deleted", ".swap", ".cleaned"))
    path.rename(path.with_name(path.name + suffix))
    return f"renamed to *{suffix}"


DAMAGES: tuple[Damage, ...] = (
    flip, flip, flip_in_header, flip_in_header, zeros, page, shift, cut, append, remove, swap, rename, mark,
)  # fmt: skip


def damage(random: Random, partition: Path) -> str:
    """Damage a file of a partition, mostly a .log file; return what was done."""
    done = None
    while done is None:
        files = sorted(each for each in partition.iterdir() if each.name != "partition.metadata")
        path = random.choices(files, [4 if each.suffix == ".log" else 1 for each in files])[0]
        done = random.choice(DAMAGES)(random, path)
    return f"{path.name} {done}"


def plans(directory: Path) -> dict[str, PartitionPlan]:
    return {each.name: each for each in Recovery(directory, now_ms(), config=topic_config).plans()}


def loaded(directory: Path, metadata: Path) -> dict[str, tuple[int, int]]:
    """Start Kafka on a copy. Return the log start offset and the log end offset of each log as Kafka loads it, before
    the coordinators append to any."""
    kafka("open", str(directory), NODE, f"metadata.log.dir={metadata}")
    try:
        kafka("stop", NODE)
        log = kafka("log", NODE)
    finally:
        kafka("rm", NODE)
    return {name: (int(start), int(end)) for name, start, end in LOADED.findall(log)}


def offsets(planned: dict[str, PartitionPlan]) -> dict[str, tuple[int, int]]:
    """The log start offset and the log end offset of each partition, as predicted."""
    found = {}
    for name, each in planned.items():
        assert each.offsets is not None, (name, each.refused)
        found[name] = each.offsets.log_start_offset, each.offsets.log_end_offset
    return found


@pytest.mark.parametrize("seed", ROUNDS)
def test_kafka_does_what_is_predicted(kafka_jars: Path, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    directory = tmp_path / "logs"
    shutil.copytree(CRASHED, directory)
    with tarfile.open(GOLDEN / "unclean/metadata-log-dir.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    metadata = tmp_path / "metadata"
    done = {
        partition: [damage(random, partition) for _ in range(random.choice((1, 2, 2)))]
        for partition in sorted(each for each in directory.iterdir() if each.is_dir())
    }
    planned = plans(directory)
    for name in [name for name, each in planned.items() if each.refused is not None]:
        shutil.rmtree(directory / name)
        shutil.copytree(CRASHED / name, directory / name)
    predicted = offsets(plans(directory))
    found = loaded(directory, metadata)
    assert {name: (each, done[directory / name]) for name, each in found.items() if each != predicted[name]} == {}
    assert found.keys() == predicted.keys()
    recovery = Recovery(directory, now_ms(), salvage=True, config=topic_config)
    salvaged = offsets({each.name: each for each in recovery.write_to(tmp_path / "salvaged")})
    found = loaded(tmp_path / "salvaged", metadata)
    assert {name: (each, done[directory / name]) for name, each in found.items() if each != salvaged[name]} == {}
    assert found.keys() == salvaged.keys()
