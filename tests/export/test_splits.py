"""Splits together have every batch once, wherever they are cut, and no batch outside of the wanted offsets."""

from __future__ import annotations

import json
import pickle
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.errors import UsageError
from kcli.export.options import LATEST, Bound, Isolation, Narrowed, SourceOptions
from kcli.export.splits import DataLoss, Split, partitions, plan, ranges
from kcli.export.tiered import discover
from kcli.protocol.topic_partition import TopicPartition
from tests.conftest import GOLDEN
from tests.export.tables import load

CODECS = GOLDEN / "codecs/data"


@pytest.mark.parametrize("options", [{"minPartitions": "100000"}, {"maxRecordsPerPartition": "1"}])
def test_every_batch_is_in_one_split(options: dict[str, str]) -> None:
    whole = plan(SourceOptions.parse({"path": str(CODECS)}))
    splits = plan(SourceOptions.parse({"path": str(CODECS), **options}))
    assert len(splits) > 2 * len(whole)
    assert pickle.loads(pickle.dumps(splits)) == splits
    assert sum(split.size for split in splits) == sum(split.size for split in whole)
    assert load(CODECS, columns="topic,partition,offset", **options) == load(CODECS, columns="topic,partition,offset")


@pytest.mark.parametrize("start", [0, 1, 37, 100, 149, 150, 297])
def test_ranges(start: int) -> None:
    for end in (start + 1, start + 40, 298):
        found = load(
            CODECS,
            subscribe="java-none",
            columns="partition,offset",
            startingOffsets=f'{{"java-none":{{"0":{start},"1":-1}}}}',
            endingOffsets=f'{{"java-none":{{"0":{end},"1":-1}}}}',
        )
        assert found["offset"].to_pylist() == list(range(start, min(end, 298)))


@pytest.mark.parametrize(
    ("offsets", "reason"),
    [
        ({"java-none": {"0": 1, "1": 1, "2": 1}}, ": the query reads no java-none-2 in "),
        ({"java-none": {"0": 1, "1": 1}, "java-gzip": {"0": 1}}, ": the query reads no java-gzip-0 in "),
        ({"java-none": {"0": 1}}, " lacks java-none-1, which the query reads too"),
    ],
)
@pytest.mark.parametrize(
    "bound", ["startingOffsets", "endingOffsets", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp"]
)
def test_offsets_of_other_partitions(bound: str, offsets: dict[str, dict[str, int]], reason: str) -> None:
    with pytest.raises(UsageError, match=f"{bound}{reason}"):
        load(CODECS, subscribe="java-none", **{bound: json.dumps(offsets)})


def test_tasks_without_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.export.splits.TASKS_MAX", 30)
    with pytest.raises(UsageError, match="maxRecordsPerPartition=1 makes more than 30 tasks"):
        load(CODECS, maxRecordsPerPartition="1")
    assert len(load(CODECS, subscribe="java-none", columns="offset", maxRecordsPerPartition="100")) > 0


@pytest.mark.parametrize("partition", ["t-txn-0", "t-mix-0"])
def test_transactions_that_end_behind_what_is_selected(partition: str) -> None:
    """The last stable offset is that of the log, not that of the offsets that a filter or the ending offsets select."""
    options = SourceOptions((str(GOLDEN / "txn/data" / partition),), isolation=Isolation.READ_COMMITTED)
    replicas = [*partitions(options, discover(options))]
    (whole,) = ranges(options, replicas)
    assert whole.end > 10
    for end in range(1, whole.end + 1):
        key = TopicPartition(whole.files.topic, whole.files.partition)
        for selected in (
            replace(options, narrowed=Narrowed(to_offset=end)),
            replace(options, end=Bound(LATEST, {key: end})),
        ):
            (each,) = ranges(selected, replicas)
            assert (each.start, each.end) == (whole.start, end)


def test_only_what_is_needed_is_planned() -> None:
    def size(**options: str) -> int:
        return sum(split.size for split in plan(SourceOptions.parse({"path": str(CODECS / "java-none-0"), **options})))

    assert size(startingOffsets='{"java-none":{"0":290}}') < size() / 4
    assert size(endingOffsets='{"java-none":{"0":10}}') < size() / 4


def test_times() -> None:
    def offsets(**options: str) -> list[int]:
        found: list[int] = load(CODECS / "java-none-0", columns="offset", **options)["offset"].to_pylist()
        return found

    assert offsets(startingTimestamp="1700000918131")[0] == 31
    assert offsets(startingTimestamp="1700000918132", endingTimestamp="1700001408926") == list(range(32, 46))
    with pytest.raises(UsageError, match="no record at or after"):
        offsets(startingTimestamp="9700000000000")
    assert offsets(startingTimestamp="9700000000000", startingOffsetsByTimestampStrategy="latest") == []
    assert len(offsets(endingTimestamp="9700000000000")) == 298


def test_the_high_watermark_bounds_and_the_log_start_is_where_it_begins(tmp_path: Path) -> None:
    shutil.copytree(CODECS / "mixed-0", tmp_path / "mixed-0")
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nmixed 0 17\n")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nmixed 0 250\n")
    assert load(tmp_path, columns="offset")["offset"].to_pylist() == list(range(17, 250))
    assert load(tmp_path, columns="offset", beyondHighWatermark="true")["offset"].to_pylist() == list(range(17, 298))
    with pytest.raises(DataLoss, match="offset 5 is gone, the log starts at 17"):
        load(tmp_path, startingOffsets='{"mixed":{"0":5}}')
    lenient = load(tmp_path, columns="offset", startingOffsets='{"mixed":{"0":5}}', failOnDataLoss="false")
    assert lenient["offset"].to_pylist() == list(range(17, 250))


