"""The messages of logical replication with the plug-in pgoutput, protocol version 1, in text. No I/O.

    stream     XLogData    'w' start int64, end int64, time int64, a message of pgoutput
               Keepalive   'k' end int64, time int64, reply requested int8
    pgoutput   Begin       'B' LSN of the commit int64, time int64, transaction int32
               Commit      'C' flags int8, LSN int64, end LSN int64, time int64
               Relation    'R' oid int32, schema, name, replica identity char, columns int16, each:
                           flags int8 (1: of the replica identity), name, type oid int32, type modifier int32
               Insert      'I' oid int32, 'N' tuple
               Update      'U' oid int32, ['K' or 'O' tuple], 'N' tuple
               Delete      'D' oid int32, 'K' or 'O' tuple
               Truncate    'T' count int32, options int8, oids int32
               others      Origin 'O', Type 'Y', Message 'M': passed over
    tuple      columns int16, each: 'n' null, 'u' a TOASTed value that has not changed, 't' length int32 and text

Names end with a zero byte, times are microseconds since 2000. Source: PostgreSQL's documentation, "Streaming
Replication Protocol" and "Logical Replication Message Formats".
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from kcli.connect.data.errors import ConnectError

EPOCH_US: Final = 946_684_800_000_000
"""The year 2000, in microseconds since 1970."""
IS_IDENTITY: Final = 1
_LONG, _INT, _SHORT = struct.Struct(">q"), struct.Struct(">i"), struct.Struct(">h")
_OID: Final = struct.Struct(">I")


class BadMessage(ConnectError):
    """Bytes that are no message of the protocol."""


class Unchanged(Enum):
    """The value of a TOASTed column that an update has not changed, and PostgreSQL does not send."""

    UNCHANGED = "unchanged"


UNCHANGED: Final = Unchanged.UNCHANGED
Value = str | Unchanged | None
Tuple = tuple[Value, ...]


class XLogData(NamedTuple):
    """A message of pgoutput. start: its LSN. end: how far the server's log goes."""

    start: int
    end: int
    data: bytes


class Keepalive(NamedTuple):
    """The server has decoded its log up to `end`."""

    end: int
    wants_reply: bool


class Begin(NamedTuple):
    """A transaction begins. commit: the LSN of its commit. time_us: when it was committed, since 1970."""

    commit: int
    time_us: int
    transaction: int


class Commit(NamedTuple):
    """A transaction is complete. end: the LSN behind its commit."""

    end: int


class RelationColumn(NamedTuple):
    """A column of a relation. modifier: of its type; -1 for none."""

    name: str
    is_identity: bool
    type: int
    modifier: int


class Relation(NamedTuple):
    """A table as the changes that follow have it. identity: d(efault), n(othing), f(ull) or i(ndex)."""

    oid: int
    schema: str
    name: str
    identity: str
    columns: tuple[RelationColumn, ...]


class Insert(NamedTuple):
    """A row is new."""

    oid: int
    new: Tuple


class Update(NamedTuple):
    """A row is another. old: what it was, if it is known. is_key: only the columns of the replica identity are in
    it."""

    oid: int
    old: Tuple | None
    is_key: bool
    new: Tuple


class Delete(NamedTuple):
    """A row is gone. is_key: only the columns of the replica identity are known."""

    oid: int
    old: Tuple
    is_key: bool


class Truncate(NamedTuple):
    """Tables are empty."""

    oids: tuple[int, ...]


Message = Begin | Commit | Relation | Insert | Update | Delete | Truncate


def parse_stream(data: bytes) -> XLogData | Keepalive:
    """Return what the server has sent. Raises BadMessage."""
    kind, fields = data[:1], _Fields(data)
    if kind == b"w":
        start, end, _ = (fields.number(_LONG) for _ in range(3))
        return XLogData(start, end, data[fields.at :])
    if kind == b"k":
        end, _ = (fields.number(_LONG) for _ in range(2))
        wants_reply = fields.byte() == b"\1"
        fields.end()
        return Keepalive(end, wants_reply)
    raise BadMessage(f"a message of replication of the type {kind!r}, which is not known")


def parse(data: bytes) -> Message | None:
    """Return a message of pgoutput; None for one without changes. Raises BadMessage."""
    kind, fields = data[:1], _Fields(data)
    if kind in (b"O", b"Y", b"M"):
        return None
    how = _PARSERS.get(kind)
    if how is None:
        raise BadMessage(f"a message of pgoutput of the type {kind!r}, which is not known")
    found = how(fields)
    fields.end()
    return found


