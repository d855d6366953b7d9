"""Formatting, compared with the directories that Kafka's own tool formatted."""

import re
from pathlib import Path

import pytest

from formats.file_name import FileKind
from kcli.broker.metadata.format import NotThisNode, format_directories, random_id
from kcli.errors import StartRefused
from kcli.metadata.features import first_levels
from kcli.metadata.metadata_version import level_of
from kcli.metadata_log.snapshot_file import read_snapshot
from tests.broker.metadata_dirs import KAFKAS_LEVELS, NOW_MS, untimed
from tests.conftest import GOLDEN

FORMATTED = ["codecs/data", "txn/data", "groups/data", "kraft/dynamic-quorum"]


def meta(directory: Path) -> str:
    return (directory / FileKind.META_PROPERTIES).read_text()


@pytest.mark.parametrize("name", FORMATTED)
def test_writes_what_kafka_storage_writes(tmp_path: Path, name: str) -> None:
    format_directories([tmp_path / "d"], now_ms=NOW_MS, levels=KAFKAS_LEVELS)
    ours = (tmp_path / "d" / FileKind.BOOTSTRAP).read_bytes()
    assert untimed(ours) == untimed((GOLDEN / name / FileKind.BOOTSTRAP).read_bytes())
    id_or_date = r"=\S{22}|#\w{3} \w{3} \d\d [0-9:]{8} UTC \d{4}"
    assert re.sub(id_or_date, "?", meta(tmp_path / "d")) == re.sub(id_or_date, "?", meta(GOLDEN / name))
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == ["bootstrap.checkpoint", "meta.properties"]


def test_a_new_cluster_has_no_feature_that_nobody_serves(tmp_path: Path) -> None:
    """The same as with Kafka's `--feature share.version=0 --feature streams.version=0`, which writes no record of these
    features."""
    format_directories([tmp_path / "d"], now_ms=NOW_MS)
    batches = read_snapshot(tmp_path / "d" / FileKind.BOOTSTRAP)
    found = {value["name"]: value["featureLevel"] for batch in batches for _, _, value in batch.records}
    not_served = {"share.version", "streams.version"}
    assert found == {name: level for name, level in KAFKAS_LEVELS.items() if name not in not_served}


@pytest.mark.parametrize(
    ("version", "levels"),
    [
        ("3.3", (7, 0, 0, 0)),
        ("3.9.2", (21, 0, 0, 0)),
        ("4.0-IV0", (22, 0, 1, 0)),
        ("4.0-IV1", (23, 0, 1, 0)),
        ("4.0-IV2", (24, 0, 1, 2)),
        ("4.0", (25, 0, 1, 2)),
        ("4.1-IV0", (26, 1, 1, 2)),
        ("4.3", (30, 1, 1, 2)),
    ],
)
def test_the_features_of_a_release_are_those_of_version_mapping(version: str, levels: tuple[int, ...]) -> None:
    """What `kafka-storage version-mapping` prints."""
    level = level_of(version)
    assert level is not None
    names = ("metadata.version", "eligible.leader.replicas.version", "group.version", "transaction.version")
    assert {name: level for name, level in first_levels(level).items() if level} == {
        name: level for name, level in zip(names, levels, strict=True) if level
    }


@pytest.mark.parametrize("version", ["", "4", "4.4", "3.2", "3.3-IV1", "4.3-IV9", "nonsense"])
def test_no_release_of_that_name(version: str) -> None:
    assert level_of(version) is None


def test_transaction_version_0_as_kafka_formats_it(tmp_path: Path) -> None:
    golden = GOLDEN / "txn/data-tv0" / FileKind.BOOTSTRAP
    levels = {value["name"]: value["featureLevel"] for batch in read_snapshot(golden) for _, _, value in batch.records}
    assert "transaction.version" not in levels
    format_directories([tmp_path / "d"], now_ms=NOW_MS, levels={**levels, "transaction.version": 0})
    assert untimed((tmp_path / "d" / FileKind.BOOTSTRAP).read_bytes()) == untimed(golden.read_bytes())


