"""The export as its readers see it, with pyarrow and with DuckDB, compared with what Kafka's consumer read."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import socket
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.export.check import check_export
from kcli.export.decoding import DecoderSpec
from kcli.export.export_options import ExportOptions
from kcli.export.job import Job
from kcli.export.manifest import MANIFEST, read_manifest
from kcli.export.options import SourceOptions
from kcli.export.outcome import Outcome, damage_directory, dead_letter_directory
from kcli.export.splits import plan
from kcli.export.steps import grouped
from kcli.export.table_writer import TableFormat, file_sum
from tests.conftest import GOLDEN, truth
from tests.export.in_process import InProcess
from tests.export.logs import TOPIC_IDS, append, make_anew

COLUMNS = "key,value,topic,partition,offset,timestamp,timestampType,headers"
TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}


def source(path: Path, **options: str) -> SourceOptions:
    return SourceOptions.parse({"path": str(path), "columns": COLUMNS, **options})


def export(given: SourceOptions, out: Path, **options: Any) -> Outcome:
    return Job(ExportOptions(given, out, **options), InProcess()).run()  # type: ignore[arg-type]


def expected_rows(name: str) -> list[tuple[Any, ...]]:
    """Truth as rows: topic, partition, offset, timestamp in ms, type, key, value, headers."""
    return [
        (
            each["topic"],
            each["partition"],
            each["offset"],
            each["timestamp"],
            TYPES[each["timestamp_type"]],
            decoded(each["key"]),
            decoded(each["value"]),
            [(key, decoded(value)) for key, value in each["headers"]],
        )
        for each in sorted(truth(name), key=lambda each: (each["topic"], each["partition"], each["offset"]))
    ]


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def with_pyarrow(out: Path) -> list[tuple[Any, ...]]:
    table = ds.dataset(out, partitioning=ds.partitioning(flavor="hive")).to_table()
    table = table.set_column(table.schema.get_field_index("timestamp"), "ms", table["timestamp"].cast(pa.int64()))
    rows = table.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]).to_pylist()
    return [
        (
            row["topic"],
            row["partition"],
            row["offset"],
            row["ms"] // 1000,
            row["timestampType"],
            row["key"],
            row["value"],
            [(each["key"], each["value"]) for each in row["headers"] or []],
        )
        for row in rows
    ]


def with_duckdb(out: Path) -> list[tuple[Any, ...]]:
    found = duckdb.execute(
        f"""select topic, partition, "offset", epoch_ms(timestamp), timestampType, key, value, headers
        from read_parquet('{out}/**/*.parquet', hive_partitioning = true) order by 1, 2, 3"""
    ).fetchall()
    return [(*row[:7], [(each["key"], each["value"]) for each in row[7] or []]) for row in found]


SETS = [
    ("codecs", "data", "codecs/expected/truth"),
    ("legacy", "data", "legacy/expected/truth"),
    ("compact", "after", "compact/expected/truth/after"),
]


@pytest.mark.parametrize(("name", "data", "truths"), SETS, ids=[each[0] for each in SETS])
@pytest.mark.parametrize("layout", [(), ("topic", "date")], ids=["flat", "by topic and date"])
def test_export_equals_the_truth(name: str, data: str, truths: str, layout: tuple[str, ...], tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(source(GOLDEN / name / data), out, form=TableFormat(layout))
    names = sorted(path.name for path in (GOLDEN / truths).glob("*.jsonl.gz"))
    expected = [row for name in names for row in expected_rows(f"{truths}/{name}")]
    expected.sort(key=lambda row: row[:3])
    assert expected
    assert with_pyarrow(out) == expected
    assert with_duckdb(out) == expected
    proof = check_export(out)
    assert proof.findings == []
    assert proof.records == len(expected)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_isolation(isolation: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(source(GOLDEN / "txn/data", isolation=isolation), out)
    names = sorted(path.name for path in (GOLDEN / "txn/expected/data").glob(f"*.{isolation}.jsonl.gz"))
    expected = [row for name in names for row in expected_rows(f"txn/expected/data/{name}")]
    assert expected
    assert with_pyarrow(out) == sorted(expected, key=lambda row: row[:3])
    assert check_export(out).findings == []


def test_nothing_is_left_but_the_table(tmp_path: Path) -> None:
    export(source(GOLDEN / "codecs/data/mixed-0"), tmp_path / "out")
    assert [each.name for each in tmp_path.iterdir()] == ["out"]
    assert sorted(each.name for each in (tmp_path / "out").iterdir()) == [MANIFEST, "part-00001-000000.parquet"]


def test_manifest_tells_of_offsets_and_gaps(tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    log.mkdir()
    append(log, [3, 4, 7])
    append(log, [10])
    outcome = export(source(log), tmp_path / "out")
    manifest = read_manifest(tmp_path / "out")
    assert manifest == outcome.manifest
    (extent,) = manifest.partitions
    assert (extent.start, extent.end, extent.records, extent.missing) == (0, 11, 4, 7)
    assert extent.gaps == ((0, 2), (5, 6), (8, 9))
    (part,) = manifest.sources
    assert (part.first, part.last, part.records) == (3, 10, 4)
    (file,) = manifest.files
    assert pq.ParquetFile(tmp_path / "out" / file.path).metadata.num_rows == file.records == 4


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A partition of one batch."""
    directory = tmp_path / "log" / "t-0"
    directory.mkdir(parents=True)
    append(directory, list(range(10)))
    return directory


