"""The manifest of a run: one JSON object, in a store's object `manifests/<time>-<digest>.json`.

    version           1; 2 for several log directories
    started, at       epoch ms: the run holds all that was appended before `started`, and nothing appended after `at`
    meta_properties   the text of the log directory's meta.properties, null without one
    checkpoints       by file name, the entries [topic, partition, offset] of the offset checkpoints
    files             name to object: bootstrap.checkpoint
    directories       only in version 2, in place of the three fields above: for each log directory its path, and these
                      three fields
    cluster           only of a backup over the network: next_producer_id, above each producer id in its batches
    partitions        for each partition
      topic, partition, topic_id
      directory       only in version 2: the number of its log directory, from 0
      epochs          the entries of leader-epoch-checkpoint: [epoch, start offset]
      settled         [base offset, bytes]: the end of what was appended before the run read __transaction_state
      quorum_state    the text of quorum-state, null for all partitions but the metadata log
      segments        for each segment
        base, last    its base offset, its last offset (null: no batch)
        parts         the .log file: objects to be joined, in order
        tail          [byte, hex]: the header of its last batch, null if none is known
        txn_index     object, null without one
        snapshot      object: the producers at the base offset, null without one
      snapshots       name to object: the snapshots of the metadata log

    object            [name, bytes, SHA-256 in hex]

The digest in the name is the beginning of the SHA-256 of the manifest's bytes. A run writes its manifest last: an
object that no manifest names is garbage. The times in names sort as text.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from formats.file_name import FileKind
from formats.file_name import parse as parse_file_name
from kcli.errors import UnreadableInput
from kcli.protocol.topic_partition import TopicPartition

VERSION, SEVERAL_DIRECTORIES = 1, 2
DIRECTORY = "manifests"
DIGEST_LENGTH = 32
NAME_LENGTH_MAX = 1024
SHOWN = 100
_NAME = re.compile(rf"{DIRECTORY}/(\d{{8}}T\d{{6}}\.\d{{3}}Z)-([0-9a-f]{{{DIGEST_LENGTH}}})\.json")
_TIME = "%Y%m%dT%H%M%S.%fZ"
_HEX = re.compile("[0-9a-f]{64}")


class Piece(NamedTuple):
    """An object of the store. name: the object's name. size: its bytes. sha256: that of all its bytes, in hex."""

    name: str
    size: int
    sha256: str


class Tail(NamedTuple):
    """The header of a segment's last batch, in hex, and the byte of the .log file at which it begins. The header has
    base offset, CRC and leader epoch: a .log file that still has it at this byte also has the same bytes before it."""

    position: int
    header: str


@dataclass(frozen=True, slots=True)
class BackedSegment:
    """A segment of a run. base: its base offset. last: its last offset; None if it has no batch. parts: the objects
    that joined are its .log file, in order. tail: None if it has no batch, or is damaged. txn_index, snapshot: the
    objects of these files; None without the file."""

    base: int
    last: int | None
    parts: tuple[Piece, ...]
    tail: Tail | None = None
    txn_index: Piece | None = None
    snapshot: Piece | None = None

    @property
    def size(self) -> int:
        """The bytes of the .log file."""
        return sum(each.size for each in self.parts)

    @property
    def pieces(self) -> list[Piece]:
        """All objects of the segment."""
        return [*self.parts, *(each for each in (self.txn_index, self.snapshot) if each is not None)]


