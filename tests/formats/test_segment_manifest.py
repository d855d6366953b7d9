"""Manifests of Aiven's plugin: those that it wrote of golden/tiered, and hostile ones."""

from __future__ import annotations

import json
import tracemalloc
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.compression import ZSTD, compress
from formats.errors import BadLength, BadValue, FormatError, LimitExceeded, Truncated, UnknownVersion
from formats.segment_manifest import (
    CHUNK_BYTES_MAX,
    MANIFEST_BYTES_MAX,
    SEAL_BYTES,
    SegmentManifest,
    build_sizes,
    parse,
    parse_sizes,
)
from tests.conftest import GOLDEN

AIVEN = GOLDEN / "aiven"
LAYOUTS = ("plain", "zstd", "encrypted", "both")
EPOCHS = "remoteLogSegmentMetadata.segmentLeaderEpochs"


def manifests(layout: str) -> list[Path]:
    return sorted((AIVEN / layout).rglob("*.rsm-manifest"))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_the_plugin_wrote(layout: str) -> None:
    """The chunks follow each other, up to the end of both the segment and its object; so do the sections."""
    for path in manifests(layout):
        manifest = parse(path.read_bytes())
        assert (manifest.is_compressed, manifest.encryption is not None) == (
            layout in ("zstd", "both"),
            layout in ("encrypted", "both"),
        )
        chunks, position, start = manifest.chunks, 0, 0
        for number in range(chunks.chunks):
            chunk = chunks.chunk_at(position)
            assert (chunk.number, chunk.position, chunk.start) == (number, position, start)
            assert chunks.chunk_at(position + chunk.length - 1) == chunk
            position, start = position + chunk.length, start + chunk.size
        assert (position, start) == (chunks.file_size, path.with_suffix(".log").stat().st_size)
        ends = [section.position + section.size for section in manifest.sections.values()]
        assert max(ends) == path.with_suffix(".indexes").stat().st_size
        assert manifest.segment is not None
        assert path.name == f"{manifest.segment.start_offset:020}-{manifest.segment.segment_id}.rsm-manifest"
        assert manifest.segment.leader_epochs == ((0, manifest.segment.start_offset),)


def test_several_chunks() -> None:
    """The golden segments have some of one chunk, and some of several."""
    counts = {parse(path.read_bytes()).chunks.chunks for layout in LAYOUTS for path in manifests(layout)}
    assert counts == {1, 2, 3}


def golden(layout: str) -> dict[str, Any]:
    largest = max(manifests(layout), key=lambda path: path.with_suffix(".log").stat().st_size)
    found: dict[str, Any] = json.loads(largest.read_bytes())
    return found


def changed(layout: str, place: str, value: object) -> bytes:
    """A manifest of the plugin with another value at a place; without the place, for the value Ellipsis."""
    root = golden(layout)
    *parents, last = place.split(".")
    inner = root
    for name in parents:
        inner = inner[name]
    inner[last] = value
    if value is ...:
        del inner[last]
    return json.dumps(root).encode()


def packed(data: bytes) -> str:
    return b64encode(compress(ZSTD, data)).decode()