def status(flushed: int, time_us: int) -> bytes:
    """Return the message by which the server learns up to where the client has all. time_us: now, since 1970."""
    return b"r" + struct.pack(">qqqqb", flushed, flushed, flushed, time_us - EPOCH_US, 0)


def lsn_text(lsn: int) -> str:
    """Return an LSN as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """Return the number of an LSN. Raises ValueError."""
    high, low = text.split("/")
    return (int(high, 16) << 32) + int(low, 16)


class _Fields:
    """Reads the fields of a message one after the other; each raises BadMessage."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 1

    def number(self, kind: struct.Struct) -> int:
        try:
            (found,) = kind.unpack_from(self.data, self.at)
        except struct.error:
            raise self.bad("ends too early") from None
        self.at += kind.size
        return int(found)

    def byte(self) -> bytes:
        found = self.data[self.at : self.at + 1]
        if not found:
            raise self.bad("ends too early")
        self.at += 1
        return found

    def name(self) -> str:
        end = self.data.find(b"\0", self.at)
        if end < 0:
            raise self.bad("has a name without an end")
        return self.text(end - self.at, behind=1)

    def text(self, size: int, behind: int = 0) -> str:
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise self.bad(f"has a value of {size} bytes")
        try:
            found = self.data[self.at : end].decode()
        except UnicodeDecodeError:
            raise self.bad("has a text that is not UTF-8") from None
        self.at = end + behind
        return found

    def count(self, kind: struct.Struct) -> int:
        found = self.number(kind)
        if not 0 <= found <= len(self.data):
            raise self.bad(f"counts {found}")
        return found

    def tuple(self) -> Tuple:
        found: list[Value] = []
        for _ in range(self.count(_SHORT)):
            kind = self.byte()
            if kind == b"t":
                found.append(self.text(self.number(_INT)))
            elif kind == b"n":
                found.append(None)
            elif kind == b"u":
                found.append(UNCHANGED)
            else:
                raise self.bad(f"has a value of the kind {kind!r}")
        return tuple(found)

    def new(self) -> Tuple:
        if (kind := self.byte()) != b"N":
            raise self.bad(f"has a tuple {kind!r} for a new one")
        return self.tuple()

    def end(self) -> None:
        if self.at != len(self.data):
            raise self.bad(f"has {len(self.data) - self.at} bytes too many")

    def bad(self, reason: str) -> BadMessage:
        return BadMessage(f"a message of the type {self.data[:1]!r} {reason}, at byte {self.at} of {len(self.data)}")


def _begin(fields: _Fields) -> Begin:
    commit, time_us = fields.number(_LONG), fields.number(_LONG)
    return Begin(commit, time_us + EPOCH_US, fields.number(_OID))


def _commit(fields: _Fields) -> Commit:
    fields.byte()
    _, end, _ = (fields.number(_LONG) for _ in range(3))
    return Commit(end)


def _relation(fields: _Fields) -> Relation:
    oid, schema, name = fields.number(_OID), fields.name(), fields.name()
    identity = fields.byte().decode("latin-1")
    columns = []
    for _ in range(fields.count(_SHORT)):
        is_identity = fields.byte()[0] & IS_IDENTITY != 0
        columns.append(RelationColumn(fields.name(), is_identity, fields.number(_OID), fields.number(_INT)))
    return Relation(oid, schema or "pg_catalog", name, identity, tuple(columns))


def _insert(fields: _Fields) -> Insert:
    return Insert(fields.number(_OID), fields.new())


def _update(fields: _Fields) -> Update:
    oid, kind = fields.number(_OID), fields.data[fields.at : fields.at + 1]
    if kind not in (b"K", b"O"):
        return Update(oid, None, is_key=False, new=fields.new())
    fields.byte()
    return Update(oid, fields.tuple(), is_key=kind == b"K", new=fields.new())


def _delete(fields: _Fields) -> Delete:
    oid, kind = fields.number(_OID), fields.byte()
    if kind not in (b"K", b"O"):
        raise fields.bad(f"has a tuple {kind!r} for an old one")
    return Delete(oid, fields.tuple(), is_key=kind == b"K")


def _truncate(fields: _Fields) -> Truncate:
    count = fields.count(_INT)
    fields.byte()
    return Truncate(tuple(fields.number(_OID) for _ in range(count)))


_PARSERS: Final[dict[bytes, Callable[[_Fields], Message]]] = {
    b"B": _begin,
    b"C": _commit,
    b"R": _relation,
    b"I": _insert,
    b"U": _update,
    b"D": _delete,
    b"T": _truncate,
}
