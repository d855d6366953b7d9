"""`--format jsonl`, compared record by record with the truth files, which a Java consumer read from Kafka."""

import json
from pathlib import Path

import pytest

from tests.conftest import GOLDEN, Json, truth
from tests.inspector.jsonl import as_truth, by_partition, committed, dump_directory, start_offsets

# Directories of one broker each, with the folder of their truth files.
DIRECTORIES = {
    "codecs/data": "codecs/expected/truth",
    "compact/before": "compact/expected/truth/before",
    "compact/after": "compact/expected/truth/after",
    "compact/before2": "compact/expected/truth/before2",
    "compact/after2": "compact/expected/truth/after2",
    "groups/data": "groups/expected/truth",
    "kraft/broker-1": "kraft/expected/truth",
    "kraft/broker-2": "kraft/expected/truth",
    "kraft/broker-3": "kraft/expected/truth",
    "legacy/data": "legacy/expected/truth",
    "txn/data": "txn/expected/data",
    "txn/data-tv0": "txn/expected/data-tv0",
    "tiered/data": "tiered/expected/truth",
    "unclean/recovered": "unclean/expected/truth",
}
REMOTE = {"tiered/data": "tiered/remote/kafka-tiered-storage"}


def expected_records(path: Path) -> dict[int, list[Json]]:
    """Return the records of a truth file, by partition."""
    found: dict[int, list[Json]] = {}
    for record in truth(path.relative_to(GOLDEN).as_posix()):
        found.setdefault(record["partition"], []).append(record)
    return found


def last_stable_offset(folder: Path, topic: str, partition: int) -> int:
    """Return the offset up to which Kafka gave records to a read_committed consumer."""
    path = next(each for each in (folder / "offsets.json", folder.parent / "offsets.json") if each.exists())
    offsets = json.loads(path.read_text())[topic]
    found: int = (offsets.get("last_stable_offset") or offsets["latest_read_committed"])[partition]
    return found


@pytest.mark.parametrize("directory", DIRECTORIES)
def test_jsonl_equals_truth(directory: str) -> None:
    folder = GOLDEN / DIRECTORIES[directory]
    found = by_partition(dump_directory(*(GOLDEN / path for path in (directory, REMOTE.get(directory)) if path)))
    starts = dict(start_offsets(GOLDEN / directory))
    compared = 0
    for path in sorted(folder.glob("*.jsonl.gz")):
        topic, _, isolation = path.name.removesuffix(".jsonl.gz").partition(".")
        if topic == "produced":
            continue
        for partition, expected in expected_records(path).items():
            ours = found[topic, partition]
            if isolation == "read_committed":
                ours = committed(ours, last_stable_offset(folder, topic, partition))
            start = starts.get((topic, partition), 0)
            seen = [as_truth(each) for each in ours if not each["is_control"] and each["offset"] >= start]
            assert [{name: each[name] for name in expected[0]} for each in seen] == expected, (path.name, partition)
            compared += len(expected)
    print(f"{directory}: {compared:,} records of --format jsonl equal the truth")
    assert compared


@pytest.mark.parametrize(
    "topic",
    [
        "groups/data/__consumer_offsets-1",
        "groups/data/__share_group_state-0",
        "kraft/controller-100/__cluster_metadata-0",
        "tiered/data/__remote_log_metadata-0",
        "txn/data/__transaction_state-0",
    ],
)
def test_internal_topics_carry_the_decoded_record(topic: str) -> None:
    records = dump_directory(GOLDEN / topic)
    assert records
    for record in records:
        assert "error" not in record["decoded"], record
        assert ("control_type" in record["decoded"]) == record["is_control"]


def test_a_record_that_does_not_decode_says_why(tmp_path: Path) -> None:
    log = GOLDEN / "codecs/data/java-none-0/00000000000000000000.log"
    directory = tmp_path / "__consumer_offsets-0"
    directory.mkdir()
    (directory / log.name).symlink_to(log)
    records = dump_directory(directory)
    assert records
    assert all(record["decoded"].keys() == {"error"} for record in records)
