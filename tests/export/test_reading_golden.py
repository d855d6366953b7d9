"""The data source reads what a Kafka consumer read: every offset, timestamp, key, value and header."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import GOLDEN, Json, truth
from tests.export.tables import TRUTH_COLUMNS, as_truth, load

ISOLATIONS = ("read_uncommitted", "read_committed")


def told(*files: Path) -> list[Json]:
    rows = [row for file in files for row in truth(str(file.relative_to(GOLDEN)))]
    rows = [
        {"leader_epoch": -1} | {name: each for name, each in row.items() if each is not None or name != "leader_epoch"}
        for row in rows
    ]
    return sorted(rows, key=lambda row: (row["topic"], row["partition"], row["offset"]))


def topics(files: list[Path]) -> str:
    return ",".join(file.name.partition(".")[0] for file in files)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("codecs/data", "codecs/expected/truth"),
        ("legacy/data", "legacy/expected/truth"),
        *((f"compact/{each}", f"compact/expected/truth/{each}") for each in ("before", "after", "before2", "after2")),
    ],
)
def test_every_record_is_as_a_consumer_read_it(data: str, expected: str) -> None:
    files = sorted((GOLDEN / expected).glob("*.jsonl.gz"))
    wanted = told(*files)
    assert as_truth(load(GOLDEN / data, columns=TRUTH_COLUMNS, subscribe=topics(files))) == wanted
    committed = as_truth(
        load(GOLDEN / data, columns=TRUTH_COLUMNS, subscribe=topics(files), isolation="read_committed")
    )
    with_transactions = {row["topic"] for row in wanted if "txn" in row["topic"]}
    assert [row for row in committed if row["topic"] not in with_transactions] == [
        row for row in wanted if row["topic"] not in with_transactions
    ]
    offsets = {(row["topic"], row["offset"]) for row in wanted}
    assert {(row["topic"], row["offset"]) for row in committed} <= offsets


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("data", ["data", "data-tv0"])
def test_transactions(data: str, isolation: str) -> None:
    files = sorted((GOLDEN / "txn/expected" / data).glob(f"*.{isolation}.jsonl.gz"))
    found = load(GOLDEN / "txn" / data, columns=TRUTH_COLUMNS, subscribe=topics(files), isolation=isolation)
    assert as_truth(found) == told(*files)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_tiered_segments_go_before_local_ones(isolation: str) -> None:
    suffix = ".read_committed" if isolation == "read_committed" else ""
    files = [GOLDEN / f"tiered/expected/truth/{topic}{suffix}.jsonl.gz" for topic in ("r-keep", "r-short")]
    sources = GOLDEN / "tiered/data", GOLDEN / "tiered/remote/kafka-tiered-storage"
    found = load(*sources, columns=TRUTH_COLUMNS, subscribe=topics(files), isolation=isolation)
    assert as_truth(found) == told(*files)
