"""Export and import give the same logs: rows in any order and layout; rows that cannot be restored; crashes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Collection, Iterator
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from formats.compression import ZSTD
from formats.file_name import FileKind
from kcli.errors import KcliError, UnreadableInput
from kcli.export.export_options import ExportOptions
from kcli.export.job import Job
from kcli.export.options import SourceOptions
from kcli.export.restore import DoubledOffset, Restored, RestoreOptions, restore
from kcli.export.restore_columns import notes
from kcli.export.restore_rows import Export, hive_columns
from kcli.export.table_writer import TableFormat
from kcli.inspector.verify import Verification
from kcli.log.disk import Disk, DiskFile
from kcli.log.log_directory import LogDirectory
from tests.cli.run import kcli, small_files
from tests.conftest import GOLDEN, read_jsonl, truth
from tests.export.in_process import InProcess
from tests.export.parquet_logs import BACKUP, PLAIN, export_table, log_records, write_parquet
from tests.log.crash_disk import Crash, CrashDisk

NOW_MS = 1_795_262_000_000
SETS = ("codecs/data", "txn/data", "txn/data-tv0", "compact/after", "compact/after2")


def imported(parquet: Path, target: Path, *, disk: Disk | None = None, **options: Any) -> list[Restored]:
    """Restore everything with little memory, so that runs must be merged."""
    export = Export(parquet, memory_bytes=1 << 20, fan_in=4)
    return list(restore(export, target, RestoreOptions(NOW_MS, **options), disk=disk))


OF_THE_NODE = {"meta-properties-missing", "partition-metadata-missing", "quorum-state-missing"}
"""Files of a node and its quorum, which an export does not have."""


GAPS = {"offset-gap", "log-missing"}
"""Warnings where the topic's cleanup.policy is not known: gaps in the offsets of an export."""


def is_sound(directory: Path, expected: Collection[str] = ()) -> bool:
    """Return whether `kcli verify` finds no other fault in the logs."""
    verification = Verification([directory])
    allowed = OF_THE_NODE.union(expected)
    wrong = [each for each in verification.findings() if each.severity != "info" and each.kind not in allowed]
    return not wrong and not verification.unreadable


def partitions(directory: Path) -> list[str]:
    return [each.path.name for each in LogDirectory(directory).partitions()]


@pytest.mark.parametrize("name", SETS)
def test_a_backup_comes_back(name: str, tmp_path: Path) -> None:
    """Each record has all that dump-segment shows of it and its batch, in segments with the same names."""
    original, logs = GOLDEN / name, tmp_path / "logs"
    restored = imported(write_parquet(export_table(original), tmp_path / "parquet"), logs)
    assert partitions(logs) == [f"{each.topic}-{each.partition}" for each in sorted(restored, key=_key)]
    assert "__cluster_metadata-0" in partitions(logs)
    for each in partitions(logs):
        assert log_records(logs / each) == log_records(original / each), each
        names = {path.name for path in (logs / each).glob("*.log")}
        assert names <= {path.name for path in (original / each).glob("*.log")}
        if each != "__cluster_metadata-0":
            assert (logs / each / "partition.metadata").read_bytes() == (
                original / each / "partition.metadata"
            ).read_bytes()
    assert is_sound(logs)


def _key(restored: Restored) -> tuple[str, int]:
    return restored.topic, restored.partition


@pytest.mark.parametrize("name", ["java-none-0", "java-none-1", "rdk-none-0", "recompress-none-0"])
def test_what_is_not_compressed_is_the_same_byte_for_byte(name: str, tmp_path: Path) -> None:
    original, logs = GOLDEN / "codecs/data" / name, tmp_path / "logs"
    imported(write_parquet(export_table(original), tmp_path / "parquet"), logs)
    for path in original.glob("*.log"):
        assert (logs / name / path.name).read_bytes() == path.read_bytes()
    assert (logs / name / "leader-epoch-checkpoint").read_bytes() == (original / "leader-epoch-checkpoint").read_bytes()