def test_each_directory_gets_an_id_and_the_same_cluster(tmp_path: Path) -> None:
    directories = [tmp_path / "a", tmp_path / "b", tmp_path / "a"]
    first = format_directories(directories, now_ms=NOW_MS, node_id=7, cluster_id="5L6g3nShT-eMCtK--X86sw")
    assert (first.node_id, first.cluster_id) == (7, "5L6g3nShT-eMCtK--X86sw")
    assert len(set(first.directory_ids.values())) == 2
    before = meta(tmp_path / "a")
    assert format_directories(directories, now_ms=NOW_MS + 5000) == first
    assert meta(tmp_path / "a") == before
    third = format_directories([*directories, tmp_path / "c"], now_ms=NOW_MS)
    assert (third.node_id, third.cluster_id) == (7, first.cluster_id)
    assert third.directory_ids[tmp_path / "c"] not in first.directory_ids.values()


def test_a_new_node_is_node_1_of_a_new_cluster(tmp_path: Path) -> None:
    first = format_directories([tmp_path / "a"], now_ms=NOW_MS)
    second = format_directories([tmp_path / "b"], now_ms=NOW_MS)
    assert first.node_id == second.node_id == 1
    assert first.cluster_id != second.cluster_id


@pytest.mark.parametrize("wanted", [{"node_id": 2}, {"cluster_id": random_id()}])
def test_refuses_the_directories_of_another_node(tmp_path: Path, wanted: dict[str, int | str]) -> None:
    format_directories([tmp_path / "a"], now_ms=NOW_MS)
    with pytest.raises(NotThisNode, match=r"a: (node|cluster).id is "):
        format_directories([tmp_path / "a", tmp_path / "b"], now_ms=NOW_MS, **wanted)  # type: ignore[arg-type]
    assert not (tmp_path / "b").exists()


def test_refuses_the_same_directory_twice(tmp_path: Path) -> None:
    format_directories([tmp_path / "a"], now_ms=NOW_MS)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / FileKind.META_PROPERTIES).write_text(meta(tmp_path / "a"))
    with pytest.raises(NotThisNode, match=r"the same directory\.id"):
        format_directories([tmp_path / "a", tmp_path / "b"], now_ms=NOW_MS)


def test_a_directory_of_an_older_kafka_gets_an_id(tmp_path: Path) -> None:
    path = tmp_path / FileKind.META_PROPERTIES
    path.write_text("version=1\nnode.id=3\ncluster.id=5L6g3nShT-eMCtK--X86sw\n")
    found = format_directories([tmp_path], now_ms=NOW_MS)
    assert f"directory.id={found.directory_ids[tmp_path]}\n" in path.read_text()
    assert not (tmp_path / FileKind.BOOTSTRAP).exists()


@pytest.mark.parametrize("version", ["version=0\n", ""])
def test_a_directory_of_version_0_stays_one(tmp_path: Path, version: str) -> None:
    """The directory keeps its version; the start only adds directory.id, as Kafka 4.3.0 does."""
    path = tmp_path / FileKind.META_PROPERTIES
    path.write_text(f"{version}broker.id=3\ncluster.id=5L6g3nShT-eMCtK--X86sw\n")
    found = format_directories([tmp_path], now_ms=NOW_MS)
    assert (found.node_id, found.cluster_id) == (3, "5L6g3nShT-eMCtK--X86sw")
    assert {"broker.id=3", "version=0", f"directory.id={found.directory_ids[tmp_path]}"} <= {*path.read_text().split()}


@pytest.mark.parametrize(
    "text",
    ["version=0\nbroker.id=1\n", "version=0\nnode.id=1\ncluster.id=x\n", "", "version=1\nnode.id=1\n", "version=9\n"],
)
def test_refuses_what_is_no_kraft_directory(tmp_path: Path, text: str) -> None:
    (tmp_path / FileKind.META_PROPERTIES).write_text(text)
    with pytest.raises(StartRefused):
        format_directories([tmp_path], now_ms=NOW_MS)


def test_ids_are_as_kafkas() -> None:
    ids = [random_id() for _ in range(500)]
    assert len(set(ids)) == 500
    assert all(re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_-]{21}", each) for each in ids)
