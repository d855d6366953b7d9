"""Segment manifest (`.rsm-manifest`): how the tiered-storage plugin of Aiven has put a segment into its objects.

    {"version": "1",
     "chunkIndex": ...,                          where each chunk of the segment is in the .log object
     "segmentIndexes": {name: {"position", "size"}, ...},   where each index is in the .indexes object
     "compression": true or false,               each chunk of the .log object is one zstd frame
     "encryption": {"dataKey": "ID:BASE64", "aad": "BASE64"},   absent if nothing is encrypted
     "remoteLogSegmentMetadata": {...}}          the segment, as KIP-405 describes it; the plugin does not read it

    chunk index     "originalChunkSize": bytes of the segment in each chunk but the last
                    "originalFileSize": bytes of the segment
      "fixed"       "transformedChunkSize", "finalTransformedChunkSize": bytes of each chunk in the object
      "variable"    "transformedChunks": base64 of a zstd frame with their sizes:
        count       int32     0: nothing follows; 1: `last` alone follows
        base        int32     the least of all sizes but the last
        width       int8      1 to 4
        values      count - 1 unsigned numbers of `width` bytes: each size, less `base`
        last        int32     the last size, as it is

    segment indexes "offset", "timestamp", "producerSnapshot", "leaderEpoch"; "transaction", which may be null.
                    An index is one chunk, never compressed; an empty index has the size 0
    encrypted chunk nonce (12 bytes) | AES-256-GCM ciphertext | tag (16 bytes); `aad` is the additional data of each.
                    The key of a segment is wrapped with the RSA key pair `ID`: OAEP with SHA3-512, MGF1 with the same

Numbers in bytes are big endian. Source: the plugin's packages manifest, transform and security, and ObjectKeyFactory
(Aiven-Open/tiered-storage-for-apache-kafka, version 1.2).
"""

from __future__ import annotations

import binascii
import json
import re
from array import array
from base64 import b64decode
from collections.abc import Iterator, Mapping
from itertools import accumulate, repeat
from typing import Any, Final, NamedTuple

from formats.checkpoint import EpochEntry
from formats.compression import ZSTD, decompress
from formats.errors import BadCount, BadLength, BadValue, FormatError, LimitExceeded, Truncated, UnknownVersion

VERSION: Final = "1"
MANIFEST_BYTES_MAX: Final = 8 << 20
"""The size in bytes of the largest manifest that is parsed: more than one with CHUNKS_MAX sizes has."""
CHUNKS_MAX: Final = 1 << 20
"""The largest number of chunks of different sizes that is parsed: those of 2 GiB in chunks of 2 KiB."""
CHUNK_BYTES_MAX: Final = 128 << 20
"""The size in bytes of the largest chunk that is decompressed or decrypted: both need the whole chunk in memory."""
NONCE_BYTES: Final = 12
SEAL_BYTES: Final = NONCE_BYTES + 16
"""How much longer an encrypted chunk is: by its nonce and its tag."""
INDEXES: Final = ("offset", "timestamp", "producerSnapshot", "leaderEpoch", "transaction")
_INT32_MAX = 2**31 - 1
_INT64_MAX = 2**63 - 1
_ID = re.compile(r"[A-Za-z0-9_-]{22}")
_SHOWN = 40


class Chunk(NamedTuple):
    """A chunk: the bytes [start, start + size) of the object are the bytes [position, position + length) of the
    segment. number: counted from 0."""

    number: int
    position: int
    length: int
    start: int
    size: int


