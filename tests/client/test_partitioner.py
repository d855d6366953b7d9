"""Partitions by key equal Java's; without keys records are spread as Java's producer does."""

import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.client.partitioner import Partitioner, Partitioning
from tests.client.clusters import KAFKA, Cluster
from tests.interop import kit

# Written by Java: a key in hexadecimal (the first is empty) and Utils.toPositive(Utils.murmur2(key)).
VECTORS = [line.split(" ") for line in Path(__file__).with_name("java-murmur2.txt").read_text().splitlines()]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 50, 1000, 2**31 - 1])
def test_murmur2_is_javas(count: int) -> None:
    partitioner = Partitioner(Partitioning.MURMUR2, count)
    for key, positive in VECTORS:
        assert partitioner.partition(bytes.fromhex(key), 1) == int(positive) % count, key
    assert len(VECTORS) > 40


@pytest.mark.parametrize("cluster", [KAFKA], indirect=True)
def test_keys_go_where_javas_producer_sends_them(cluster: Cluster) -> None:
    keys = [f"key-{number}" for number in range(200)] + ["", "日本語", "k" * 300]
    lines = "".join(f"{key}:x\n" for key in keys)
    java, ours = cluster.topic("--partitions", "7"), cluster.topic("--partitions", "7")
    options = ["--property", "parse.key=true", "--property", "key.separator=:"]
    produced = [str(kit.SCRIPT), "producer", "--bootstrap-server", cluster.address, "--topic", java, *options]
    subprocess.run(produced, input=lines.encode(), check=True, capture_output=True, timeout=60)
    assert cluster.run("produce", ours, "-K", ":", text=lines).status == 0
    placed = [
        sorted(cluster.run("consume", topic, "-e", "-f", "%p %k\\n").stdout.splitlines()) for topic in (java, ours)
    ]
    assert placed[0] == placed[1]
    assert len(placed[0]) == len(keys)


def test_round_robin() -> None:
    partitioner = Partitioner(Partitioning.ROUND_ROBIN, 3, pick=lambda _: 1)
    assert [partitioner.partition(b"key", 10) for _ in range(7)] == [1, 2, 0, 1, 2, 0, 1]


@given(st.integers(1, 9), st.lists(st.integers(0, 300), max_size=60), st.randoms())
def test_sticky_stays_for_a_batch(count: int, sizes: list[int], chance: random.Random) -> None:
    partitioner = Partitioner(Partitioning.STICKY, count, sticky_bytes=500, pick=chance.randrange)
    last, sent = None, 0
    for size in sizes:
        chosen = partitioner.partition(b"same key", size)
        assert 0 <= chosen < count
        if chosen == last or last is None:
            assert sent < 500 or count == 1 or last is None
        else:
            assert sent >= 500
            sent = 0
        last, sent = chosen, sent + size


def test_without_a_key_murmur2_is_sticky() -> None:
    partitioner = Partitioner(Partitioning.MURMUR2, 5, sticky_bytes=20, pick=lambda _: 0)
    assert [partitioner.partition(None, 10) for _ in range(5)] == [0, 0, 1, 1, 2]
