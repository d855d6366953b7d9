"""Checkpoints, properties and quorum state: texts that Kafka accepts, refuses, and writes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats import checkpoint, properties, quorum_state
from formats.checkpoint import EpochEntry, OffsetEntry
from formats.errors import BadCount, BadNumber, BadValue, FormatError, UnknownVersion
from formats.properties import MetaProperties, PartitionMetadata, Properties
from formats.quorum_state import QuorumState

INT32, INT64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
ID = "mz8cEJEaNH3MNdRqSwDeqA"


@given(st.lists(st.builds(EpochEntry, INT32, INT64), max_size=5).map(tuple))
def test_leader_epochs_there_and_back(entries: tuple[EpochEntry, ...]) -> None:
    assert checkpoint.parse_leader_epochs(checkpoint.build_leader_epochs(entries)) == entries


@given(st.lists(st.builds(OffsetEntry, st.from_regex(r"[a-z0-9._-]+", fullmatch=True), INT32, INT64), max_size=5))
def test_offsets_there_and_back(entries: list[OffsetEntry]) -> None:
    assert checkpoint.parse_offsets(checkpoint.build_offsets(entries)) == tuple(entries)


@pytest.mark.parametrize(
    ("data", "entries"),
    [
        (b"", ()),
        (b"0", ()),
        (b"0\n0\n", ()),
        (b"+0\r\n1\r3 \t 4\t", (EpochEntry(3, 4),)),
        (b"0\n1\n-1 9223372036854775807", (EpochEntry(-1, 2**63 - 1),)),
        ("0\n1\n\u0664 5\n".encode(), (EpochEntry(4, 5),)),  # Java reads any digits
    ],
)
def test_checkpoints_that_kafka_reads(data: bytes, entries: tuple[EpochEntry, ...]) -> None:
    assert checkpoint.parse_leader_epochs(data) == entries


@pytest.mark.parametrize(
    ("data", "error", "position", "reason"),
    [
        (b"garbage\n", BadValue, 0, "line 1 is malformed: 'garbage'"),
        (b" 0\n", BadValue, 0, "line 1"),
        (b"\n0\n", BadValue, 0, "line 1"),
        (b"7\n0\n", UnknownVersion, 0, "version 7"),
        (b"0\nabc\n", BadValue, 2, "line 2 is malformed: 'abc'"),
        (bytes(567), BadValue, 0, "line 1 is malformed: 567 NUL bytes"),
        (b"0\n1" + bytes(50), BadValue, 2, "line 2 is malformed: '1', then 50 bytes from a NUL on"),
        (b"0\n-1\n", BadNumber, 2, "a count of -1"),
        (b"0\n2\n1 2\n", BadCount, 2, "a count of 2, but 1 entries"),
        (b"0\n1\n1 2\n\n", BadValue, 8, "line 4"),
        (b"0\n1\n 1 2\n", BadValue, 4, "line 3"),
        (b"0\n1\n1 2 3\n", BadValue, 4, "line 3"),
        (b"0\n1\n1 9223372036854775808\n", BadValue, 4, "line 3"),
        (b"0\n1\n2147483648 1\n", BadValue, 4, "line 3"),
        (b"0\n1\n1 2\xff\n", BadValue, 7, "not UTF-8"),
        (b"0\n1\n1 " + b"9" * 9999, BadValue, 4, "line 3"),
    ],
)
def test_checkpoints_that_kafka_refuses(data: bytes, error: type[FormatError], position: int, reason: str) -> None:
    with pytest.raises(error) as caught:
        checkpoint.parse_leader_epochs(data)
    assert caught.value.position == position
    assert reason in caught.value.reason


@given(st.dictionaries(TEXT, TEXT, max_size=5))
def test_properties_there_and_back(entries: dict[str, str]) -> None:
    built = properties.build(Properties(entries, ("", "a comment")))
    assert built.isascii()
    again = properties.parse(built)
    assert again == Properties(entries, ("", "a comment"))


@pytest.mark.parametrize(
    ("data", "entries"),
    [
        (b"a=1\nb: 2\nc 3\n  d\t=\t4 ", {"a": "1", "b": "2", "c": "3", "d": "4 "}),
        (b"# c\n! d\n\n \t\na=#1", {"a": "#1"}),
        (b"a=one\\\n   two\\\r\n# three", {"a": "onetwo# three"}),
        (b"a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        (b"k\\=\\ \\:=v\\u0041\\t\\q", {"k= :": "vA\tq"}),
        (b"a\nb=\n=c", {"a": "", "b": "", "": "c"}),
        (b"a=1\ra=2", {"a": "2"}),
        (b"a=b\\", {"a": "b"}),
        (b"a=\xe9", {"a": "\u00e9"}),
    ],
)
def test_properties_as_java_reads_them(data: bytes, entries: dict[str, str]) -> None:
    assert properties.parse(data).entries == entries


def test_malformed_escape() -> None:
    with pytest.raises(BadValue) as caught:
        properties.parse(b"a=1\nb=\\u00g1")
    assert caught.value.position == 4


def test_meta_properties() -> None:
    def meta(text: str) -> MetaProperties:
        return properties.meta_properties(properties.parse(text.encode()))

    assert meta(f"version=1\ncluster.id=c\nnode.id=7\ndirectory.id={ID}") == MetaProperties(1, "c", 7, ID)
    assert meta("version=+1\ncluster.id=c\nnode.id=+07") == MetaProperties(1, "c", 7, None)
    assert meta("") == MetaProperties(0, None, None, None)
    assert meta("version=0\nbroker.id=3") == MetaProperties(0, None, 3, None)
    for text, reason in (
        ("version=1\nnode.id=1", "cluster.id"),
        ("version=1\ncluster.id=c", "node.id"),
        ("version=1\ncluster.id=c\nnode.id=x", "node.id"),
        ("version=1\ncluster.id=c\nnode.id=2147483648", "node.id"),
        ("directory.id=short", "directory.id"),
        ("version=9", "version"),
    ):
        with pytest.raises((BadValue, UnknownVersion), match=reason):
            meta(text)


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        (f"version=7\ncluster.id=c \nnode.id=1 \ndirectory.id={ID}\t\n", ("c", 1, ID)),
        (f"\ufeffdirectory.id={ID}\r\nbroker.id=2\r\n", (None, 2, ID)),
        ("\ufeffnode.id=x\ncluster.id=\ndirectory.id=short\n", (None, None, None)),
        ("cluster.id=c\\u12\n", (None, None, None)),
    ],
)
def test_what_is_legible_of_meta_properties(text: str, ids: tuple[str | None, int | None, str | None]) -> None:
    assert properties.legible_meta_properties(text.encode()) == MetaProperties(1, *ids)


def test_partition_metadata() -> None:
    data = f"version: 0\ntopic_id: {ID}".encode()
    assert properties.parse_partition_metadata(data) == PartitionMetadata(0, ID)
    assert properties.parse_partition_metadata(data + b"\n") == PartitionMetadata(0, ID)
    assert properties.parse_partition_metadata(data + b"==") == PartitionMetadata(0, ID)


ID_LINE = f"topic_id: {ID}".encode()


@pytest.mark.parametrize(
    ("data", "version"),
    [
        (b"version: 1\n" + ID_LINE, 1),
        (b"version: 2\n" + ID_LINE, 2),
        (b"version: +0\n" + ID_LINE, 0),
        (b"version:\t0\r\n" + ID_LINE + b"\r\n", 0),
        (b"version: 0\r" + ID_LINE, 0),
        (b"version: 0: \n" + ID_LINE, 0),
        (b"version: 0\n" + ID_LINE + b"\nmore", 0),
        (b"version: 0\n" + ID_LINE + b"\n\n\n", 0),
        (b"\xef\xbb\xbfversion: 0\n" + ID_LINE, 0),
        (b"any: 0\nname: " + ID.encode(), 0),
        (b"version: 0\n" + ID_LINE + b"\n" + b"x" * 9000 + b"\xff", 0),
    ],
)
def test_partition_metadata_that_kafka_reads(data: bytes, version: int) -> None:
    """Contents that PartitionMetadataFile.read of Kafka 4.3 takes."""
    assert properties.parse_partition_metadata(data) == PartitionMetadata(version, ID)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version: 0\n",
        b"version: 0\n" + ID_LINE[:-1],
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA",
        b"version: -1\n" + ID_LINE,
        b"version: x\n" + ID_LINE,
        b"version: 99999999999\n" + ID_LINE,
        b"version:  0 \n" + ID_LINE,
        b"version:0\n" + ID_LINE,
        b"version 0\n" + ID_LINE,
        b"\nversion: 0\n" + ID_LINE,
        ID_LINE,
        ID_LINE + b"\nversion: 0",
        b"version: 0\n" + ID_LINE + b"\n\xff\xfe",
    ],
)
def test_partition_metadata_that_kafka_refuses(data: bytes) -> None:
    """Contents at which PartitionMetadataFile.read of Kafka 4.3 throws."""
    with pytest.raises((BadValue, UnknownVersion)):
        properties.parse_partition_metadata(data)


@given(INT32, INT32, INT32, TEXT, INT64, st.lists(INT32, max_size=4).map(tuple))
def test_quorum_state_there_and_back(
    leader: int, epoch: int, voted: int, cluster: str, applied: int, voters: tuple[int, ...]
) -> None:
    old = QuorumState(0, leader, epoch, voted, None, cluster, applied, voters)
    new = QuorumState(1, leader, epoch, voted, ID)
    assert quorum_state.parse(quorum_state.build(old)) == old
    assert quorum_state.parse(quorum_state.build(new)) == new


STATE = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,"currentVoters":[],"data_version":0}'
)


@pytest.mark.parametrize(
    "data",
    [
        STATE,
        STATE + STATE,
        STATE + b"}}more",
        STATE + b"\nmore\n",
        b" \t" + STATE + b"\r\n\n",
        *(
            STATE.replace(b'version":0', b'version":' + odd)
            for odd in (b'"x"', b"null", b"true", b"[]", b"65536", b"0.5")
        ),
    ],
)
def test_quorum_state_that_kafka_reads(data: bytes) -> None:
    """Contents that FileQuorumStateStore of Kafka 4.3 takes for data_version 0."""
    assert quorum_state.parse(data) == QuorumState(0, 1, 2, -1, None, "", 0, ())


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n" + STATE,
        b"\r\n" + STATE,
        b"\xef\xbb\xbf" + STATE,
        STATE + b"\n\xff",
        STATE.replace(b'version":0', b'version":2'),
        STATE.replace(b'version":0', b'version":-1'),
        STATE.replace(b'version":0', b'version":65537'),
        STATE.replace(b'version":0', b'version":99999999999'),
        STATE.replace(b'Epoch":2', b'Epoch":99999999999'),
        STATE.replace(b'Epoch":2', b'Epoch":2.0'),
        STATE.replace(b"[]", b"null"),
        b"{",
        b"[]",
        b"\xff",
        b"{}",
        b'{"data_version":1}',
        b'{"data_version":2,"leaderId":1,"leaderEpoch":1,"votedId":1}',
        b'{"data_version":1,"leaderId":true,"leaderEpoch":1,"votedId":1}',
        b'{"data_version":1,"leaderId":9999999999,"leaderEpoch":1,"votedId":1}',
        b'{"data_version":1,"leaderId":1,"leaderEpoch":1,"votedId":1,"votedDirectoryId":"x"}',
        b'{"data_version":0,"leaderId":1,"leaderEpoch":1,"votedId":1,"clusterId":1}',
        b'{"data_version":0,"leaderId":1,"leaderEpoch":1,"votedId":1,"clusterId":"","appliedOffset":0,"currentVoters":[1]}',
    ],
)
def test_quorum_state_that_is_none(data: bytes) -> None:
    with pytest.raises((BadValue, UnknownVersion)):
        quorum_state.parse(data)