def test_transactions_come_back(tmp_path: Path) -> None:
    """The index of aborted transactions and the producers at the log end are restored."""
    original, logs = GOLDEN / "txn/data", tmp_path / "logs"
    imported(write_parquet(export_table(original), tmp_path / "parquet"), logs)
    found = 0
    for each in partitions(logs):
        for path in (original / each).glob("*.txnindex"):
            assert (logs / each / path.name).read_bytes() == path.read_bytes()
            found += path.stat().st_size > 0
    assert found
    last = max((original / "t-txn-0").glob("*.snapshot")).name
    shown = [kcli("dump-segment", "--format", "kafka", place / "t-txn-0" / last).stdout for place in (original, logs)]
    assert sorted(shown[0].splitlines()[1:]) == sorted(shown[1].splitlines()[1:])


def test_old_formats_come_back_as_magic_2(tmp_path: Path) -> None:
    """The records are the same, as after Kafka's cleaner; magic 0 has no timestamps, for which magic 2 has -1."""
    original, logs = GOLDEN / "legacy/data", tmp_path / "logs"
    imported(write_parquet(export_table(original), tmp_path / "parquet"), logs)
    for each in partitions(logs):
        before, after = log_records(original / each), log_records(logs / each)
        for record in (*before, *after):
            del record["batch_base_offset"]
            if record["timestamp_type"] == "NoTimestampType":
                record["timestamp_type"] = "CreateTime"
        assert after == before, each
    assert is_sound(logs)


@pytest.mark.parametrize("partition_by", [(), ("topic",), ("partition", "date"), ("topic", "partition", "hour")])
def test_through_the_export_job(partition_by: tuple[str, ...], tmp_path: Path) -> None:
    """The input is written by `kcli export-to-parquet`, in its layouts, and found through its manifest."""
    original, out, logs = GOLDEN / "txn/data", tmp_path / "backup", tmp_path / "logs"
    options = SourceOptions.parse({"path": str(original), **BACKUP})
    Job(ExportOptions(options, out, TableFormat(partition_by)), InProcess()).run()  # type: ignore[arg-type]
    (out / "left-over.parquet").write_bytes(b"not in the manifest")
    imported(out, logs)
    for each in partitions(original):
        assert log_records(logs / each) == log_records(original / each), each
    assert is_sound(logs)


