"""What every test shares: the golden data (see golden/README.md) and real Kafka, where the machine has it."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

GOLDEN = Path(__file__).parent / "golden"
SAMPLES = Path(__file__).parents[1] / "samples"

Json = dict[str, Any]


def read_jsonl(path: Path) -> Iterator[Json]:
    """The objects of a .jsonl or .jsonl.gz file, one a line."""
    data = path.read_bytes()
    for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines():
        yield json.loads(line)


def dump_runs(golden_set: str) -> Iterator[Json]:
    """Every saved run of kafka-dump-log of one golden set ("codecs"): dicts with `file` (relative to the set), `flags`,
    `exit`, `stdout` and, where it was not empty, `stderr`."""
    expected = GOLDEN / golden_set / "expected"
    for path in [*sorted((expected / "dump").rglob("*.jsonl.gz")), *expected.glob("dump.jsonl.gz")]:
        yield from read_jsonl(path)


def truth(path: str) -> list[Json]:
    """The records of one truth file, named below golden ("codecs/expected/truth/mixed.jsonl.gz"), as a consumer read them:
    topic, partition, offset, timestamp, timestamp_type, key and value (base64 or null), headers, leader_epoch."""
    return list(read_jsonl(GOLDEN / path))
