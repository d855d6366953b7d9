"""Tier and local logs are read together, each offset once, as a consumer read them; and the tier alone, as far as it
goes. From a directory, and from a bucket."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kcli.errors import UnreadableInput, UsageError
from kcli.export.check import check_export
from kcli.export.corruption import CorruptLog
from kcli.export.export_options import ExportOptions
from kcli.export.files import tier_store
from kcli.export.job import Job
from kcli.export.manifest import read_manifest
from kcli.export.options import SourceOptions
from kcli.export.outcome import Outcome
from kcli.export.reading import read
from kcli.export.splits import plan
from kcli.tier.key_pairs import VARIABLE
from tests.cli.run import kcli
from tests.conftest import GOLDEN, Json, is_soak
from tests.export.in_process import InProcess
from tests.export.micro_batches import Query
from tests.export.tables import TRUTH_COLUMNS, as_truth, load
from tests.export.test_reading_golden import ISOLATIONS, told
from tests.tier.conftest import REMOTE
from tests.tier.s3 import Proxy, Reply, s3_error
from tests.tier.stores import SHORT, TIERED, Copy, changed
from tests.tier.worlds import make, values

DATA = TIERED / "data"
URL = "s3://golden/a/tier"
TOPICS = "r-keep,r-short"
TIER_ENDS = {("r-keep", 0): 224, ("r-short", 0): 254, ("r-short", 1): 282}
OPEN_IN_THE_TIER = {("r-keep", 0): 220, ("r-short", 0): 253, ("r-short", 1): 279}
"""Where a transaction begins that ends behind the tier's last segment."""
LIVES, SOAK_LIVES = 40, 2_000


def expected(isolation: str = "read_uncommitted", topics: str = TOPICS) -> list[Json]:
    suffix = ".read_committed" if isolation == "read_committed" else ""
    return told(*(TIERED / f"expected/truth/{topic}{suffix}.jsonl.gz" for topic in topics.split(",")))


def found(remote: Path | str, *paths: Path, topics: str = TOPICS, **options: str) -> list[Json]:
    return as_truth(load(*paths, columns=TRUTH_COLUMNS, subscribe=topics, tier=str(remote), **options))


def texts(rows: list[Json]) -> set[str]:
    """Return each row as one text; all rows differ."""
    found = {json.dumps(row, sort_keys=True) for row in rows}
    assert len(found) == len(rows)
    return found


def below(rows: list[Json], ends: dict[tuple[str, int], int]) -> list[Json]:
    return [row for row in rows if row["offset"] < ends[row["topic"], row["partition"]]]


def export(out: Path, remote: str | Path, *paths: Path, **options: str) -> Outcome:
    columns = "key,value,topic,partition,offset,timestamp,timestampType,headers,leaderEpoch,timestampMs,segment"
    given = {"paths": json.dumps([*map(str, paths)]), "tier": str(remote), "columns": columns, "subscribe": TOPICS}
    parsed = SourceOptions.parse({**given, **options})
    return Job(ExportOptions(parsed, out), InProcess()).run()  # type: ignore[arg-type]


@pytest.fixture(params=["directory", "bucket"])
def store(request: pytest.FixtureRequest) -> str:
    """The tier of golden/tiered: its directory, or a bucket."""
    if request.param == "directory":
        return str(REMOTE)
    request.getfixturevalue("s3")
    return URL


@pytest.fixture
def copy(tmp_path: Path) -> Copy:
    return Copy.of_golden(tmp_path)


@pytest.mark.parametrize("isolation", ISOLATIONS)
@pytest.mark.parametrize("where", [["."], ["r-keep-0", "r-short-0", "r-short-1"]], ids=["directory", "partitions"])
def test_tier_and_local_logs(store: str, isolation: str, where: list[str]) -> None:
    assert found(store, *(DATA / each for each in where), isolation=isolation) == expected(isolation)


def test_the_tier_alone(store: str) -> None:
    assert found(store) == below(expected(), TIER_ENDS)
    assert found(store, isolation="read_committed") == below(expected("read_committed"), OPEN_IN_THE_TIER)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_small_splits(store: str, isolation: str) -> None:
    """Splits end inside of transactions, whose markers are in later segments, and in the local log."""
    options = {"isolation": isolation, "maxRecordsPerPartition": "7"}
    assert found(store, DATA, **options) == expected(isolation)


