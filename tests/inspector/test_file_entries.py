"""Small files entry by entry agree with what kafka-dump-log printed of them."""

import json
import re
from pathlib import Path

import pytest

from formats.errors import FormatError
from kcli.errors import UnreadableInput
from kcli.inspector.file_entries import Entry, file_entries
from kcli.inspector.file_type import FileType
from tests.conftest import GOLDEN, dump_runs

LINES = {
    FileType.INDEX: re.compile(r"offset: (-?\d+) position: (-?\d+)"),
    FileType.TIMEINDEX: re.compile(r"timestamp: (-?\d+) offset: (-?\d+)"),
    FileType.TXNINDEX: re.compile(
        r"version: (\d+) producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    ),
    FileType.SNAPSHOT: re.compile(r"producerId: (\d+) producerEpoch: (-?\d+) coordinatorEpoch: (-?\d+)"),
}


def test_entries_are_those_that_kafka_prints() -> None:
    compared = 0
    for golden_set in ("codecs", "txn", "compact"):
        for run in dump_runs(golden_set):
            path = GOLDEN / golden_set / run["file"]
            file_type = next((each for each in LINES if path.suffix == f".{each}"), None)
            if file_type is None or run["flags"] or run["exit"]:
                continue
            printed = [tuple(map(int, values)) for values in LINES[file_type].findall(run["stdout"])]
            entries = [tuple(entry.values()) for entry in file_entries(path, file_type)]
            if file_type is FileType.SNAPSHOT:
                entries = [(*entry[:2], entry[6]) for entry in entries]
            assert entries == printed, path
            compared += len(printed)
    print(f"{compared:,} entries of small files equal what kafka-dump-log printed")
    assert compared > 1000


@pytest.mark.parametrize(
    ("name", "file_type", "first"),
    [
        ("codecs/data/mixed-0/leader-epoch-checkpoint", FileType.LEADER_EPOCH_CHECKPOINT, (0, 0)),
        ("codecs/data/meta.properties", FileType.META_PROPERTIES, None),
        ("codecs/data/mixed-0/partition.metadata", FileType.PARTITION_METADATA, None),
        ("kraft/controller-100/__cluster_metadata-0/quorum-state", FileType.QUORUM_STATE, None),
        ("kraft/broker-1/log-start-offset-checkpoint", FileType.OFFSET_CHECKPOINT, ("k-0", 0, 12)),
    ],
)
def test_text_files(name: str, file_type: FileType, first: tuple[object, ...] | None) -> None:
    entries = list(file_entries(GOLDEN / name, file_type))
    assert entries
    assert json.loads(json.dumps(entries))
    assert first is None or tuple(entries[0].values()) == first


@pytest.mark.parametrize("file_type", [each for each in LINES if each is not FileType.SNAPSHOT])
def test_whole_entries_before_a_cut_one_are_given(file_type: FileType, tmp_path: Path) -> None:
    original = max((GOLDEN / "txn/data/t-txn-0").glob(f"*.{file_type}"), key=lambda path: path.stat().st_size)
    whole = list(file_entries(original, file_type))
    path = tmp_path / original.name
    path.write_bytes(original.read_bytes()[:-1])
    found: list[Entry] = []
    with pytest.raises(FormatError) as raised:
        found.extend(file_entries(path, file_type))
    assert raised.value.position is not None
    assert len(whole) > 1
    entries = file_entries(path, file_type)
    assert [next(entries) for _ in whole[:-1]] == whole[:-1]


def test_a_missing_file() -> None:
    with pytest.raises(UnreadableInput):
        list(file_entries(Path("no/such.index"), FileType.INDEX))
