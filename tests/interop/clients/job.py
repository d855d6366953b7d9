"""The job of every client, and the report that each client gives on a real Kafka. See README.md beside this file."""

from __future__ import annotations

import random
from base64 import b64encode
from typing import Any

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
BEGIN_MS = 1_700_000_000_000
STEP_MS = 10
PARTITIONS = 2
PER_PARTITION = 24
LATEST = 17  # the record of each partition with the latest timestamp
AT = 11  # the record that a look-up by time finds
DELETE_BEFORE = 7
LARGE_BYTES = 3 << 20
DOOMED = {"cleanup.policy": "compact", "max.message.bytes": "54321", "retention.ms": "86400000"}

Json = dict[str, Any]
NO_HEADERS: list[tuple[str, bytes | None]] = []
HEADERS: list[list[tuple[str, bytes | None]]] = [
    NO_HEADERS,
    [("one", b"1")],
    [("empty", b""), ("twice", b"first"), ("twice", b"second"), ("größe", b"\xff\x00")],
    [("null", None)],
]


def _text(data: bytes | None) -> str | None:
    return None if data is None else b64encode(data).decode()


def records(*, null_headers: bool) -> list[Json]:
    """Records of both partitions: null, empty, small, large, compressible and random keys and values."""
    chance = random.Random(5)
    # Never both null: kafka-python sends no such record.
    values = [b"", b"small", b"again and " * 700, chance.randbytes(2000), None, "Äpfel\0".encode()]
    keys = [b"key", None, b"", b"\x00\xff" * 20]
    found = []
    for i in range(PER_PARTITION):
        late = 1_000_000 if i == LATEST else 0
        for partition in range(PARTITIONS):
            headers = HEADERS[i % len(HEADERS)]
            found.append(
                {
                    "partition": partition,
                    "timestamp_ms": BEGIN_MS + i * STEP_MS + late,
                    "key": _text(keys[(i + partition) % len(keys)]),
                    "value": _text(values[(i + partition) % len(values)]),
                    "headers": [(name, _text(value)) for name, value in headers if null_headers or value is not None],
                }
            )
    return found


def job(codecs: tuple[str, ...], *, idempotent: bool = True, null_headers: bool = True) -> Json:
    """Return the job. Its records are old, so brokers need log.retention.ms=-1."""
    runs: list[Json] = [
        {"topic": f"idempotent-{codec}" if exactly_once else codec, "codec": codec, "idempotent": exactly_once}
        for exactly_once in ((False, True) if idempotent else (False,))
        for codec in codecs
    ]
    topics: Json = {run["topic"]: {"partitions": PARTITIONS, "configs": {}} for run in runs}
    topics["tail"] = {"partitions": 1, "configs": {}}
    topics["large"] = {"partitions": 1, "configs": {"max.message.bytes": str(2 * LARGE_BYTES)}}
    topics["doomed"] = {"partitions": 1, "configs": DOOMED}
    auto = {"topic": "auto", "codec": "none", "idempotent": False, "partitions": 1}
    all_runs = [run | {"partitions": PARTITIONS} for run in runs] + [auto]
    return {
        "topics": topics,
        "runs": [run | {"committed": bool(i % 2)} for i, run in enumerate(all_runs)],
        "records": records(null_headers=null_headers),
        "at_ms": BEGIN_MS + AT * STEP_MS - 1,
        "beyond_ms": BEGIN_MS + (1 << 30),
        "large_bytes": LARGE_BYTES,
        "delete_before": DELETE_BEFORE,
    }


def report(job: Json) -> Json:
    """Return the expected report, without the client's name, times, and what depends on the node."""
    acked, read = {}, {}
    for run in job["runs"]:
        sent = [record for record in job["records"] if record["partition"] < run["partitions"]]
        ends = [0] * run["partitions"]
        written = []
        for record in sent:
            place = record["partition"]
            headers = [list(header) for header in record["headers"]]
            written.append([place, ends[place], record["timestamp_ms"], record["key"], record["value"], headers])
            ends[place] += 1
        acked[run["topic"]] = [offset for _, offset, *_ in written]
        read[run["topic"]] = sorted(written, key=lambda each: each[:2])
    return {
        "created_again": 36,  # TOPIC_ALREADY_EXISTS
        "acked": acked,
        "read": read,
        "offsets": {"earliest": 0, "latest": PER_PARTITION, "at": AT, "beyond": None},
        "max_timestamp": LATEST,
        "large": LARGE_BYTES,
        "too_large": 10,  # MESSAGE_TOO_LARGE
        "low_watermark": DELETE_BEFORE,
        "first_left": DELETE_BEFORE,
        "deleted_beyond": 1,  # OFFSET_OUT_OF_RANGE
        "configs": DOOMED,
        "altered": "4711",
        "partitions": 3,
        "topics": sorted([*(set(job["topics"]) - {"doomed"}), "auto"]),
        "deleted_again": 3,  # UNKNOWN_TOPIC_OR_PARTITION
        "producers": 1,
        "quota": 1048576,
    }