def consumed(records: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """What a consumer sees of dumped records."""
    return [
        (record["offset"], record["timestamp"], record["timestamp_type"], _text(record["key"]), _text(record["value"]))
        for record in records
        if not record["is_control"]
    ]


def _text(value: Any) -> Any:
    return json.dumps(value)


@pytest.mark.parametrize("name", ["codecs/data/mixed-0", "codecs/data/append-time-1", "compact/after2/c-plain-0"])
def test_a_plain_export_comes_back_in_batches_of_its_own(name: str, tmp_path: Path) -> None:
    original, logs = GOLDEN / name, tmp_path / "logs"
    write_parquet(export_table(original, PLAIN), tmp_path / "parquet")
    (restored,) = imported(tmp_path / "parquet", logs)
    dumped = log_records(logs / original.name)
    assert consumed(dumped) == consumed(log_records(original))
    assert [record["headers"] for record in dumped] == [record["headers"] for record in log_records(original)]
    assert {record["producer_id"] for record in dumped} == {-1}
    assert restored.segments == 1
    assert is_sound(logs)


def test_the_truth_of_a_consumer(tmp_path: Path) -> None:
    """The result is compared with what a Java consumer read, not only with kcli's reader."""
    imported(write_parquet(export_table(GOLDEN / "codecs/data/crafted-0"), tmp_path / "parquet"), tmp_path / "logs")
    again = export_table(tmp_path / "logs" / "crafted-0").to_pylist()
    expected = truth("codecs/expected/truth/crafted.jsonl.gz")
    assert len(again) == len(expected)
    for record, wanted in zip(again, expected, strict=True):
        assert (record["offset"], record["timestampMs"]) == (wanted["offset"], wanted["timestamp"])
        for name in ("key", "value"):
            assert record[name] == (None if wanted[name] is None else b64decode(wanted[name]))


def every(table: pa.Table, first: int, step: int) -> pa.Table:
    return table.take(pa.array(range(first, table.num_rows, step), pa.int64()))


def shuffled(table: pa.Table, seed: int) -> pa.Table:
    order = list(range(table.num_rows))
    Random(seed).shuffle(order)
    return table.take(order)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("files", [1, 3, 12])
def test_rows_in_any_order(seed: int, files: int, tmp_path: Path) -> None:
    """Rows of all partitions are anywhere in few or many files, more than are merged at once."""
    original, logs = GOLDEN / "txn/data", tmp_path / "logs"
    table = shuffled(export_table(original), seed)
    for i in range(files):
        folder = tmp_path / "parquet" / f"date=2026-11-{i + 1}"
        folder.mkdir(parents=True)
        pq.write_table(every(table, i, files), folder / "x.parquet", row_group_size=50 + 50 * seed)
    imported(tmp_path / "parquet", logs)
    for each in partitions(logs):
        assert log_records(logs / each) == log_records(original / each)
    assert not list(tmp_path.rglob("*.arrow"))


@pytest.mark.parametrize("files", [2, 9, 40])
def test_sorted_files_side_by_side(files: int, tmp_path: Path) -> None:
    """Each of n files has every n-th record: they are merged, in more than one pass where they are many."""
    original, logs = GOLDEN / "codecs/data/mixed-0", tmp_path / "logs"
    table = export_table(original)
    (tmp_path / "parquet").mkdir()
    for i in range(files):
        pq.write_table(every(table, i, files), tmp_path / "parquet" / f"{i}.parquet")
    imported(tmp_path / "parquet", logs)
    assert log_records(logs / "mixed-0") == log_records(original)


def test_directories_are_columns(tmp_path: Path) -> None:
    table = export_table(GOLDEN / "codecs/data/mixed-0").drop_columns(["topic", "partition"])
    folder = tmp_path / "parquet/topic=a.b%5Fc/partition=7/date=2026-11-20"
    folder.mkdir(parents=True)
    pq.write_table(table, folder / "x.parquet")
    (restored,) = imported(tmp_path / "parquet", tmp_path / "logs")
    assert (restored.topic, restored.partition) == ("a.b_c", 7)
    assert hive_columns(tmp_path, tmp_path / "topic=__HIVE_DEFAULT_PARTITION__/x=1/f") == {"x": "1"}


def test_segments_by_size(tmp_path: Path) -> None:
    original, logs = GOLDEN / "codecs/data/java-none-0", tmp_path / "logs"
    parquet = write_parquet(export_table(original), tmp_path / "parquet")
    (restored,) = imported(parquet, logs, segment_bytes=6000)
    logs_written = sorted((logs / "java-none-0").glob("*.log"))
    assert restored.segments == len(logs_written) > 6
    assert all(path.stat().st_size <= 6000 for path in logs_written)
    assert log_records(logs / "java-none-0") == log_records(original)
    assert is_sound(logs)


def test_another_codec(tmp_path: Path) -> None:
    original, logs = GOLDEN / "txn/data/t-txn-0", tmp_path / "logs"
    imported(write_parquet(export_table(original), tmp_path / "parquet"), logs, codec=ZSTD)
    before, after = log_records(original), log_records(logs / "t-txn-0")
    assert {record["codec"] for record in after if not record["is_control"]} == {"zstd"}
    assert {record["codec"] for record in after if record["is_control"]} == {"none"}
    for record in (*before, *after):
        del record["codec"]
    assert after == before


def test_without_producers_control_records_are_left_out(tmp_path: Path) -> None:
    table = export_table(GOLDEN / "txn/data/t-txn-0").drop_columns(["sequence"])
    parquet = write_parquet(table, tmp_path / "parquet")
    (restored,) = imported(parquet, tmp_path / "logs")
    control = pc.sum(table["isControl"]).as_py()
    assert restored.left_out == control > 0
    assert restored.records == table.num_rows - control
    dumped = log_records(tmp_path / "logs/t-txn-0")
    assert not any(record["is_transactional"] or record["is_control"] for record in dumped)
    assert "without sequence: no producers, transactions and control records" in notes(Export(parquet).layouts)
    assert is_sound(tmp_path / "logs", GAPS)


def test_transactions_without_their_ends(tmp_path: Path) -> None:
    """The export has no control records, so it is not known when and how the transactions ended."""
    options = {name: value for name, value in BACKUP.items() if name != "includeControl"}
    parquet = write_parquet(export_table(GOLDEN / "txn/data/t-txn-0", options), tmp_path / "parquet")
    (restored,) = imported(parquet, tmp_path / "logs")
    assert restored.has_open_ends
    again, original = log_records(tmp_path / "logs/t-txn-0"), log_records(GOLDEN / "txn/data/t-txn-0")
    assert not any(record["is_transactional"] for record in again)
    kept = [record | {"is_transactional": False} for record in original if not record["is_control"]]
    assert again == kept
    assert is_sound(tmp_path / "logs", GAPS)


def test_without_arrow(tmp_path: Path) -> None:
    program = "import sys; sys.modules['pyarrow'] = None; from kcli.cli import main; main()"
    arguments = ["import-from-parquet", str(tmp_path), "--dry-run"]
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "kcli: pyarrow is not installed, which this command needs: pip install 'kafka-kcli[spark]'\n"


def test_text_is_encoded(tmp_path: Path) -> None:
    schema = [("key", pa.string()), ("value", pa.string()), ("topic", pa.string()), ("partition", pa.int32())]
    rows = {"key": ["ä", None], "value": ["", "日本"], "topic": ["t", "t"], "partition": [0, 0]}
    table = pa.table(rows, pa.schema(schema))
    times = pa.array([datetime(2026, 11, 20, tzinfo=UTC), None], pa.timestamp("ns", "UTC"))
    table = table.append_column("offset", pa.array([5, 9])).append_column("timestamp", times)
    pq.write_table(table, tmp_path / "x.parquet")
    imported(tmp_path / "x.parquet", tmp_path / "logs")
    again = export_table(tmp_path / "logs/t-0").to_pylist()
    assert [(row["offset"], row["key"], row["value"]) for row in again] == [
        (5, "ä".encode(), b""),
        (9, None, "日本".encode()),
    ]
    assert [row["timestampMs"] for row in again] == [1_795_132_800_000, -1]
    assert "key is text: encoded as UTF-8" in notes(Export(tmp_path / "x.parquet").layouts)


def _refused(table: pa.Table, tmp_path: Path) -> str:
    path = tmp_path / "x.parquet"
    pq.write_table(table, path)
    with pytest.raises(KcliError) as caught:
        imported(path, tmp_path / "logs")
    assert not (tmp_path / "logs").exists()
    assert not (tmp_path / "logs.part").exists()
    return str(caught.value).replace(str(tmp_path), "")


def _markers() -> pa.Table:
    return export_table(GOLDEN / "txn/data/t-quiet-0")


def _values_and_control() -> list[tuple[bytes | None, bool]]:
    table = _markers()
    return list(zip(table["value"].to_pylist(), table["isControl"].to_pylist(), strict=True))


def bad_tables() -> Iterator[tuple[str, pa.Table, str]]:
    table = export_table(GOLDEN / "codecs/data/java-none-0")
    yield "twice", pa.concat_tables([table, table.slice(17, 1)]), "/x.parquet"
    yield "no-offset", table.drop_columns(["offset"]), "no column offset: there is nothing to restore records from"
    yield "no-value", table.drop_columns(["value", "key"]), "no columns key, value"
    decoded = table.set_column(1, "value", pa.array([{"a": 1}] * table.num_rows))
    yield "decoded", decoded, "column value is decoded (struct<a: int64>), its bytes are not known: export it raw"
    yield "null-offset", table.set_column(4, "offset", pa.nulls(table.num_rows, pa.int64())), "column offset has nulls"
    yield "null-topic", table.set_column(2, "topic", pa.nulls(table.num_rows, pa.string())), "column topic has nulls"
    codecs = pa.array(["brotli"] * table.num_rows)
    strange = table.drop_columns(["attributes", "codec"]).append_column("codec", codecs)
    yield "codec", strange, "column codec: 'brotli' is none of none, gzip, snappy, lz4, zstd"
    elsewhere = table.set_column(2, "topic", pa.array(["../../x"] * table.num_rows))
    yield "path", elsewhere, "Topic name is invalid: '../../x' contains one or more characters other than"
    yield "number", table.set_column(3, "partition", pa.array([-1] * table.num_rows)), "there is no partition -1"
    broken = pa.array([b"" if each else value for value, each in _values_and_control()], pa.binary())
    yield "marker", _markers().set_column(1, "value", broken), "Kafka would not"
    negative = table.set_column(4, "offset", pc.subtract(table["offset"], 10))
    yield "negative", negative, "java-none-0 offset -10: its offset is negative"


@pytest.mark.parametrize(("table", "reason"), [pytest.param(*rest, id=name) for name, *rest in bad_tables()])
def test_what_cannot_be_restored(table: pa.Table, reason: str, tmp_path: Path) -> None:
    assert reason in _refused(table, tmp_path)


def test_doubled_offsets_name_the_files(tmp_path: Path) -> None:
    table = export_table(GOLDEN / "codecs/data/java-none-0")
    for name in ("a", "b"):
        pq.write_table(table.slice(0 if name == "a" else 100), tmp_path / f"{name}.parquet")
    with pytest.raises(DoubledOffset) as caught:
        imported(tmp_path, tmp_path / "logs")
    places = f"{tmp_path}/a.parquet and {tmp_path}/b.parquet"
    assert str(caught.value) == f"java-none-0: offset 100 is there twice, in {places}"


@pytest.mark.parametrize("cut", [0, 1, 5, 1000, 10_000])
def test_a_torn_file(cut: int, tmp_path: Path) -> None:
    parquet = write_parquet(export_table(GOLDEN / "codecs/data/java-none-0"), tmp_path / "parquet")
    (path,) = parquet.rglob("*.parquet")
    path.write_bytes(path.read_bytes()[: -cut or None] if cut else b"")
    with pytest.raises(UnreadableInput) as caught:
        imported(parquet, tmp_path / "logs")
    assert "\n" not in str(caught.value)


def test_damage_inside_a_file(tmp_path: Path) -> None:
    """Any byte may be damaged: the result is the same records, other ones (Parquet's pages have no checksums here), or
    one error."""
    parquet = write_parquet(export_table(GOLDEN / "codecs/data/java-none-0"), tmp_path / "parquet")
    (path,) = parquet.rglob("*.parquet")
    data = path.read_bytes()
    random = Random(7)
    for i in range(30):
        at = random.randrange(len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ 1 << random.randrange(8)]) + data[at + 1 :])
        try:
            imported(parquet, tmp_path / f"logs{i}")
        except KcliError:
            assert not list(tmp_path.glob(f"logs{i}*"))


