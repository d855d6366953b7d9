"""The store of LocalTieredStorage: what it lists, and that nothing leads out of it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from formats.file_name import FileKind
from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.tier.layout import inventory, object_name, parse_name
from kcli.tier.local import LocalStore
from kcli.tier.segment import TieredPartition
from kcli.tier.store import ObjectMissing
from tests.conftest import GOLDEN
from tests.tier.records import PARTITION, uuid

REMOTE = GOLDEN / "tiered/remote"


@pytest.mark.parametrize("directory", [REMOTE, REMOTE / "kafka-tiered-storage"])
def test_golden_names(directory: Path) -> None:
    store = LocalStore(directory)
    objects = list(store.list_objects())
    assert len(objects) == 114
    assert [each.odd for each in objects if each.odd] == []
    assert [each.name for each in objects] == sorted(each.name for each in objects)
    for each in objects:
        parsed = parse_name(each.name)
        assert parsed is not None
        assert object_name(*parsed) == each.name
        assert store.size(each.name) == each.size
    assert len(inventory(objects).partitions) == 3


def test_a_prefix() -> None:
    store = LocalStore(REMOTE)
    names = [each.name for each in store.list_objects()]
    for prefix in (
        "",
        "r-",
        "r-short-1-",
        "r-short-1-KlEWaF5xTFCF8vBhf0Z2Xg/",
        "r-keep-0-AfZIDr-ETkKHqZArICDNNw/000000000000000001",
        "x",
    ):
        assert [each.name for each in store.list_objects(prefix)] == [each for each in names if each.startswith(prefix)]


@pytest.mark.parametrize(
    "name",
    [
        *("", "/", "a", "a/", "/a", "../a", "a/..", "a/../b", "a/b/c", "./a", "a/.", "a\0b/c", "a/b\0"),
    ],
)
def test_names_that_lead_out(tmp_path: Path, name: str) -> None:
    store = LocalStore(tmp_path)
    reads = store.open, store.size, lambda each: store.read(each, 0, 1)
    for use in (*reads, store.delete, lambda each: store.write(each, [b"x"])):
        with pytest.raises(UsageError):
            use(name)
    with pytest.raises(UsageError), store.as_file(name):
        pass
    assert list(tmp_path.iterdir()) == []


def test_links_are_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "store"
    (outside / "d").mkdir(parents=True)
    (outside / "d/secret").write_bytes(b"secret")
    (inside / "p").mkdir(parents=True)
    (inside / "p/link").symlink_to(outside / "d/secret")
    (inside / "linked").symlink_to(outside / "d")
    os.mkfifo(inside / "p/pipe")
    (inside / "p/directory").mkdir()
    (inside / "file").write_bytes(b"")
    store = LocalStore(inside)
    listed = {each.name: each.odd for each in store.list_objects()}
    assert set(listed) == {"file", "linked", "p/directory", "p/link", "p/pipe"}
    assert all(listed.values())
    for name in ("p/link", "linked/secret", "p/directory", "p/pipe", "file/x", "p/none", "none/none"):
        with pytest.raises(KcliError):
            store.open(name)
    for name in ("linked/new", "file/new"):
        with pytest.raises((KcliError, OSError)):
            store.write(name, [b"new"])
    store.write("p/link", [b"new"])
    assert (outside / "d/secret").read_bytes() == b"secret"
    assert not (inside / "p/link").is_symlink()


def test_write_read_delete(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    name = object_name(PARTITION, 7, uuid(1), FileKind.LOG)
    assert name == f"orders-0-{PARTITION.topic_id}/00000000000000000007-{uuid(1)}.log"
    store.write(name, [b"ab", memoryview(b"cd")])
    assert [tuple(each) for each in store.list_objects()] == [(name, 4, None, None)]
    source, buffer = store.open(name), bytearray(2)
    assert (source.read_at(1, memoryview(buffer)), bytes(buffer)) == (2, b"bc")
    source.close()
    assert [store.read(name, *each) for each in ((1, 3), (1, 99), (4, 9), (0, 0))] == [b"bc", b"bcd", b"", b""]
    with store.as_file(name) as path:
        assert path.read_bytes() == b"abcd"
    store.delete(name)
    store.delete(name)
    with pytest.raises(ObjectMissing):
        store.size(name)


def test_nothing_is_deleted_of_a_store_that_is_away(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    store = LocalStore(tmp_path / "store")
    store.write("p/x", [b"x"])
    (tmp_path / "store").rename(tmp_path / "away")
    with pytest.raises(UnreadableInput, match="the store is not there"):
        store.delete("p/x")
    (tmp_path / "store").write_text("a file")
    with pytest.raises(UnreadableInput, match="the store is not there"):
        store.delete("p/x")


@pytest.mark.parametrize(
    "name",
    [
        "orders-0/00000000000000000000-AAAAAAAAAAAAAAAAAAAAAA.log",
        "orders-0-AAAAAAAAAAAAAAAAAAAAAA/00000000000000000000-AAAAAAAAAAAAAAAAAAAAAA.log.deleted",
        "orders-0-AAAAAAAAAAAAAAAAAAAAAA/00000000000000000000_AAAAAAAAAAAAAAAAAAAAAA.log",
        "orders-0-AAAAAAAAAAAAAAAAAAAAAA/0-AAAAAAAAAAAAAAAAAAAAAA.log",
        "orders-0-AAAAAAAAAAAAAAAAAAAAAA/99999999999999999999-AAAAAAAAAAAAAAAAAAAAAA.log",
        "orders-0-AAAAAAAAAAAAAAAAAAAAAA/00000000000000000000.log",
        "orders-00-AAAAAAAAAAAAAAAAAAAAAA/00000000000000000000-AAAAAAAAAAAAAAAAAAAAAA.log",
        "orders-99999999999-AAAAAAAAAAAAAAAAAAAAAA/00000000000000000000-AAAAAAAAAAAAAAAAAAAAAA.log",
        "x",
    ],
)
def test_other_names(name: str) -> None:
    assert parse_name(name) is None


def test_a_topic_with_dashes() -> None:
    whose = TieredPartition("a-1-b", 12, uuid(2**127))
    assert parse_name(object_name(whose, 0, uuid(3), FileKind.TXN_INDEX)) == (whose, 0, uuid(3), FileKind.TXN_INDEX)


def test_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for each in ("none", "file"):
        with pytest.raises(UnreadableInput):
            LocalStore(tmp_path / each)


def test_a_store_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    """As where its file system is no longer mounted: what is written then would be on another disk."""
    (tmp_path / "store").mkdir()
    store = LocalStore(tmp_path / "store")
    store.write(object_name(PARTITION, 7, uuid(1), FileKind.LOG), [b"ab"])
    (tmp_path / "store").rename(tmp_path / "away")
    with pytest.raises(ObjectMissing):
        store.write(object_name(PARTITION, 8, uuid(2), FileKind.LOG), [b"ab"])
    assert not (tmp_path / "store").exists()


def test_a_partition_that_is_deleted_while_the_store_is_listed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_bytes(b"1")
    objects = LocalStore(tmp_path).list_objects()
    assert next(objects).name == "a/x"
    shutil.rmtree(tmp_path / "b")
    assert list(objects) == []