@dataclass(frozen=True, slots=True)
class BackedPartition:
    """A partition of a run. topic_id: None if it has no partition.metadata. epochs: the entries of
    leader-epoch-checkpoint. settled: base offset of a segment and a byte of its .log file: the bytes before it were
    appended before the run read the ends of __transaction_state. quorum_state, snapshots: only of the metadata log.
    directory: the number of its log directory in the run, from 0."""

    partition: TopicPartition
    topic_id: str | None
    epochs: tuple[tuple[int, int], ...]
    settled: tuple[int, int]
    segments: tuple[BackedSegment, ...]
    quorum_state: str | None = None
    snapshots: Mapping[str, Piece] = field(default_factory=dict)
    directory: int = 0

    @property
    def size(self) -> int:
        """The bytes of all .log files."""
        return sum(each.size for each in self.segments)

    @property
    def pieces(self) -> list[Piece]:
        """All objects of the partition."""
        return [*(piece for each in self.segments for piece in each.pieces), *self.snapshots.values()]


@dataclass(frozen=True, slots=True)
class BackedDirectory:
    """A log directory of a run. path: "" if it is the only one. meta_properties: the text of the file; None without
    one. checkpoints: offsets by partition, by file name. files: objects by file name."""

    path: str
    meta_properties: str | None
    checkpoints: Mapping[str, Mapping[TopicPartition, int]]
    files: Mapping[str, Piece]


class ClusterState(NamedTuple):
    """The state of a cluster, besides its logs, in a backup over the network. next_producer_id: an id above all
    producer ids in the batches of the backup's runs."""

    next_producer_id: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """A run. It holds all that was appended before started_ms, and nothing that was appended after at_ms. cluster: None
    for a run of log directories."""

    started_ms: int
    at_ms: int
    directories: tuple[BackedDirectory, ...]
    partitions: tuple[BackedPartition, ...]
    cluster: ClusterState | None = None

    @property
    def size(self) -> int:
        """The bytes of all .log files."""
        return sum(each.size for each in self.partitions)

    @property
    def pieces(self) -> list[Piece]:
        """All objects of the run."""
        files = (piece for each in self.directories for piece in each.files.values())
        return [*files, *(piece for each in self.partitions for piece in each.pieces)]


def build(manifest: Manifest) -> tuple[str, bytes]:
    """Return the name and the bytes of a manifest's object."""
    directories = [_directory(each) for each in manifest.directories]
    is_one = len(directories) == 1
    value = {
        "version": VERSION if is_one else SEVERAL_DIRECTORIES,
        "started": manifest.started_ms,
        "at": manifest.at_ms,
        **(directories[0] if is_one else {"directories": directories}),
        **({} if manifest.cluster is None else {"cluster": manifest.cluster._asdict()}),
        "partitions": [_partition(each) for each in manifest.partitions],
    }
    data = json.dumps(value, separators=(",", ":")).encode()
    time = datetime.fromtimestamp(manifest.at_ms / 1000, UTC).strftime(_TIME)[:-4] + "Z"
    return f"{DIRECTORY}/{time}-{hashlib.sha256(data).hexdigest()[:DIGEST_LENGTH]}.json", data


def _directory(each: BackedDirectory) -> dict[str, Any]:
    value: dict[str, Any] = {
        "meta_properties": each.meta_properties,
        "checkpoints": {
            name: [[*partition, offset] for partition, offset in sorted(entries.items())]
            for name, entries in each.checkpoints.items()
        },
        "files": each.files,
    }
    return {"path": each.path, **value} if each.path else value


def _partition(each: BackedPartition) -> dict[str, Any]:
    value: dict[str, Any] = {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "topic_id": each.topic_id,
        "epochs": each.epochs,
        "settled": each.settled,
        "segments": [
            {
                "base": one.base,
                "last": one.last,
                "parts": one.parts,
                "tail": one.tail,
                "txn_index": one.txn_index,
                "snapshot": one.snapshot,
            }
            for one in each.segments
        ],
    }
    if each.directory:
        value["directory"] = each.directory
    if each.quorum_state is not None:
        value["quorum_state"] = each.quorum_state
    if each.snapshots:
        value["snapshots"] = each.snapshots
    return value


