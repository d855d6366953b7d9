"""The files that a command line names, in their order."""

from pathlib import Path

import pytest

from kcli.errors import UnreadableInput
from kcli.inspector.file_type import FileType
from kcli.inspector.inputs import input_files
from tests.conftest import GOLDEN


def names(path: Path, file_type: FileType | None = None) -> list[str]:
    return [Path(str(file.path)).relative_to(path).as_posix() for file in input_files(path, file_type)]


def make(root: Path, *paths: str) -> None:
    for path in paths:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()


def test_a_directory_is_its_segments_by_partition_and_offset(tmp_path: Path) -> None:
    first, second = "00000000000000000000.log", "00000000000000000010.log"
    make(tmp_path, f"b-2/{first}", f"b-10/{first}", f"b-2/{second}", f"a-0/{first}", f"a-0/{first}.deleted")
    make(
        tmp_path,
        f"c-0.82a778a9cb694b41879c54d505d0564c-delete/{first}",
        f"other/{first}",
        "a-0/00000000000000000000.index",
    )
    assert names(tmp_path) == [f"a-0/{first}", f"b-2/{first}", f"b-2/{second}", f"b-10/{first}"]
    assert names(tmp_path, FileType.INDEX) == ["a-0/00000000000000000000.index"]


def test_topic_and_partition_come_from_the_directory() -> None:
    (file,) = input_files(GOLDEN / "codecs/data/mixed-0/00000000000000000137.log", None)
    assert (file.type, file.topic, file.partition) == (FileType.LOG, "mixed", 0)
    snapshot = next((GOLDEN / "kraft/controller-100/__cluster_metadata-0").glob("*.checkpoint"))
    (file,) = input_files(snapshot, None)
    assert (file.type, file.topic, file.partition) == (FileType.KRAFT_SNAPSHOT, "__cluster_metadata", 0)
    (file,) = input_files(Path("-"), None)
    assert (file.is_stdin, file.type, file.topic, file.partition) == (True, FileType.LOG, None, None)


def test_remote_segments_are_those_of_their_partition() -> None:
    files = list(input_files(GOLDEN / "tiered/remote/kafka-tiered-storage", None))
    assert {file.topic for file in files} == {"r-keep", "r-short"}
    assert {file.partition for file in files if file.topic == "r-short"} == {0, 1}


def test_every_golden_file_kafka_reads_has_a_type() -> None:
    counted = 0
    for path in sorted((GOLDEN / "codecs/data").rglob("*")):
        if path.is_file() and path.suffix in {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"}:
            (file,) = input_files(path, None)
            assert file.type.value in {path.suffix[1:], "kraft-snapshot"}
            counted += 1
    assert counted > 100


def test_what_cannot_be_told_or_found_is_named(tmp_path: Path) -> None:
    make(tmp_path, "notes.txt", "empty/notes.txt")
    for path, reason in (
        (tmp_path / "notes.txt", "--type"),
        (tmp_path / "empty", "no log file"),
        (tmp_path / "no", "no such"),
    ):
        with pytest.raises(UnreadableInput, match=reason) as raised:
            list(input_files(path, None))
        assert raised.value.path == str(path)
    (file,) = input_files(tmp_path / "notes.txt", FileType.SNAPSHOT)
    assert file.type is FileType.SNAPSHOT
