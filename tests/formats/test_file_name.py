"""Names of files and directories, in every state that Kafka gives them."""

import pytest

from formats.file_name import DirectoryName, FileKind, FileName, build, build_directory, parse, parse_directory

SEGMENT = "00000000000000000036"
UNIQUE = "82a778a9cb694b41879c54d505d0564c"
ID = "AfZIDr-ETkKHqZArICDNNw"


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("00000000000000000007.log", FileName(FileKind.LOG, 7)),
        ("00000000000000000007.index.deleted", FileName(FileKind.OFFSET_INDEX, 7, state="deleted")),
        ("00000000000000000007.timeindex.cleaned", FileName(FileKind.TIME_INDEX, 7, state="cleaned")),
        ("00000000000000000007.txnindex.swap", FileName(FileKind.TXN_INDEX, 7, state="swap")),
        ("09223372036854775807.snapshot", FileName(FileKind.PRODUCER_SNAPSHOT, 2**63 - 1)),
        ("00000000000000000042-0000000003.checkpoint", FileName(FileKind.KRAFT_SNAPSHOT, 42, 3)),
        (f"{SEGMENT}-0000000003.checkpoint.deleted", FileName(FileKind.KRAFT_SNAPSHOT, 36, 3, state="deleted")),
        (f"00000000000000000036-{ID}.log", FileName(FileKind.LOG, 36, remote_id=ID)),
        (f"{SEGMENT}-{ID}.leader_epoch_checkpoint", FileName(FileKind.REMOTE_LEADER_EPOCHS, 36, remote_id=ID)),
        ("bootstrap.checkpoint", FileName(FileKind.BOOTSTRAP)),
        ("leader-epoch-checkpoint", FileName(FileKind.LEADER_EPOCHS)),
        ("quorum-state.tmp", FileName(FileKind.QUORUM_STATE, state="tmp")),
        (".kafka_cleanshutdown", FileName(FileKind.CLEAN_SHUTDOWN)),
        (".lock", FileName(FileKind.LOCK)),
    ],
)
def test_files_there_and_back(name: str, parsed: FileName) -> None:
    assert parse(name) == parsed
    assert build(parsed) == name


def test_names_that_are_read_but_not_given_by_build() -> None:
    assert parse(f"36_{ID}.txnindex") == FileName(FileKind.TXN_INDEX, 36, remote_id=ID)
    assert parse("7.log") == FileName(FileKind.LOG, 7)
    partial = "00000000000000000042-0000000003-8239.checkpoint.part"
    assert parse(partial) == FileName(FileKind.KRAFT_SNAPSHOT, 42, 3, state="part")


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".log",
        "x.log",
        "-1.log",
        "\u0667.log",
        "99999999999999999999.log",
        f"{SEGMENT}.txt",
        f"{SEGMENT}.log.deleted.deleted",
        f"{SEGMENT}.log.part",
        f"{SEGMENT}.timeindex.tmp",
        "leader_epoch_checkpoint",
        "README.md",
    ],
)
def test_files_that_kafka_does_not_make(name: str) -> None:
    assert parse(name) is None


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        ("orders-0", DirectoryName("orders", 0)),
        ("a-1-2", DirectoryName("a-1", 2)),
        ("__consumer_offsets-49", DirectoryName("__consumer_offsets", 49)),
        (f"a.b-3.{UNIQUE}-delete", DirectoryName("a.b", 3, "delete", UNIQUE)),
        (f"t-0.{UNIQUE}-future", DirectoryName("t", 0, "future", UNIQUE)),
        (f"t-0.{UNIQUE}-stray", DirectoryName("t", 0, "stray", UNIQUE)),
        (f"r-keep-0-{ID}", DirectoryName("r-keep", 0, "remote", ID)),
    ],
)
def test_directories_there_and_back(name: str, parsed: DirectoryName) -> None:
    assert parse_directory(name) == parsed
    assert build_directory(parsed) == name


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [("a b-0", "a b", 0), ("été-1", "été", 1), ("orders-007", "orders", 7), ("x-+1", "x", 1)],
)
def test_directories_that_kafka_takes_and_does_not_make(name: str, topic: str, partition: int) -> None:
    assert parse_directory(name) == DirectoryName(topic, partition)


@pytest.mark.parametrize(
    "name", ["", "orders", "-0", "orders-", "orders-x", "a b-0.u-stray", "t-0-delete", "t-4294967296"]
)
def test_directories_that_are_no_partitions(name: str) -> None:
    assert parse_directory(name) is None