def time_of(name: str) -> int | None:
    """Return the time in the name of a manifest's object, epoch ms; None for the name of any other object."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    try:
        parsed = datetime.strptime(match[1], _TIME).replace(tzinfo=UTC)
    except ValueError:
        return None
    return round(parsed.timestamp() * 1000)


def parse(name: str, data: bytes, url: str) -> Manifest:
    """Return the manifest in the object `name`. url: the object's URL, for errors. Raises UnreadableInput."""
    match = _NAME.fullmatch(name)
    digest = hashlib.sha256(data).hexdigest()[:DIGEST_LENGTH]
    if match is None or match[2] != digest:
        raise UnreadableInput(url, f"its bytes are not those that were written: their SHA-256 begins with {digest}")
    try:
        value = json.loads(data)
        if value["version"] not in (VERSION, SEVERAL_DIRECTORIES):
            raise UnreadableInput(url, f"version {value['version']!r}, and kcli knows {SEVERAL_DIRECTORIES}")
        directories = [value] if value["version"] == VERSION else value["directories"]
        found = Manifest(
            _integer(value["started"]),
            _integer(value["at"]),
            tuple(_parsed_directory(each) for each in directories),
            tuple(_parsed(each) for each in value["partitions"]),
            ClusterState(_integer(value["cluster"]["next_producer_id"])) if "cluster" in value else None,
        )
        _ = [found.directories[each.directory] for each in found.partitions]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableInput(url, f"no manifest of a backup: {type(error).__name__}: {str(error)[:100]}") from None
    return found


def _parsed_directory(value: dict[str, Any]) -> BackedDirectory:
    return BackedDirectory(
        _name(value.get("path", "")),
        _text(value["meta_properties"]),
        {
            name: {TopicPartition(topic, number): offset for topic, number, offset in entries}
            for name, entries in value["checkpoints"].items()
        },
        {each: _piece(piece) for each, piece in value["files"].items()},
    )


def _parsed(value: dict[str, Any]) -> BackedPartition:
    base, position = value["settled"]
    return BackedPartition(
        TopicPartition(_name(value["topic"]), _integer(value["partition"])),
        _text(value["topic_id"]),
        tuple((_integer(epoch), _integer(start)) for epoch, start in value["epochs"]),
        (_integer(base), _integer(position)),
        tuple(_segment(each) for each in value["segments"]),
        _text(value.get("quorum_state")),
        {_snapshot(name): _piece(each) for name, each in value.get("snapshots", {}).items()},
        _integer(value.get("directory", 0)),
    )


def _segment(value: dict[str, Any]) -> BackedSegment:
    tail = value["tail"]
    return BackedSegment(
        _integer(value["base"]),
        None if value["last"] is None else _integer(value["last"]),
        tuple(_piece(each) for each in value["parts"]),
        None if tail is None else Tail(_integer(tail[0]), str(tail[1])),
        *(None if value[kind] is None else _piece(value[kind]) for kind in ("txn_index", "snapshot")),
    )


def _snapshot(name: str) -> str:
    """Return `name`. Raises ValueError if it is not the file name of a KRaft snapshot."""
    parsed = parse_file_name(name)
    if parsed is None or parsed.kind is not FileKind.KRAFT_SNAPSHOT or parsed.state:
        raise ValueError(f"{name!r} is no snapshot")
    return name


def _piece(value: list[Any]) -> Piece:
    name, size, sha256 = value
    if not isinstance(name, str) or not _HEX.fullmatch(sha256):
        raise ValueError(f"{str(value)[:SHOWN]!r} is no object")
    if len(name) > NAME_LENGTH_MAX:
        raise ValueError(f"an object's name has {len(name):,} characters")
    return Piece(name, _integer(size), sha256)


def _integer(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is no offset, size or time")
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no name")
    return value


def _text(value: Any) -> str | None:
    """Return `value`, the text of a file: each character is one byte. Raises TypeError, ValueError."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    if value is not None and any(each > "\xff" for each in value):
        raise ValueError("a text has characters that are no bytes")
    return value