def test_what_comes_behind_the_high_watermark_is_no_damage(tmp_path: Path) -> None:
    shutil.copytree(CODECS / "mixed-0", tmp_path / "mixed-0")
    last = max((tmp_path / "mixed-0").glob("*.log"))
    with last.open("ab") as file:
        file.write(b"torn")
    (tmp_path / "replication-offset-checkpoint").write_text("0\n1\nmixed 0 298\n")
    assert len(load(tmp_path, columns="offset")) == 298


def test_names_that_are_not_there(tmp_path: Path) -> None:
    """A topic that does not exist is an error, as in Spark's Kafka source; a pattern without a match is none, nor is a
    topic without records."""

    def planned(**options: str) -> list[Split]:
        return plan(SourceOptions.parse({"path": str(CODECS), **options}))

    with pytest.raises(UsageError, match=r"no topic 'java-zst' in .*/codecs/data; did you mean 'java-zstd'\? It has "):
        planned(subscribe="mixed,java-zst")
    with pytest.raises(UsageError, match=r"no topic 'zzz' in .*/codecs/data, which has .*, java-gzip, .* and 6 more$"):
        planned(assign='{"mixed": [0], "zzz": [0]}')
    with pytest.raises(UsageError, match=r"no partition 2 of 'java-none' in .*, which has 0, 1$"):
        planned(assign='{"java-none": [1, 2]}')
    assert planned(subscribePattern="zzz") == []
    (tmp_path / "empty-0").mkdir()
    assert planned(path=str(tmp_path), subscribe="empty") == []
    with pytest.raises(UsageError, match=r"no topic 'mixed' in .*, which has empty$"):
        planned(path=str(tmp_path), subscribe="mixed")


def test_an_index_that_leads_behind_the_last_offset_there_can_be(tmp_path: Path) -> None:
    """In a log named near 2^63 the entries of an index are no offsets: the index is ignored, and the log is read from
    its begin."""
    source = CODECS / "java-none-0"
    (log,) = sorted(source.glob("*.log"))[:1]
    partition = tmp_path / "t-0"
    partition.mkdir()
    for suffix in (".log", ".index"):
        shutil.copyfile(log.with_suffix(suffix), partition / f"{2**63 - 1:020}{suffix}")
    (partition / f"{2**63 - 1:020}.index").write_bytes((2**31 - 1).to_bytes(4) + (1).to_bytes(4))
    splits = plan(SourceOptions.parse({"path": str(partition), "minPartitions": "50"}))
    assert sum(split.size for split in splits) <= log.stat().st_size