@pytest.mark.parametrize(("first", "behind"), [(0, 10), (100, 200), (250, 260), (253, 254), (254, 255), (240, 300)])
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_ranges_across_the_boundary(first: int, behind: int, isolation: str) -> None:
    given = {"assign": '{"r-short":[0]}', "isolation": isolation, "columns": TRUTH_COLUMNS, "tier": str(REMOTE)}
    given["startingOffsets"], given["endingOffsets"] = (
        json.dumps({"r-short": {"0": offset}}) for offset in (first, behind)
    )
    wanted = [
        row for row in expected(isolation, "r-short") if row["partition"] == 0 and first <= row["offset"] < behind
    ]
    assert as_truth(load(DATA, **given)) == wanted


def test_times(store: str, copy: Copy, tmp_path: Path) -> None:
    """A time is looked up in the segments of the tier, as in the same log with all of its segments."""
    copy.fetched(tmp_path / "whole")
    rows = [row for row in expected(topics="r-short") if row["partition"] == 1]
    markers_ms = 1_795_262_000_000
    for at in (rows[0]["timestamp"], max(row["timestamp"] for row in rows), markers_ms, markers_ms + 70_000, 2**50):
        given = {"assign": '{"r-short":[1]}', "startingTimestamp": str(at), "columns": "offset"}
        given["startingOffsetsByTimestampStrategy"] = "latest"
        assert load(DATA, tier=store, **given) == load(tmp_path / "whole", **given)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_an_export(store: str, isolation: str, tmp_path: Path) -> None:
    outcome = export(tmp_path / "out", store, DATA, isolation=isolation)
    table = pq.read_table(tmp_path / "out")
    assert as_truth(table) == expected(isolation)
    manifest = read_manifest(tmp_path / "out")
    assert [(each.start, each.end, each.missing) for each in manifest.partitions if each.topic == "r-short"] == [
        (0, end, end - len([row for row in expected(isolation, "r-short") if row["partition"] == number]))
        for number, end in ((0, 296), (1, 290))
    ]
    assert outcome.records == len(expected(isolation))
    proof = check_export(tmp_path / "out")
    assert (proof.findings, proof.records) == ([], outcome.records)


def test_an_export_of_the_tier_alone_and_then_of_the_local_logs(store: str, tmp_path: Path) -> None:
    """Increments: the tier as far as it goes, then the rest from another place."""
    given = SourceOptions.parse({"tier": store, "columns": TRUTH_COLUMNS, "subscribe": TOPICS})
    whole = SourceOptions.parse({"path": str(DATA), "tier": store, "columns": TRUTH_COLUMNS, "subscribe": TOPICS})
    counts = []
    for each in (given, whole, whole):
        options = ExportOptions(each, tmp_path / "out", state=tmp_path / "state")
        counts.append(Job(options, InProcess()).run().records)  # type: ignore[arg-type]
    assert counts == [685, 787 - 685, 0]
    assert as_truth(pq.read_table(tmp_path / "out")) == expected()


def test_spark(spark: SparkSession) -> None:
    """Spark's workers read the objects themselves."""
    for isolation in ISOLATIONS:
        options = {"tier": str(REMOTE), "columns": TRUTH_COLUMNS, "subscribe": TOPICS, "isolation": isolation}
        together = spark.read.format("kafka-log").options(**options).load(str(DATA))
        assert as_truth(together.toArrow()) == expected(isolation)
    options = {"tier": str(REMOTE), "columns": TRUTH_COLUMNS, "subscribe": TOPICS}
    alone = spark.read.format("kafka-log").options(**options).load()
    assert as_truth(alone.toArrow()) == below(expected(), TIER_ENDS)


def test_the_command(s3: str, tmp_path: Path) -> None:
    """Spark's workers read the objects of a bucket, with the environment's credentials."""
    arguments = "--topic", TOPICS, "--out", tmp_path / "out"
    ended = kcli("export-to-parquet", DATA, "--tier", URL, *arguments, timeout=300)
    assert (ended.status, ended.stderr) == (0, "")
    assert pq.read_table(tmp_path / "out").num_rows == len(expected())
    assert kcli("export-to-parquet", "--check", tmp_path / "out", timeout=300).status == 0


def rows_of(rows: list[Json]) -> list[tuple[str, int, int]]:
    return sorted((row["topic"], row["partition"], row["offset"]) for row in rows)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_stream(store: str, isolation: str) -> None:
    options = {"tier": store, "subscribe": TOPICS, "startingOffsets": "earliest", "isolation": isolation}
    query = Query(DATA, maxOffsetsPerTrigger="100", **options)
    while query.run() or query.done < 8:
        pass
    assert sorted(row[:3] for row in query.rows) == rows_of(expected(isolation))


