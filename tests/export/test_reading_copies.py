"""Several copies of a partition: each offset is read once, from the best copy; and files that change during a read."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from kcli.errors import UnreadableInput
from kcli.export.corruption import CorruptLog
from kcli.export.options import SourceOptions
from kcli.export.reading import read
from kcli.export.splits import DataLoss, Split, plan
from tests.conftest import GOLDEN
from tests.export.tables import load

PARTITION = GOLDEN / "codecs/data/java-none-0"
ALL = list(range(298))


@pytest.fixture
def brokers(tmp_path: Path) -> list[Path]:
    found = [tmp_path / f"broker-{i}" for i in (1, 2)]
    for broker in found:
        shutil.copytree(PARTITION, broker / PARTITION.name)
    return found


def segments(broker: Path) -> list[Path]:
    return sorted((broker / PARTITION.name).glob("*.log"))


def flip(segment: Path, position: int) -> None:
    data = bytearray(segment.read_bytes())
    data[position] ^= 1
    segment.write_bytes(data)


def offsets(*paths: Path, **options: str) -> list[int]:
    return sorted(load(*paths, columns="offset", **options)["offset"].to_pylist())


def test_copies_give_each_offset_once(brokers: list[Path]) -> None:
    assert offsets(*brokers) == ALL
    assert offsets(brokers[0].parent) == ALL


def test_a_copy_has_what_another_deleted_or_does_not_have_yet(brokers: list[Path]) -> None:
    segments(brokers[0])[0].unlink()
    segments(brokers[1])[-1].unlink()
    first = int(segments(brokers[0])[0].stem)
    assert offsets(brokers[0]) == ALL[first:]
    assert offsets(*brokers) == ALL


def test_a_copy_has_what_is_damaged_in_another(brokers: list[Path]) -> None:
    flip(segments(brokers[0])[0], 1000)
    flip(segments(brokers[1])[1], 1000)
    flip(segments(brokers[0])[2], 8)  # the length of the first batch
    for broker in brokers:
        assert len(offsets(broker, onCorruption="skip")) < len(ALL)
        with pytest.raises(CorruptLog):
            offsets(broker)
    assert offsets(*brokers) == offsets(*brokers, onCorruption="skip") == ALL


def test_the_report_says_which_copy_stood_in(brokers: list[Path], tmp_path: Path) -> None:
    from pyarrow import parquet

    flip(segments(brokers[0])[0], 1000)
    report = tmp_path / "report"
    assert offsets(*brokers, onCorruption="report", corruptionReport=str(report)) == ALL
    [row] = parquet.read_table(report).to_pylist()
    assert row["kind"] == "BadChecksum"
    assert row["readFrom"] == str(brokers[1] / PARTITION.name)


def test_what_no_copy_has_is_missed(brokers: list[Path]) -> None:
    for broker in brokers:
        flip(segments(broker)[0], 1000)
    with pytest.raises(CorruptLog, match="CRC"):
        offsets(*brokers)
    assert offsets(*brokers, onCorruption="skip") == offsets(brokers[0], onCorruption="skip")


def test_segments_that_are_replaced_or_deleted_meanwhile(brokers: list[Path]) -> None:
    options = SourceOptions.parse({"path": str(brokers[0]), "columns": "offset", "minPartitions": "50"})
    splits = plan(options)
    first, second, *_ = segments(brokers[0])
    # The cleaner replaces two segments by one, under the name of the first.
    joined = first.with_suffix(".log.swap")
    joined.write_bytes(first.read_bytes() + second.read_bytes())
    for segment in (first, second):
        for kind in ("log", "index", "timeindex"):
            segment.with_suffix(f".{kind}").unlink()
    joined.rename(first)
    found = [offset for split in splits for batch in read(split, ("offset",)) for offset in batch["offset"].to_pylist()]
    assert found == ALL

    shutil.rmtree(first.parent)
    with pytest.raises(UnreadableInput, match="No such file"):
        list(read(splits[0], ("offset",)))


@pytest.mark.parametrize("copies", [1, 2])
def test_what_is_deleted_meanwhile_is_read_from_a_copy_or_told(brokers: list[Path], copies: int) -> None:
    paths = json.dumps([str(each) for each in brokers[:copies]])
    told, tolerant = (
        plan(SourceOptions.parse({"paths": paths, "columns": "offset", "failOnDataLoss": fail}))
        for fail in ("true", "false")
    )
    planned = {split.segment.split("/java-none-0/")[0] for split in told}
    [used] = [broker for broker in brokers if str(broker) in planned]
    segments(used)[0].unlink()

    def found(splits: list[Split]) -> list[int]:
        return [at for split in splits for batch in read(split, ("offset",)) for at in batch["offset"].to_pylist()]

    if copies == 2:
        assert found(told) == found(tolerant) == ALL
        return
    with pytest.raises(DataLoss, match="offset 0 was deleted meanwhile"):
        found(told)
    assert found(tolerant) == ALL[int(segments(used)[0].stem) :]