def test_a_crash_leaves_no_directory(tmp_path: Path) -> None:
    """The restore is killed at any change of the disk: the directory is whole, or does not exist."""
    parquet = write_parquet(export_table(GOLDEN / "txn/data/t-quiet-0"), tmp_path / "parquet")
    counting = CrashDisk()
    imported(parquet, tmp_path / "whole", disk=counting)
    assert counting.operations > 10
    for number in range(1, counting.operations + 1):
        target = tmp_path / f"logs{number}"
        with pytest.raises(Crash):
            imported(parquet, target, disk=CrashDisk(number, seed=number))
        if target.exists():
            assert log_records(target / "t-quiet-0") == log_records(GOLDEN / "txn/data/t-quiet-0")


class FullDisk(Disk):
    """Takes so many bytes of logs."""

    def __init__(self, room: int) -> None:
        self.room = room

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> DiskFile:
        return FullFile(self, path, super().open(path, create=create, truncate=truncate, read_only=read_only).fd)


class FullFile(DiskFile):
    def __init__(self, disk: FullDisk, path: Path, fd: int) -> None:
        super().__init__(path, fd)
        self._disk = disk

    def write(self, buffers: Any, position: int) -> int:
        self._disk.room -= sum(map(len, buffers))
        if self._disk.room < 0:
            raise OSError(28, "No space left on device", str(self.path))
        return super().write(buffers, position)