INT32_MAX = 2**31 - 1
HOSTILE: list[tuple[str, str, object, type[FormatError], str]] = [
    ("zstd", "version", "2", UnknownVersion, "version '2' of the manifest; kcli knows version 1"),
    ("zstd", "version", 1, BadValue, "version is no text: '1'"),
    ("zstd", "version", "9" * 1000, UnknownVersion, f"version '{'9' * 40}…' of the manifest; kcli knows version 1"),
    ("zstd", "compression", ..., BadValue, "compression is missing"),
    ("zstd", "compression", "yes", BadValue, "compression is no boolean: 'yes'"),
    ("zstd", "chunkIndex", [], BadValue, "chunkIndex is no object: '[]'"),
    ("zstd", "chunkIndex.type", "other", BadValue, "chunkIndex.type is 'other', neither 'fixed' nor 'variable'"),
    ("zstd", "chunkIndex.originalChunkSize", 0, BadValue, "chunkIndex.originalChunkSize is '0', not within 1.."),
    ("zstd", "chunkIndex.originalChunkSize", -4096, BadValue, "not within 1..2,147,483,647"),
    ("zstd", "chunkIndex.originalChunkSize", True, BadValue, "is no number: 'true'"),
    ("zstd", "chunkIndex.originalChunkSize", 4096.0, BadValue, "is no number: '4096.0'"),
    ("zstd", "chunkIndex.originalChunkSize", 10**50, BadValue, "is a number of more than 40 digits, not within"),
    ("zstd", "chunkIndex.originalFileSize", 2**31, BadValue, "is '2147483648', not within"),
    ("zstd", "chunkIndex.originalFileSize", INT32_MAX, FormatError, "sizes of 524,288 chunks"),
    ("zstd", "chunkIndex.transformedChunks", "KLUv", FormatError, "chunkIndex.transformedChunks: "),
    ("zstd", "chunkIndex.transformedChunks", "?", BadValue, "chunkIndex.transformedChunks is no base64"),
    ("zstd", "chunkIndex.transformedChunks", packed(bytes(10 << 20)), LimitExceeded, "decompresses to more than"),
    ("zstd", "chunkIndex.transformedChunks", packed(build_sizes([50, 60])), FormatError, "2 sizes of 3 chunks"),
    (
        "zstd",
        "chunkIndex.transformedChunks",
        packed(build_sizes([50, 10**6, 9])),
        BadLength,
        "a chunk of 1,000,000 byt",
    ),
    ("encrypted", "chunkIndex.transformedChunkSize", 4096, BadValue, "chunks of 4,096 and "),
    ("encrypted", "chunkIndex.finalTransformedChunkSize", INT32_MAX, BadValue, "and 2,147,483,647 bytes cannot have"),
    ("encrypted", "chunkIndex.transformedChunkSize", -1, BadValue, "not within"),
    ("encrypted", "compression", True, BadValue, "chunks of a fixed size cannot be compressed ones"),
    ("plain", "chunkIndex.finalTransformedChunkSize", 17, BadValue, "cannot have"),
    ("plain", "segmentIndexes.offset", None, BadValue, "segmentIndexes.offset is missing"),
    ("plain", "segmentIndexes.offset.position", -1, BadValue, "segmentIndexes.offset.position is '-1'"),
    ("plain", "segmentIndexes.timestamp.size", 2**40, BadValue, "not within"),
    ("encrypted", "segmentIndexes.timestamp.size", 5, BadLength, "5 bytes are too few for an encrypted index"),
    (
        "encrypted",
        "encryption.dataKey",
        "key1",
        BadValue,
        "encryption.dataKey does not begin with the id of a key pair",
    ),
    ("encrypted", "encryption.dataKey", ":AAAA", BadValue, "does not begin with the id of a key pair"),
    ("encrypted", "encryption.dataKey", "key1:", BadValue, "encryption.dataKey has no key"),
    ("encrypted", "encryption.dataKey", "key1:a:b", BadValue, "encryption.dataKey is no base64"),
    ("encrypted", "encryption.aad", 5, BadValue, "encryption.aad is no text"),
    ("plain", "remoteLogSegmentMetadata", "x", BadValue, "remoteLogSegmentMetadata is no object: 'x'"),
    ("plain", "remoteLogSegmentMetadata.startOffset", 2**63, BadValue, "not within"),
    ("plain", "remoteLogSegmentMetadata.endOffset", -1, BadValue, "not within"),
    ("plain", "remoteLogSegmentMetadata.remoteLogSegmentId.id", "../../x", BadValue, "is no id: '../../x'"),
    ("plain", f"{EPOCHS}.x", 5, BadValue, "segmentLeaderEpochs.x is no leader epoch"),
    ("plain", f"{EPOCHS}.{'1' * 5000}", 5, BadValue, "is no leader epoch"),
]


@pytest.mark.parametrize(("layout", "place", "value", "error", "text"), HOSTILE, ids=map(str, range(len(HOSTILE))))
def test_hostile_values(layout: str, place: str, value: object, error: type[FormatError], text: str) -> None:
    with pytest.raises(error) as raised:
        parse(changed(layout, place, value))
    assert text in raised.value.reason
    assert len(raised.value.reason) < 200