# lineages


def test_lives_of_partitions(tmp_path: Path) -> None:
    """With several leaders each offset comes from the segment of the epoch that the log has there."""
    cuts = 0
    for seed in range(SOAK_LIVES if is_soak() else LIVES):
        home = tmp_path / str(seed)
        world = make(home, seed)
        for paths, log in (([home / "data"], world.log), ([], world.tiered)):
            if not paths and not world.copies:
                continue
            options = SourceOptions.parse(
                {
                    "paths": json.dumps([*map(str, paths)]),
                    "tier": str(home / "tier"),
                    "columns": "offset,leaderEpoch",
                    "maxRecordsPerPartition": str(3 + seed % 9),
                    "beyondHighWatermark": "true",
                }
            )
            splits = plan(options)
            cuts += sum(each.is_whole and each.from_offset > each.base_offset for each in splits)
            rows = [row for each in splits for batch in read(each, options.columns) for row in batch.to_pylist()]
            assert [(row["offset"], row["leaderEpoch"]) for row in rows] == values(log), seed
        shutil.rmtree(home)
    assert cuts > 10, "segments of which only a part is read"


def test_segments_that_a_broker_deletes_after_planning(copy: Copy) -> None:
    """What was local when the query was planned is read from the tier."""
    for isolation in ISOLATIONS:
        options = SourceOptions.parse(
            {
                "path": str(copy.data),
                "tier": str(copy.remote),
                "columns": TRUTH_COLUMNS,
                "subscribe": "r-keep",
                "isolation": isolation,
                "minPartitions": "30",
            }
        )
        splits = plan(options)
        assert all(each.segment.startswith(str(copy.data)) for each in splits), "all of it is local"
        moved = [
            path
            for path in (copy.data / "r-keep-0").iterdir()
            if path.name[:20].isdigit() and int(path.name[:20]) < 224
        ]
        kept = {path: path.read_bytes() for path in moved}
        for path in moved:
            path.unlink()
        batches = [batch.to_pylist() for each in splits for batch in read(each, options.columns)]
        offsets = [row["offset"] for batch in batches for row in batch]
        assert offsets == [row["offset"] for row in expected(isolation, "r-keep")]
        for path, data in kept.items():
            path.write_bytes(data)


def test_partitions_that_only_the_tier_has(copy: Copy) -> None:
    """A log directory that has lost a partition still has the metadata of its segments."""
    shutil.rmtree(copy.data / "r-short-1")
    lost = [row for row in expected(topics="r-short") if (row["partition"], row["offset"] >= 282) != (1, True)]
    assert found(copy.remote, copy.data, topics="r-short") == lost
    alone = found(copy.remote, copy.data / "r-short-0", topics="r-short")
    assert alone == [row for row in lost if row["partition"] == 0], "the path names one partition"


def test_objects_of_which_no_metadata_tells(copy: Copy) -> None:
    """Beside a log directory they are what is left of a deleted topic; alone they are a topic."""
    home = copy.remote / "kafka-tiered-storage"
    gone = home / "gone-0-KlEWaF5xTFCF8vBhf0Z2Xg"
    shutil.copytree(home / SHORT, gone)
    with pytest.raises(UsageError, match="no topic 'gone' in "):
        found(copy.remote, copy.data, topics="gone")
    alone = found(copy.remote, topics="gone")
    assert [row["value"] for row in alone] == [
        row["value"] for row in found(copy.remote, topics="r-short") if row["partition"] == 0
    ]


def test_two_topics_of_one_name(copy: Copy) -> None:
    home = copy.remote / "kafka-tiered-storage"
    shutil.copytree(home / SHORT, home / SHORT.replace("KlEW", "AlEW"))
    with pytest.raises(
        UnreadableInput, match=r"r-short: two topics of the tier have this name, with the ids AlEW.* and KlEW"
    ):
        found(copy.remote, topics="r-short")
    assert found(copy.remote, copy.data) == expected()
    assert found(copy.remote, topics="r-keep")


# damage