def offsets_in(out: Path) -> list[int]:
    return sorted(row[2] for row in with_pyarrow(out))


def test_incremental(log: Path, tmp_path: Path) -> None:
    out, state = tmp_path / "out", tmp_path / "state"
    assert export(source(log), out, state=state).records == 10
    assert export(source(log), out, state=state).records == 0
    append(log, list(range(10, 15)))
    outcome = export(source(log), out, state=state)
    assert (outcome.records, outcome.manifest.increments) == (5, 2)
    assert offsets_in(out) == list(range(15))
    assert json.loads(state.read_bytes())["next"] == {"t": {"0": 15}}
    assert check_export(out).findings == []
    (extent,) = outcome.manifest.partitions
    assert (extent.start, extent.end, extent.records, extent.missing) == (0, 15, 15, 0)


def test_an_increment_of_tombstones_has_the_types_of_the_table(tmp_path: Path) -> None:
    """Neither tombstones nor nulls in JSON tell the type of a value."""
    log, out, state = tmp_path / "t-0", tmp_path / "out", tmp_path / "state"
    log.mkdir()
    append(log, [0], [b'{"id": 1, "in": {"a": [2]}}'])
    decoded = {"value": DecoderSpec.parse("json"), "state": state}
    columns = export(source(log), out, **decoded).manifest.columns
    for offset, value in ((1, None), (2, b'{"id": null, "in": {"a": [null]}}')):
        append(log, [offset], [value])
        assert export(source(log), out, **decoded).manifest.columns == columns
    schemas = {str(pq.read_schema(each).field("value").type) for each in out.glob("*.parquet")}
    assert schemas == {"struct<id: int64, in: struct<a: list<element: int64>>>"}
    rows = ds.dataset(out).to_table(columns=["offset", "value"]).sort_by("offset")["value"].to_pylist()
    assert rows == [{"id": 1, "in": {"a": [2]}}, None, {"id": None, "in": {"a": [None]}}]


def test_an_end_beyond_the_log_is_its_end(log: Path, tmp_path: Path) -> None:
    """The next increment has the offsets that were not there yet."""
    out, state = tmp_path / "out", tmp_path / "state"
    ending = {"endingOffsets": json.dumps({"t": {"0": 12}})}
    assert export(source(log, assign='{"t": [0]}', **ending), out, state=state).manifest.partitions[0].end == 10
    append(log, list(range(10, 15)))
    export(source(log), out, state=state)
    assert offsets_in(out) == list(range(15))


def test_incremental_tells_what_was_deleted(log: Path, tmp_path: Path) -> None:
    """Retention deleted offsets 10 to 19 before the export: they are a gap, and are reported."""
    out, state = tmp_path / "out", tmp_path / "state"
    export(source(log), out, state=state)
    (log / "00000000000000000000.log").unlink()
    append(log, list(range(20, 25)))
    (log / "00000000000000000000.log").rename(log / "00000000000000000020.log")
    outcome = export(source(log), out, state=state)
    assert outcome.lost == (("t", 0, 10, 19),)
    assert outcome.manifest.partitions[0].gaps == ((10, 19),)
    assert offsets_in(out) == [*range(10), *range(20, 25)]


def test_incremental_meets_new_partitions(log: Path, tmp_path: Path) -> None:
    out, state = tmp_path / "out", tmp_path / "state"
    export(source(log.parent), out, state=state)
    other = log.with_name("t-1")
    other.mkdir()
    append(other, [0, 1])
    assert export(source(log.parent), out, state=state).records == 2
    assert len(with_duckdb(out)) == 12