def test_a_full_disk(tmp_path: Path) -> None:
    parquet = write_parquet(export_table(GOLDEN / "codecs/data/java-none-0"), tmp_path / "parquet")
    with pytest.raises(OSError, match="No space left"):
        imported(parquet, tmp_path / "logs", disk=FullDisk(20_000))
    assert [path.name for path in tmp_path.iterdir()] == ["parquet"]


def test_the_command(tmp_path: Path) -> None:
    parquet = write_parquet(export_table(GOLDEN / "txn/data"), tmp_path / "parquet")
    dry = kcli("import-from-parquet", parquet, "--dry-run", "--format", "jsonl", "--topic", "t-txn", "--topic", "t-mix")
    assert dry.status == 0, dry.stderr
    rows = [json.loads(line) for line in dry.stdout.splitlines()]
    assert [f"{row['topic']}-{row['partition']}" for row in rows] == ["t-mix-0", "t-txn-0", "t-txn-1", "t-txn-2"]
    assert list(tmp_path.iterdir()) == [parquet]
    cluster = ["--cluster-id", "LBpuNBmroaKCGZapLUMKcQ", "--node-id", "7", "--topic-id", "t-mix=AAAAAAAAQACAAAAAAAAAAQ"]
    done = kcli("import-from-parquet", parquet, "--out", tmp_path / "logs", "--topic", "t-mix", *cluster)
    assert done.status == 0, done.stderr
    assert done.stdout.splitlines()[0].split() == [
        "PARTITION",
        "OFFSETS",
        "RECORDS",
        "MISSING",
        "BATCHES",
        "SEGMENTS",
        "BYTES",
    ]
    metadata = (tmp_path / "logs/t-mix-0/partition.metadata").read_text()
    assert metadata == "version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAAAQ"
    meta = LogDirectory(tmp_path / "logs").path / FileKind.META_PROPERTIES
    assert {"node.id=7", "cluster.id=LBpuNBmroaKCGZapLUMKcQ"} <= set(meta.read_text().splitlines())
    ends = LogDirectory(tmp_path / "logs").offsets(FileKind.RECOVERY_POINTS)
    assert ends == {
        ("t-mix", 0): json.loads(
            kcli(
                "import-from-parquet", parquet, "--out", tmp_path / "again", "--topic", "t-mix", "--format", "jsonl"
            ).stdout
        )["log_end_offset"]
    }