def test_large_chunks() -> None:
    """Chunks that are decompressed or decrypted have a limit; those that lie there as they are have none."""
    root = golden("encrypted")
    size, limit = 1 << 30, "the largest that kcli decompresses or decrypts"
    root["chunkIndex"] |= {"originalChunkSize": INT32_MAX, "originalFileSize": size}
    root["chunkIndex"] |= {"transformedChunkSize": 0, "finalTransformedChunkSize": size + SEAL_BYTES}
    with pytest.raises(
        LimitExceeded, match=f"chunks of 1,073,741,824 bytes, larger than {CHUNK_BYTES_MAX:,} bytes, {limit}"
    ):
        parse(json.dumps(root).encode())
    del root["encryption"]
    root["chunkIndex"]["finalTransformedChunkSize"] = size
    assert parse(json.dumps(root).encode()).chunks.object_size == size


@contextmanager
def in_memory(most_bytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most_bytes
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("chunk_size", [1, 2])
def test_more_chunks_than_are_read(chunk_size: int) -> None:
    """A list of a billion sizes is refused by its count, a bomb by the bytes that this count allows."""
    root = golden("zstd")
    root["chunkIndex"] |= {"originalChunkSize": chunk_size, "originalFileSize": INT32_MAX}
    root["chunkIndex"]["transformedChunks"] = packed(bytes(64 << 20))
    with (
        in_memory(1 << 20),
        pytest.raises(LimitExceeded, match="chunks of different sizes; kcli reads up to 1,048,576"),
    ):
        parse(json.dumps(root).encode())


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b"[" * 100_000, "not the JSON of a manifest"),
        (b"[]", "the manifest is no JSON object"),
        (b'{"version":' + b"1" * 5000 + b"}", "not the JSON of a manifest"),
        (bytes(MANIFEST_BYTES_MAX + 1), "are more than a manifest can have"),
    ],
)
def test_no_manifest(data: bytes, text: str) -> None:
    with pytest.raises(FormatError) as raised:
        parse(data)
    assert text in raised.value.reason


@given(st.lists(st.integers(0, 2**31 - 1), max_size=20))
def test_sizes(sizes: list[int]) -> None:
    data = build_sizes(sizes)
    assert parse_sizes(data, len(sizes)).tolist() == sizes
    for end in range(len(data)):
        with pytest.raises((Truncated, BadValue)):
            parse_sizes(data[:end], len(sizes))
    with pytest.raises(BadLength):
        parse_sizes(data + b"x", len(sizes))


def test_sizes_by_width() -> None:
    """The plugin's own example: values that differ little take one byte each."""
    sizes = [1_000_000, 1_000_010, 1_000_020, 5]
    assert build_sizes(sizes).hex() == "00000004" + "000f4240" + "01" + "000a14" + "00000005"
    for step in (1, 300, 70_000, 20_000_000):
        sizes = [100 + step * i for i in range(4)]
        assert parse_sizes(build_sizes(sizes), 4).tolist() == sizes


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("0000000280000000010000000005", "a size of -2,147,483,648 bytes"),
        ("000000020000000105000000000000000005", "numbers of 5 bytes"),
        ("00000002000000010000000005", "numbers of 0 bytes"),
        ("000000027fffffff010100000005", "a chunk of 2,147,483,648 bytes"),
        ("00000002000000010101ffffffff", "a size of -1 bytes"),
        ("7fffffff000000010101ffffffff", "2,147,483,647 sizes of 2 chunks"),
    ],
)
def test_hostile_sizes(data: str, text: str) -> None:
    with pytest.raises(FormatError) as raised:
        parse_sizes(bytes.fromhex(data), 2)
    assert text in raised.value.reason


@given(st.data())
def test_damaged_manifests(data: st.DataObject) -> None:
    """Whatever bytes are changed, there is a manifest or a typed error."""
    original = bytearray(json.dumps(golden("both")).encode())
    at = data.draw(st.integers(0, len(original) - 1))
    original[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    with suppress(FormatError):
        assert isinstance(parse(bytes(original)), SegmentManifest)