@pytest.mark.parametrize("size", [4, 20])
def test_incremental_refuses_a_topic_that_was_made_anew(size: int, log: Path, tmp_path: Path) -> None:
    out, state = tmp_path / "out", tmp_path / "state"
    make_anew(log, TOPIC_IDS[0], range(10))
    export(source(log), out, state=state)
    known = state.read_bytes()
    assert json.loads(known)["topic_ids"] == {"t": TOPIC_IDS[0]}
    make_anew(log, TOPIC_IDS[1], range(size))
    was = f"the topic t was deleted and made anew: its id was {TOPIC_IDS[0]}, and is {TOPIC_IDS[1]}; {out} has records"
    with pytest.raises(UsageError, match=was):
        export(source(log), out, state=state)
    assert state.read_bytes() == known
    assert offsets_in(out) == list(range(10))


def test_a_state_without_topic_ids(log: Path, tmp_path: Path) -> None:
    """It is one of an older version, and gets the ids with the next records."""
    out, state = tmp_path / "out", tmp_path / "state"
    export(source(log), out, state=state)
    old = json.loads(state.read_bytes())
    assert old.pop("topic_ids") == {}
    state.write_text(json.dumps(old))
    make_anew(log, TOPIC_IDS[0], range(15))
    export(source(log), out, state=state)
    assert offsets_in(out) == list(range(15))
    assert json.loads(state.read_bytes())["topic_ids"] == {"t": TOPIC_IDS[0]}


def test_incremental_of_two_topics_of_one_name(log: Path, tmp_path: Path) -> None:
    for number, topic_id in enumerate(TOPIC_IDS):
        log.with_name(f"t-{number}").mkdir(exist_ok=True)
        make_anew(log.with_name(f"t-{number}"), topic_id, range(4))
    with pytest.raises(UsageError, match="there are two topics of the name t"):
        export(source(log.parent), tmp_path / "out", state=tmp_path / "state")