def test_a_missing_object(copy: Copy, tmp_path: Path) -> None:
    path = copy.object(5, ".log")
    path.unlink()
    with pytest.raises(UnreadableInput) as caught:
        found(copy.remote, copy.data)
    assert str(caught.value) == (
        f"{path}: no such object, of the offsets 5..85 (onCorruption=skip goes on without them)"
    )
    rest = [row for row in expected() if row["topic"] == "r-keep" or row["partition"] or not 5 <= row["offset"] <= 85]
    assert found(copy.remote, copy.data, onCorruption="skip") == rest
    after = json.dumps({"r-short": {"0": 86, "1": 0}})
    assert found(copy.remote, copy.data, topics="r-short", startingOffsets=after), (
        "what is not asked for may be missing"
    )
    outcome = export(tmp_path / "out", copy.remote, copy.data, onCorruption="skip")
    (gaps,) = (each.gaps for each in outcome.manifest.partitions if (each.topic, each.partition) == ("r-short", 0))
    assert any(first <= 5 and last >= 85 for first, last in gaps)


@pytest.mark.parametrize("is_cut", [True, False])
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_the_last_object_of_the_tier_alone(copy: Copy, isolation: str, *, is_cut: bool) -> None:
    """Without metadata its name and its indexes tell of offsets that are lost."""
    home = copy.remote / "kafka-tiered-storage" / SHORT
    path = max(home.glob("*.log"))
    first = int(path.name[:20])
    if is_cut:
        path.write_bytes(path.read_bytes()[:-100])
    else:
        path.unlink()
    with pytest.raises(UnreadableInput, match=r"of the offsets .* on ") as caught:
        found(copy.remote, topics="r-short", isolation=isolation)
    assert str(path) in str(caught.value)
    ends = json.dumps({"r-short": {"0": first, "1": -1}})
    wanted = [row for row in expected(isolation, "r-short") if row["partition"] or row["offset"] < first]
    rest = [row for row in below(wanted, TIER_ENDS) if isolation == "read_uncommitted" or row["partition"] == 0]
    told_of = found(copy.remote, topics="r-short", isolation=isolation, endingOffsets=ends)
    assert [row for row in told_of if row in rest] == rest
    skipped = found(copy.remote, topics="r-short", isolation=isolation, onCorruption="skip")
    assert [row for row in skipped if row["partition"] == 0 and row["offset"] < first] == [
        row for row in rest if row["partition"] == 0
    ]


def test_the_first_object_is_missing(copy: Copy) -> None:
    copy.object(0, ".log").unlink()
    with pytest.raises(UnreadableInput, match=r"no such object, of the offsets 0\.\.4 "):
        found(copy.remote, copy.data)
    skipped = found(copy.remote, copy.data, topics="r-short", onCorruption="skip")
    assert skipped == [row for row in expected(topics="r-short") if row["partition"] or row["offset"] > 4]


def test_no_segment_has_some_offsets(copy: Copy) -> None:
    for suffix in ("log", "index", "timeindex", "snapshot", "leader_epoch_checkpoint", "txnindex"):
        for path in (copy.remote / "kafka-tiered-storage" / SHORT).glob(f"{90:020}-*.{suffix}"):
            path.unlink()
    with pytest.raises(UnreadableInput, match=f"{SHORT}: no segment has the offsets 90..165 .onCorruption=skip"):
        found(copy.remote, topics="r-short")


@pytest.mark.parametrize("size", [0, 5000, 8192])
def test_an_object_that_is_cut(copy: Copy, size: int) -> None:
    path = copy.object(90, ".log")
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CorruptLog) as caught:
        found(copy.remote, copy.data)
    assert str(caught.value).startswith(f"{path}, byte ")
    skipped = found(copy.remote, copy.data, onCorruption="skip")
    assert texts(skipped) < texts(expected())


def test_an_object_that_is_cut_between_batches(copy: Copy) -> None:
    """Kafka's segments in the tier are whole: what is not in the object is lost, though nothing else shows it."""
    from kcli.log.stored_batches import read_batches

    path = copy.object(90, ".log")
    position, offset = [(row.position, row.base_offset) for row, _ in read_batches(path)][-1]
    path.write_bytes(path.read_bytes()[:position])
    with pytest.raises(CorruptLog, match=f"the segment ends in front of offset {offset}, its last offset is "):
        found(copy.remote, copy.data)


def test_the_object_of_another_segment(copy: Copy) -> None:
    path = copy.object(5, ".log")
    path.write_bytes(copy.object(86, ".log").read_bytes())
    with pytest.raises(CorruptLog, match="the first batch has offset 86, above 5"):
        found(copy.remote, copy.data)


