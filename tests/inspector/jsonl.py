"""kcli's JSON lines as the records that a Kafka consumer reads, for comparison with the truth files."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.conftest import Json

ABORT = 0


def dump_directory(*paths: Path) -> list[Json]:
    """Return every record of every log in these directories, as `kcli dump-segment --format jsonl` prints them."""
    command = [sys.executable, "-m", "kcli", "dump-segment", "--format", "jsonl", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, check=True)
    assert not done.stderr
    return [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]


def field_bytes(field: str | dict[str, str] | None) -> bytes | None:
    """Return the bytes of a JSON line's field: null, text, or base64 in an object."""
    if isinstance(field, dict):
        assert list(field) == ["base64"]
        return base64.b64decode(field["base64"], validate=True)
    return None if field is None else field.encode()


def as_truth(record: Json) -> Json:
    """Return a JSON line in the form of the truth files (some of which have no leader_epoch)."""

    def encoded(field: str | dict[str, str] | None) -> str | None:
        raw = field_bytes(field)
        return None if raw is None else base64.b64encode(raw).decode()

    same = ("topic", "partition", "offset", "timestamp", "timestamp_type", "leader_epoch")
    return {name: record[name] for name in same} | {
        "key": encoded(record["key"]),
        "value": encoded(record["value"]),
        "headers": [[name, encoded(value)] for name, value in record["headers"]],
    }


def by_partition(records: Iterable[Json]) -> dict[tuple[str, int], list[Json]]:
    """Return the records of each partition by offset; a record that is there twice (local and remote) once."""
    found: dict[tuple[str, int], dict[int, Json]] = {}
    for record in records:
        here = found.setdefault((record["topic"], record["partition"]), {})
        before = here.setdefault(record["offset"], record)
        assert before is record or as_truth(before) == as_truth(record)
    return {place: [here[offset] for offset in sorted(here)] for place, here in found.items()}


def committed(records: list[Json], last_stable_offset: int) -> list[Json]:
    """Return what a read_committed consumer sees of a partition: no records of aborted or open transactions."""
    aborted: set[int] = set()
    began: dict[int, list[int]] = {}
    for record in records:
        if record["is_control"]:
            key = field_bytes(record["key"])
            assert key is not None
            offsets = began.pop(record["producer_id"], [])
            if int.from_bytes(key[2:4]) == ABORT:
                aborted.update(offsets)
        elif record["is_transactional"]:
            began.setdefault(record["producer_id"], []).append(record["offset"])
    return [each for each in records if each["offset"] not in aborted and each["offset"] < last_stable_offset]


def start_offsets(directory: Path) -> Iterator[tuple[tuple[str, int], int]]:
    """Return the log start offsets of log-start-offset-checkpoint, by partition."""
    for line in (directory / "log-start-offset-checkpoint").read_text().splitlines()[2:]:
        topic, partition, offset = line.split()
        yield (topic, int(partition)), int(offset)