def test_a_damaged_topic_id_is_none(log: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (log / "partition.metadata").write_bytes(b"version: 0\ntopic_id: ?")
    assert export(source(log), tmp_path / "out", state=tmp_path / "state").records == 10
    assert f"{log}/partition.metadata: " in caplog.text


def test_incremental_is_told_the_same(log: Path, tmp_path: Path) -> None:
    out, state = tmp_path / "out", tmp_path / "state"
    export(source(log), out, state=state)
    with pytest.raises(UsageError, match="another layout"):
        export(source(log), out, state=state, form=TableFormat(("topic",)))
    with pytest.raises(UsageError, match="holds an export already"):
        export(source(log), out)
    with pytest.raises(UsageError, match="to tell how far"):
        export(source(log), out, state=tmp_path / "other")
    shutil.rmtree(out)
    with pytest.raises(UsageError, match="not the state of the export"):
        export(source(log), out, state=state)


def test_output_that_is_there(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    export(source(log), out)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(UsageError, match="not empty"):
        export(source(log), tmp_path / "mine")
    with pytest.raises(UsageError, match="no directory"):
        export(source(log), tmp_path / "mine" / "file")


def test_dead_letters(tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    log.mkdir()
    append(log, [0, 1, 2, 3], [b'{"a": 1}', b"{", None, b'{"a": 2}'])
    out = tmp_path / "out"
    outcome = export(source(log), out, value=DecoderSpec.parse("json:a BIGINT"))
    assert (outcome.records, sum(file.records for file in outcome.dead_letters)) == (3, 1)
    assert ds.dataset(out).to_table(columns=["value"]).column("value").to_pylist() == [{"a": 1}, None, {"a": 2}]
    (dead,) = ds.dataset(dead_letter_directory(out)).to_table().to_pylist()
    assert (dead["offset"], dead["value"], dead["keyReason"]) == (1, b"{", None)
    assert dead["valueReason"]
    assert duckdb.execute(f"select count(*) from '{out}/**/*.parquet'").fetchall() == [(3,)]
    assert check_export(out).findings == []


def test_variants_are_such_for_readers(tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    log.mkdir()
    append(log, [0, 1, 2], [b'{"a": 1}', None, b'["x", 2.5]'])
    out = tmp_path / "out"
    export(source(log), out, value=DecoderSpec.parse("json:variant"))
    rows = duckdb.execute(f"select typeof(value), value::json from '{out}/**/*.parquet' order by \"offset\"").fetchall()
    assert rows == [("VARIANT", '{"a":1}'), ("VARIANT", None), ("VARIANT", '["x",2.5]')]
    assert check_export(out).findings == []


def test_inferred_json(tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    log.mkdir()
    append(log, [0, 1], [b'{"a": 1}', b'{"b": "x"}'])
    export(source(log), tmp_path / "out", value=DecoderSpec.parse("json"), key=DecoderSpec.parse("string"))
    table = ds.dataset(tmp_path / "out").to_table()
    assert table.column("value").to_pylist() == [{"a": 1, "b": None}, {"a": None, "b": "x"}]
    assert table.column("key").to_pylist() == ["k0", "k1"]
    assert check_export(tmp_path / "out").findings == []


def test_files_are_rolled_and_tasks_have_their_size(tmp_path: Path) -> None:
    splits = plan(source(GOLDEN / "codecs/data"))
    assert [split for task in grouped(splits, 2, 1 << 20) for split in task] == splits
    assert len(grouped(splits, 2, 1 << 20)) == 1, "small logs are one task"
    assert all(len(task) == 1 for task in grouped([splits[0]] * 5, 10**9, 1)) or splits[0].size < 4 << 20


def test_codec_and_columns(log: Path, tmp_path: Path) -> None:
    given = SourceOptions.parse({"path": str(log), "columns": "offset,value"})
    export(given, tmp_path / "out", form=TableFormat(codec="gzip", level=9))
    (path,) = (tmp_path / "out").glob("*.parquet")
    file = pq.ParquetFile(path)
    assert file.schema_arrow.names == ["offset", "value"]
    assert file.metadata.row_group(0).column(0).compression == "GZIP"
    assert file.metadata.row_group(0).column(0).statistics.max == 9
    assert check_export(tmp_path / "out").findings == []


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"form": TableFormat(("offset",))}, "none of topic, partition, date, hour"),
        ({"form": TableFormat(codec="lzo")}, "none of zstd"),
        ({"form": TableFormat(codec="zstd", level=99)}, "1 to 22|99"),
        ({"form": TableFormat(codec="snappy", level=1)}, "no levels"),
        ({"sort": ("nothing",)}, "no column to sort by"),
        ({"latest_by_key": True, "state": Path("x")}, "give one of them"),
    ],
)
def test_options_that_make_no_sense(options: dict[str, Any], reason: str, log: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=reason):
        export(source(log), tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_damage_fails_the_job_and_leaves_nothing(log: Path, tmp_path: Path) -> None:
    path = log / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[80] ^= 1
    path.write_bytes(data)
    with pytest.raises(KcliError, match="CRC"):
        export(source(log), tmp_path / "out")
    assert [each.name for each in tmp_path.iterdir()] == ["log"]


def test_full_disk(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    with pytest.raises(KcliError) as raised:
        export(source(log), tmp_path / "out")
    assert str(raised.value) == (
        f"{tmp_path}/out: No space left on device: the table has nothing of this run, the same command tries again"
    )
    assert [each.name for each in tmp_path.iterdir()] == ["log"]


def test_where_no_export_can_be(log: Path) -> None:
    with pytest.raises(UsageError, match=r"^/proc/kcli: no table can be written there, as .* in /proc: No such file"):
        export(source(log), Path("/proc/kcli"))


def test_check_finds_what_was_changed(log: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    export(source(log), out)
    (path,) = out.glob("*.parquet")
    sound = path.read_bytes()

    path.write_bytes(sound[:-1] + b"x")
    assert "CRC-32C" in check_export(out).findings[0].reason
    path.unlink()
    assert "No such file" in check_export(out).findings[0].reason
    path.write_bytes(sound)
    shutil.copy(path, out / "copy.parquet")
    assert "does not name it" in check_export(out).findings[0].reason
    (out / "copy.parquet").unlink()

    segment = log / "00000000000000000000.log"
    segment.rename(log / "gone")
    append(log, list(range(5)))
    reasons = [finding.reason for finding in check_export(out).findings]
    assert any("were there" in reason for reason in reasons)
    assert any("the sources have 5" in reason for reason in reasons)


def test_check_compares_rows(log: Path, tmp_path: Path) -> None:
    """A data file was changed, and the manifest to fit it."""
    out = tmp_path / "out"
    export(source(log), out)
    (path,) = out.glob("*.parquet")
    table = pq.read_table(path)
    values = table.column("value").to_pylist()
    values[4] = b"other"
    pq.write_table(table.set_column(1, "value", pa.array(values)), path)
    manifest = json.loads((out / MANIFEST).read_bytes())
    manifest["files"][0]["bytes"], manifest["files"][0]["crc32c"] = file_sum(path)
    (out / MANIFEST).write_text(json.dumps(manifest))
    assert [finding.reason for finding in check_export(out).findings] == [
        "t-0: value at offset 4 is not what the source has"
    ]


def test_no_export(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no such directory"):
        check_export(tmp_path / "none")
    with pytest.raises(UnreadableInput, match="no export of kcli"):
        check_export(tmp_path)


ORDER: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
LATER = {**ORDER, "fields": [*ORDER["fields"], {"name": "note", "type": ["null", "string"], "default": None}]}


def confluent(schema_id: int, schema: dict[str, Any], value: dict[str, Any]) -> bytes:
    """A value behind Confluent's header."""
    body = io.BytesIO()
    fastavro.schemaless_writer(body, schema, value)
    return b"\0" + schema_id.to_bytes(4, "big") + body.getvalue()


def test_avro_whose_schema_changes(tmp_path: Path) -> None:
    schemas = tmp_path / "schemas"
    schemas.mkdir()
    for schema_id, schema in ((7, ORDER), (9, LATER)):
        (schemas / f"{schema_id}.avsc").write_text(json.dumps(schema))
    log = tmp_path / "t-0"
    log.mkdir()
    values = [confluent(7, ORDER, {"id": 1}), confluent(9, LATER, {"id": 2, "note": "x"}), b"\0\0\0\0\x07", None]
    append(log, [0, 1, 2, 3], values)
    out = tmp_path / "out"
    outcome = export(source(log), out, value=DecoderSpec.parse(f"avro:{schemas}"))
    rows = ds.dataset(out).to_table(columns=["offset", "value"]).to_pylist()
    assert rows == [
        {"offset": 0, "value": {"id": 1, "note": None}},
        {"offset": 1, "value": {"id": 2, "note": "x"}},
        {"offset": 3, "value": None},
    ]
    assert sum(file.records for file in outcome.dead_letters) == 1
    assert check_export(out).findings == []


def test_a_registry_that_does_not_answer(tmp_path: Path) -> None:
    log = tmp_path / "t-0"
    log.mkdir()
    append(log, [0], [confluent(7, ORDER, {"id": 1})])
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(KcliError, match=r"127\.0\.0\.1") as told:
        export(source(log), tmp_path / "out", value=DecoderSpec.parse(f"avro:{url}"))
    assert "\n" not in str(told.value)
    assert [each.name for each in tmp_path.iterdir()] == ["t-0"]


@pytest.mark.parametrize("schema", ["{", '{"type": "record"}', None])
def test_a_schema_that_is_none(schema: str | None, log: Path, tmp_path: Path) -> None:
    path = tmp_path / "order.avsc"
    if schema is not None:
        path.write_text(schema)
    with pytest.raises(KcliError, match=r"order\.avsc"):
        export(source(log), tmp_path / "out", value=DecoderSpec.parse(f"avro:{path}"))
    assert not (tmp_path / "out").exists()


def test_a_schema_that_does_not_fit(log: Path, tmp_path: Path) -> None:
    """Each record becomes a dead letter; none is lost."""
    path = tmp_path / "order.avsc"
    path.write_text(
        json.dumps(ORDER | {"fields": [{"name": "id", "type": {"type": "fixed", "name": "f", "size": 99}}]})
    )
    outcome = export(source(log), tmp_path / "out", value=DecoderSpec.parse(f"avro:{path}"))
    assert (outcome.records, sum(file.records for file in outcome.dead_letters)) == (0, 10)
    assert check_export(tmp_path / "out").findings == []


@pytest.mark.parametrize(
    "case", ["crc-field-flip", "zero-page-in-middle", "batch-removed", "compressed-truncated-zstd"]
)
def test_damage_is_skipped_and_reported(case: str, tmp_path: Path) -> None:
    """The table has all sound records; the damage table has the damaged bytes."""
    damaged = GOLDEN / "corrupt/cases" / case
    found = {}
    for mode in ("skip", "report"):
        given = {"onCorruption": mode, **({"corruptionReport": "beside"} if mode == "report" else {})}
        outcome = export(source(damaged, **given), tmp_path / mode)
        assert check_export(tmp_path / mode).findings == []
        found[mode] = outcome
    assert with_pyarrow(tmp_path / "skip") == with_pyarrow(tmp_path / "report")
    assert found["skip"].damage == ()
    reported = found["report"].damage
    assert found["report"].manifest.damage == reported
    if case != "batch-removed":
        assert len(reported) == 1
        table = ds.dataset(damage_directory(tmp_path / "report")).to_table()
        assert table.column("position").to_pylist() == [reported[0].position]