def test_a_flipped_byte(copy: Copy) -> None:
    with changed(copy.object(172, ".log")) as data:
        data[1000] ^= 1
    with pytest.raises(CorruptLog, match=r"\.log, byte [0-9,]+: .*onCorruption=skip"):
        found(copy.remote, copy.data)
    assert len(found(copy.remote, copy.data, onCorruption="skip")) < len(expected())


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_other_objects_are_not_needed(copy: Copy, suffix: str, isolation: str) -> None:
    """Of indexes and snapshots that are damaged or missing, the log tells the same."""
    for number, path in enumerate(sorted(copy.remote.rglob(f"*{suffix}"))):
        if number % 2:
            path.write_bytes(b"\xff" * 21)
        else:
            path.unlink()
    assert found(copy.remote, copy.data, isolation=isolation) == expected(isolation)


def denied(*_: object) -> Reply:
    yield s3_error("403 Forbidden", "AccessDenied")


def test_denied_objects(proxy: Proxy, tmp_path: Path) -> None:
    proxy.fault = lambda request, answer: denied() if b".log" in request.partition(b"\r\n")[0] else iter([answer()])
    ended = kcli("export-to-parquet", DATA, "--tier", URL, "--topic", "r-short", "--out", tmp_path / "out")
    assert (ended.status, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert ended.stderr.startswith(f"kcli: {URL}/kafka-tiered-storage/{SHORT}/")
    assert "access denied" in ended.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("remote", "text"),
    [
        ("s3://golden/nothing", "s3://golden/nothing: no object's name begins with this prefix"),
        ("s3://nothing/x", "s3://nothing/x: no such bucket (NoSuchBucket); check its name, AWS_ENDPOINT_URL"),
        ("ftp://golden/x", "tier: 'ftp' is no kind of store"),
        ("s3://k:s3cr3t@golden/x", "tier: a URL is s3://bucket/prefix, without user, password, port or query"),
        ("/nowhere", "/nowhere: No such file or directory"),
    ],
)
def test_no_tier(s3: str, remote: str, text: str, tmp_path: Path) -> None:
    ended = kcli("export-to-parquet", DATA, "--tier", remote, "--topic", "r-short", "--out", tmp_path / "out")
    assert (ended.status, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert ended.stderr.startswith(f"kcli: {text}")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (DATA / "r-short-0/00000000000000000254.log", "a tier completes directories, not single segments"),
        ("s3://golden/a/tier", "must be on this machine"),
    ],
)
def test_paths_that_no_tier_completes(path: Path | str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        load(path, tier=str(REMOTE))


# the layout of Aiven's plugin

AIVEN = GOLDEN / "aiven"


@pytest.fixture
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"key1={AIVEN / 'private.pem'}")
    tier_store.cache_clear()


@pytest.mark.usefixtures("_keys")
@pytest.mark.parametrize("name", ["zstd/some", "both"])
@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_what_aivens_plugin_has_written(name: str, isolation: str) -> None:
    """Beside the local logs, whole and in small splits, the records are those of Kafka's consumer."""
    assert found(AIVEN / name, DATA, isolation=isolation) == expected(isolation)
    assert found(AIVEN / name, DATA, isolation=isolation, maxRecordsPerPartition="7") == expected(isolation)


def test_without_the_key_of_aivens_plugin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    tier_store.cache_clear()
    with pytest.raises(UnreadableInput, match="encrypted with key pair 'key1'"):
        found(AIVEN / "both", DATA)


@pytest.mark.usefixtures("_keys")
def test_a_damaged_chunk_of_aivens_plugin(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It ends the run; with onCorruption=skip, the batches in it are left out, and those behind it are read."""
    store = shutil.copytree(AIVEN / "both", tmp_path / "a %?é")
    (log,) = store.glob("r-short-*/0/*172-*.log")
    with changed(log) as data:
        data[2500] ^= 1  # in the second of three chunks
    with pytest.raises(UnreadableInput, match=r"172-.*\.log: byte 1,630: chunk 2 of 3: the AES-GCM tag"):
        found(store, DATA, topics="r-short")
    rows, whole = found(store, DATA, topics="r-short", onCorruption="skip"), expected(topics="r-short")
    lost = [row["offset"] for row in whole if row not in rows]
    assert [row for row in whole if row["offset"] not in lost or row["partition"] == 1] == rows
    assert (min(lost), len(lost)) == (196, 27)  # of all batches with a byte in bytes 4,096 to 8,192
    assert "chunk 2 of 3: the AES-GCM tag" in caplog.text