def test_a_disk_without_room(tmp_path: Path) -> None:
    parquet, out = write_parquet(export_table(GOLDEN / "txn/data"), tmp_path / "parquet"), tmp_path / "logs"
    ended = kcli("import-from-parquet", parquet, "--out", out, preexec_fn=small_files)
    assert ended.status == 1
    assert re.fullmatch(rf"kcli: {out}(\.part/.*)?: .*File too large.*", ended.complaint), "what was written is named"
    assert list(tmp_path.iterdir()) == [parquet]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "kcli: give --out LOGDIR, or --dry-run"),
        (["--dry-run", "--topic", "none"], "kcli: --topic none: parquet has no record of it; it has java-none"),
        (["--out", "parquet"], "kcli: parquet: is there already; --out makes a new directory"),
        (
            ["--out", "x", "--topic-id", "a=b"],
            "kcli: --topic-id a=b: an id is 22 characters of base64, as kcli topics shows it",
        ),
    ],
)
def test_wrong_usage(arguments: list[str], complaint: str, tmp_path: Path) -> None:
    write_parquet(export_table(GOLDEN / "codecs/data/java-none-0"), tmp_path / "parquet")
    ended = kcli("import-from-parquet", "parquet", *arguments, cwd=tmp_path)
    assert ended.status == 2
    assert ended.complaint == complaint


def test_nothing_there(tmp_path: Path) -> None:
    assert (
        kcli("import-from-parquet", "none", "--dry-run", cwd=tmp_path).complaint
        == "kcli: none: no such file or directory"
    )
    (tmp_path / "empty").mkdir()
    ended = kcli("import-from-parquet", "empty", "--dry-run", cwd=tmp_path)
    assert (ended.status, ended.complaint) == (2, "kcli: empty: no Parquet file (*.parquet) in this directory")


def test_compacted_logs_have_the_truth(tmp_path: Path) -> None:
    """After export and import the compacted topics have the records that a consumer read from them."""
    imported(write_parquet(export_table(GOLDEN / "compact/after2"), tmp_path / "parquet"), tmp_path / "logs")
    again: dict[str, set[tuple[Any, ...]]] = {}
    for row in export_table(tmp_path / "logs", PLAIN).to_pylist():
        again.setdefault(row["topic"], set()).add((row["partition"], row["offset"], row["key"], row["value"]))
    for path in sorted((GOLDEN / "compact/expected/truth/after2").glob("*.jsonl.gz")):
        wanted = {
            (
                row["partition"],
                row["offset"],
                *(None if row[name] is None else b64decode(row[name]) for name in ("key", "value")),
            )
            for row in read_jsonl(path)
        }
        topic = path.name.partition(".")[0]
        if "committed" not in path.name:
            assert again.get(topic, set()) == wanted, topic