class ChunkIndex(NamedTuple):
    """Where the chunks of a segment are. chunk_size: bytes of the segment in each chunk but the last. file_size: bytes
    of the segment. object_size: bytes of all chunks in the .log object. ends: for each chunk the byte behind it in the
    object; None if all chunks but the last have `fixed_size` bytes in the object."""

    chunk_size: int
    file_size: int
    object_size: int
    fixed_size: int = 0
    ends: array[int] | None = None

    @property
    def chunks(self) -> int:
        """The number of chunks."""
        return -(-self.file_size // self.chunk_size)

    def chunk_at(self, position: int) -> Chunk:
        """Return the chunk that holds byte `position` of the segment; `position` must be below file_size."""
        number = position // self.chunk_size
        first = number * self.chunk_size
        if self.ends is None:
            start = number * self.fixed_size
            end = self.object_size if number == self.chunks - 1 else start + self.fixed_size
        else:
            start, end = self.ends[number - 1] if number else 0, self.ends[number]
        return Chunk(number, first, min(self.chunk_size, self.file_size - first), start, end - start)


class Section(NamedTuple):
    """An index in the .indexes object: its bytes are [position, position + size)."""

    position: int
    size: int


class Encryption(NamedTuple):
    """How chunks are encrypted. key_pair: the id of the RSA key pair. wrapped_key: the data key, encrypted with the key
    pair's public key. aad: the additional authenticated data of each chunk."""

    key_pair: str
    wrapped_key: bytes
    aad: bytes


class SegmentMetadata(NamedTuple):
    """The segment that a manifest describes. Offsets are inclusive, ids are 22 characters of base64."""

    topic: str
    partition: int
    topic_id: str
    segment_id: str
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    broker_id: int
    leader_epochs: tuple[EpochEntry, ...]


class SegmentManifest(NamedTuple):
    """A manifest. sections: the sections of the .indexes object by the names in INDEXES; without a transaction index
    there is no section for it. segment: the segment that the manifest describes; None if it does not name one."""

    chunks: ChunkIndex
    sections: Mapping[str, Section]
    is_compressed: bool
    encryption: Encryption | None
    segment: SegmentMetadata | None

    @property
    def is_plain(self) -> bool:
        """Whether the .log object is the segment, byte for byte."""
        return not self.is_compressed and self.encryption is None

    def section_length(self, name: str) -> int:
        """Return the size in bytes of an index once it is decrypted. name: one of INDEXES."""
        size = self.sections[name].size
        return size if self.encryption is None or size == 0 else size - SEAL_BYTES


def parse(data: bytes) -> SegmentManifest:
    """Return the manifest in the bytes of its object.

    Raises UnknownVersion for a version other than 1, LimitExceeded for a manifest, a list of sizes or chunks that are
    too large to be read, BadValue for one that contradicts itself, and other FormatErrors.
    """
    if len(data) > MANIFEST_BYTES_MAX:
        raise LimitExceeded(f"{len(data):,} bytes are more than a manifest can have")
    try:
        found = json.loads(data)
    except json.JSONDecodeError as error:
        raise BadValue(f"not JSON: {error.msg}", len(error.doc[: error.pos].encode())) from None
    except UnicodeDecodeError as error:
        raise BadValue("not UTF-8", error.start) from None
    except (RecursionError, ValueError):  # nested too deep; a number of thousands of digits
        raise BadValue("not the JSON of a manifest") from None
    root = _Fields(found, "")
    if (version := root.text("version")) != VERSION:
        raise UnknownVersion(f"version {_shown(version)} of the manifest; kcli knows version {VERSION}")
    is_compressed = root.flag("compression")
    encryption = _encryption(root.inner("encryption")) if root.has("encryption") else None
    chunks = _chunk_index(root.inner("chunkIndex"), is_compressed=is_compressed, is_encrypted=encryption is not None)
    sections = _sections(root.inner("segmentIndexes"), is_encrypted=encryption is not None)
    segment = _segment(root.inner("remoteLogSegmentMetadata")) if root.has("remoteLogSegmentMetadata") else None
    return SegmentManifest(chunks, sections, is_compressed, encryption, segment)


class _Fields:
    """An object of the JSON. where: its path, for errors."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise BadValue(f"{where or 'the manifest'} is no JSON object")
        self._value = value
        self._where = where

    def has(self, name: str) -> bool:
        return self._value.get(name) is not None

    def _get(self, name: str, kind: type, what: str) -> Any:
        value = self._value.get(name)
        if type(value) is not kind:
            fault = "is missing" if value is None else f"is no {what}: {_shown(value)}"
            raise BadValue(f"{self.path(name)} {fault}")
        return value

    def path(self, name: str) -> str:
        return f"{self._where}.{name}" if self._where else name

    def inner(self, name: str) -> _Fields:
        return _Fields(self._get(name, dict, "object"), self.path(name))

    def text(self, name: str) -> str:
        return str(self._get(name, str, "text"))

    def flag(self, name: str) -> bool:
        return bool(self._get(name, bool, "boolean"))

    def number(self, name: str, least: int, most: int) -> int:
        value = int(self._get(name, int, "number"))
        if not least <= value <= most:
            raise BadValue(f"{self.path(name)} is {_shown(value)}, not within {least:,}..{most:,}")
        return value

    def base64(self, name: str) -> bytes:
        return _bytes_of(self.text(name), self.path(name))

    def names(self) -> Iterator[str]:
        yield from self._value


def _shown(value: object) -> str:
    """Return a value of the JSON as text for an error message, cut off if it is long."""
    if type(value) is int and abs(value) > 10**_SHOWN:
        return "a number of more than 40 digits"
    text = value if isinstance(value, str) else json.dumps(value)
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def _bytes_of(text: str, where: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise BadValue(f"{where} is no base64") from None


def _chunk_index(found: _Fields, *, is_compressed: bool, is_encrypted: bool) -> ChunkIndex:
    kind = found.text("type")
    chunk_size = found.number("originalChunkSize", 1, _INT32_MAX)
    file_size = found.number("originalFileSize", 0, _INT32_MAX)
    largest = min(chunk_size, file_size)
    if (is_compressed or is_encrypted) and largest > CHUNK_BYTES_MAX:
        limit = f"larger than {CHUNK_BYTES_MAX:,} bytes, the largest that kcli decompresses or decrypts"
        raise LimitExceeded(f"chunks of {largest:,} bytes, {limit}")
    count = -(-file_size // chunk_size)
    if kind == "fixed":
        fixed = found.number("transformedChunkSize", 0, _INT32_MAX)
        last = found.number("finalTransformedChunkSize", 0, _INT32_MAX)
        seal = SEAL_BYTES if is_encrypted else 0
        original = file_size - (count - 1) * chunk_size if count else 0
        if is_compressed:
            raise BadValue("chunks of a fixed size cannot be compressed ones")
        if count and (last != original + seal or (count > 1 and fixed != chunk_size + seal)):
            raise BadValue(f"chunks of {fixed:,} and {last:,} bytes cannot have {chunk_size:,} and {original:,} bytes")
        size = (count - 1) * fixed + last if count else 0
        return ChunkIndex(chunk_size, file_size, size, fixed)
    if kind != "variable":
        raise BadValue(f"{found.path('type')} is {_shown(kind)}, neither 'fixed' nor 'variable'")
    if count > CHUNKS_MAX:
        raise LimitExceeded(f"{count:,} chunks of different sizes; kcli reads up to {CHUNKS_MAX:,}")
    name = "transformedChunks"
    packed = found.base64(name)
    try:
        sizes = parse_sizes(decompress(ZSTD, packed, limit=13 + 4 * count), count)
    except FormatError as error:
        raise type(error)(f"{found.path(name)}: {error.reason}") from None
    most = _most_bytes(largest) + (SEAL_BYTES if is_encrypted else 0)
    if (widest := max(sizes, default=0)) > most:
        raise BadLength(f"{found.path(name)}: a chunk of {widest:,} bytes in place of at most {most:,}")
    ends = array("Q", accumulate(sizes))
    return ChunkIndex(chunk_size, file_size, ends[-1] if ends else 0, ends=ends)


def _most_bytes(size: int) -> int:
    """Return an upper bound of the size of `size` bytes compressed by zstd (ZSTD_COMPRESSBOUND), frame included."""
    return size + (size >> 8) + 128


def parse_sizes(data: bytes, count: int) -> array[int]:
    """Return the sizes of `count` chunks from the bytes of "transformedChunks". Raises BadCount, Truncated, BadValue,
    BadLength for bytes behind the last size."""
    said = int.from_bytes(_taken(data, 0, 4))
    if said != count and not (said <= 1 and count == 0):
        raise BadCount(f"{said:,} sizes of {count:,} chunks", 0)
    if count == 0:
        _end(data, 4 + 4 * said)
        return array("I")
    if count == 1:
        _end(data, 8)
        return array("I", (_size(_taken(data, 4, 4), 4),))
    base, width = _size(_taken(data, 4, 4), 4), _taken(data, 8, 1)[0]
    if not 1 <= width <= 4:
        raise BadValue(f"numbers of {width} bytes", 8)
    end = 9 + (count - 1) * width
    values = _taken(data, 9, (count - 1) * width)
    sizes = array("I", map(int.from_bytes, (values[i : i + width] for i in range(0, len(values), width))))
    if max(sizes) + base > _INT32_MAX:
        raise BadValue(f"a chunk of {max(sizes) + base:,} bytes", 9)
    sizes = array("I", map(int.__add__, sizes, repeat(base)))
    sizes.append(_size(_taken(data, end, 4), end))
    _end(data, end + 4)
    return sizes


def build_sizes(sizes: list[int]) -> bytes:
    """Return the bytes, before they are compressed, of the sizes of chunks, as the plugin lays them out."""
    if len(sizes) < 2:
        return b"".join(each.to_bytes(4) for each in (len(sizes), *sizes))
    base = min(sizes[:-1])
    width = max(1, (max(sizes[:-1]) - base).bit_length() + 7 >> 3)
    head = len(sizes).to_bytes(4) + base.to_bytes(4) + bytes([width])
    return head + b"".join((each - base).to_bytes(width) for each in sizes[:-1]) + sizes[-1].to_bytes(4)


def _taken(data: bytes, position: int, length: int) -> bytes:
    if len(data) < position + length:
        raise Truncated(f"{len(data):,} bytes, which end inside the sizes", position)
    return data[position : position + length]


def _size(data: bytes, position: int) -> int:
    value = int.from_bytes(data, signed=True)
    if value < 0:
        raise BadValue(f"a size of {value:,} bytes", position)
    return value


def _end(data: bytes, position: int) -> None:
    if len(data) > position:
        raise BadLength(f"{len(data) - position:,} bytes behind the last size", position)


def _sections(found: _Fields, *, is_encrypted: bool) -> dict[str, Section]:
    sections = {}
    for name in INDEXES:
        if name == "transaction" and not found.has(name):
            continue
        section = found.inner(name)
        position, size = section.number("position", 0, _INT32_MAX), section.number("size", 0, _INT32_MAX)
        if is_encrypted and 0 < size < SEAL_BYTES:
            raise BadLength(f"{section.path('size')}: {size} bytes are too few for an encrypted index")
        sections[name] = Section(position, size)
    return sections


def _encryption(found: _Fields) -> Encryption:
    """Return how chunks are encrypted. found: the manifest's object "encryption". No error shows the wrapped key."""
    key_pair, colon, wrapped = found.text("dataKey").partition(":")
    path = found.path("dataKey")
    if not colon or not key_pair.strip():
        raise BadValue(f"{path} does not begin with the id of a key pair")
    key = _bytes_of(wrapped, path)
    if not key:
        raise BadValue(f"{path} has no key")
    return Encryption(key_pair, key, found.base64("aad"))


def _segment(found: _Fields) -> SegmentMetadata:
    segment = found.inner("remoteLogSegmentId")
    whose = segment.inner("topicIdPartition")
    partition = whose.inner("topicPartition")
    start = found.number("startOffset", 0, _INT64_MAX)
    return SegmentMetadata(
        topic=partition.text("topic"),
        partition=partition.number("partition", 0, _INT32_MAX),
        topic_id=_id(whose, "topicId"),
        segment_id=_id(segment, "id"),
        start_offset=start,
        end_offset=found.number("endOffset", start, _INT64_MAX),
        max_timestamp_ms=found.number("maxTimestampMs", -1, _INT64_MAX),
        broker_id=found.number("brokerId", -1, _INT32_MAX),
        leader_epochs=_leader_epochs(found.inner("segmentLeaderEpochs")),
    )


def _id(found: _Fields, name: str) -> str:
    text = found.text(name)
    if _ID.fullmatch(text) is None:
        raise BadValue(f"{found.path(name)} is no id: {_shown(text)}")
    return text


def _leader_epochs(found: _Fields) -> tuple[EpochEntry, ...]:
    entries = []
    for epoch in found.names():
        if not re.fullmatch(r"-?\d{1,10}", epoch, re.ASCII) or not -1 <= int(epoch) <= _INT32_MAX:
            raise BadValue(f"{found.path(epoch[:_SHOWN])} is no leader epoch")
        entries.append(EpochEntry(int(epoch), found.number(epoch, -1, _INT64_MAX)))
    return tuple(sorted(entries))
