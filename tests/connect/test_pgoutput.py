"""The messages of logical replication: each kind, cut at each byte, and damaged."""

from __future__ import annotations

import random
import struct

import pytest

from kcli.connect.connectors.postgres.pgoutput import (
    EPOCH_US,
    UNCHANGED,
    BadMessage,
    Begin,
    Commit,
    Delete,
    Insert,
    Keepalive,
    Message,
    Relation,
    RelationColumn,
    Truncate,
    Update,
    XLogData,
    lsn_of,
    lsn_text,
    parse,
    parse_stream,
    status,
)

ROW = b"\0\x03" + b"t\0\0\0\x02\xc3\xa9" + b"n" + b"u"
VALUES = ("é", None, UNCHANGED)
COLUMNS = (
    RelationColumn("id", is_identity=True, type=23, modifier=-1),
    RelationColumn("n", is_identity=False, type=7, modifier=6),
)
ID_TYPE = struct.pack(">Ii", 23, -1)
OID = struct.pack(">I", 4_000_000_000)
MESSAGES: list[tuple[bytes, Message]] = [
    (b"B" + struct.pack(">qqI", 7, 5, 9), Begin(7, EPOCH_US + 5, 9)),
    (b"C\0" + struct.pack(">qqq", 1, 2, 3), Commit(2)),
    (
        b"R" + OID + b"public\0t\0d\0\x02\x01id\0" + ID_TYPE + b"\0n\0" + struct.pack(">Ii", 7, 6),
        Relation(4_000_000_000, "public", "t", "d", COLUMNS),
    ),
    (b"I" + OID + b"N" + ROW, Insert(4_000_000_000, VALUES)),
    (b"U" + OID + b"N" + ROW, Update(4_000_000_000, None, is_key=False, new=VALUES)),
    (b"U" + OID + b"K" + ROW + b"N" + ROW, Update(4_000_000_000, VALUES, is_key=True, new=VALUES)),
    (b"U" + OID + b"O" + ROW + b"N" + ROW, Update(4_000_000_000, VALUES, is_key=False, new=VALUES)),
    (b"D" + OID + b"K" + ROW, Delete(4_000_000_000, VALUES, is_key=True)),
    (b"T" + struct.pack(">ib", 2, 1) + OID + OID, Truncate((4_000_000_000, 4_000_000_000))),
]  # fmt: skip
STREAM = [b"w" + struct.pack(">qqq", 1, 2, 3) + b"data", b"k" + struct.pack(">qqb", 5, 6, 1)]


def test_each_message() -> None:
    for data, message in MESSAGES:
        assert parse(data) == message
    assert parse(b"Oanything") is parse(b"Y") is parse(b"M") is None
    assert parse_stream(STREAM[0]) == XLogData(1, 2, b"data")
    assert parse_stream(STREAM[1]) == Keepalive(5, wants_reply=True)
    assert status(3, EPOCH_US + 1) == b"r" + struct.pack(">qqqqb", 3, 3, 3, 1, 0)
    assert lsn_of(lsn_text(0x16_B374_D848)) == 0x16_B374_D848
    assert lsn_text(0x16_B374_D848) == "16/B374D848"


def test_a_message_that_is_cut_or_too_long() -> None:
    for data, _ in MESSAGES:
        for size in range(len(data)):
            with pytest.raises(BadMessage):
                parse(data[:size])
        with pytest.raises(BadMessage, match="has 1 bytes too many"):
            parse(data + b"\0")
    for data in STREAM:
        for size in range(17):
            with pytest.raises(BadMessage):
                parse_stream(data[:size])


def test_damaged_messages() -> None:
    """They are refused or read as another message, and nothing else."""
    seed = random.randrange(1 << 32)
    made = random.Random(seed)
    for _ in range(20_000):
        data = bytearray(made.choice(MESSAGES)[0])
        for _ in range(made.randint(1, 4)):
            at = made.randrange(len(data))
            data[at : at + made.randint(0, 2)] = made.randbytes(made.randint(0, 2))
            data = data or bytearray(b"?")
        try:
            parse(bytes(data))
        except BadMessage:
            continue
        except Exception as error:
            raise AssertionError(f"seed {seed}: {bytes(data)!r}") from error
