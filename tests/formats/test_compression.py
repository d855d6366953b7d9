"""The codecs: what Kafka accepts and refuses, no bytes behind the end, no output beyond the limit."""

import base64
import gzip
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import cramjam
import lz4.frame  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from formats import compression, record_batch
from formats.compression import CODEC_NAMES, GZIP, LZ4, NONE, SNAPPY, ZSTD, compress, decompress, decompress_prefix
from formats.errors import BadCodec, BadCompression, BytesBehind, FormatError, LimitExceeded
from tests.conftest import GOLDEN, Json, read_jsonl

CODECS = range(5)
CASES = {case["id"]: case for case in read_jsonl(GOLDEN / "corrupt" / "cases.jsonl")}
TEXT = b"".join(b"order %d of %d, " % (at % 37, at * at) for at in range(300)) + b"x" * 300
CRAFTED = {case["name"]: case for case in read_jsonl(GOLDEN / "codecs" / "expected" / "crafted.jsonl")}
CODEC_NAMES_OF_KAFKA = ["none", "gzip", "snappy", "lz4", "zstd"]
FLIPS_UNSEEN = {"compressed-flip-snappy", "compressed-flip-zstd"}  # a changed literal in codecs without a checksum


def of_case(case: Json) -> tuple[int, bytes]:
    """Codec and payload of the batch that a case damages."""
    damaged = case["damaged"]
    data = (GOLDEN / "corrupt" / "cases" / case["id"] / damaged["file"]).read_bytes()
    header = record_batch.parse_header(data, damaged["batch_position"])
    start = damaged["batch_position"] + record_batch.HEADER.size
    return header.codec, data[start : damaged["batch_position"] + header.size]


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.one_of(st.binary(max_size=300), st.binary(max_size=40).map(lambda part: part * 3000)))
def test_round_trip(codec: int, data: bytes) -> None:
    packed = compress(codec, data)
    assert decompress(codec, packed) == data
    assert decompress(codec, memoryview(packed), limit=len(data)) == data
    assert decompress_prefix(codec, packed) == (data, None)
    if data:
        with pytest.raises(LimitExceeded):
            decompress(codec, packed, limit=len(data) - 1)


@pytest.mark.parametrize(("codec", "level"), [(GZIP, 1), (GZIP, 9), (LZ4, 1), (LZ4, 17), (ZSTD, -5), (ZSTD, 22)])
def test_levels(codec: int, level: int) -> None:
    data = bytes(range(256)) * 600
    assert decompress(codec, compress(codec, data, level=level)) == data


@pytest.mark.parametrize("level", [None, 1, 9])
def test_the_header_of_gzip_is_that_of_java(level: int | None) -> None:
    """No extra flags, and no operating system: GZIPOutputStream of Java 17."""
    assert compress(GZIP, TEXT, level=level)[:10] == bytes.fromhex("1f8b08000000000000ff")


@pytest.mark.parametrize(
    ("codec", "behind", "are_ignored"),
    [
        (GZIP, b"x", True),
        (GZIP, b"\x1f\x8b\x08" + bytes(15), True),
        (GZIP, b"\x1f\x8b\x08" + bytes(16), False),
        (GZIP, bytes(1000), True),
        (SNAPPY, b"xyz", True),
        (SNAPPY, b"four", False),
        (LZ4, b"x", True),
        (LZ4, bytes(1000), True),
        (ZSTD, b"x", False),
    ],
)
def test_bytes_behind_the_end_that_java_ignores(codec: int, behind: bytes, are_ignored: bool) -> None:
    """The payload before them is whole."""
    packed = compress(codec, TEXT) + behind
    with pytest.raises(BadCompression) as refused:
        decompress(codec, packed)
    assert isinstance(refused.value, BytesBehind) is are_ignored
    before, error = decompress_prefix(codec, packed)
    assert before == TEXT
    assert type(error) is type(refused.value)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_bytes_behind_the_end_are_refused(codec: int) -> None:
    packed = compress(codec, b"some records " * 50)
    rng = random.Random(codec)
    for size in (1, 3, 4, 17, 200):
        with pytest.raises(BadCompression) as caught:
            decompress(codec, packed + rng.randbytes(size))
        assert caught.value.position is not None
        assert caught.value.position > 0


@pytest.mark.parametrize("codec", [-1, 5, 6, 7])
def test_unknown_codecs(codec: int) -> None:
    for act in (decompress, decompress_prefix, compress):
        with pytest.raises(BadCodec):
            act(codec, b"")


@pytest.mark.parametrize("name", CRAFTED)
def test_framings_that_real_brokers_were_sent(name: str) -> None:
    case = CRAFTED[name]
    sent = base64.b64decode(case["sent_base64"])
    header = record_batch.parse_header(sent)
    payload = sent[record_batch.HEADER.size :]
    if name in ("lz4_two_frames", "snappy_framing_format"):
        assert case["error"] != 0
        with pytest.raises(BadCompression):
            decompress(header.codec, payload)
    else:
        records = record_batch.parse_records(decompress(header.codec, payload), header.record_count)
        assert len(records) == header.record_count


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith(("compressed-", "codec-"))])
def test_damaged_payloads(name: str) -> None:
    codec, payload = of_case(CASES[name])
    if name == "codec-gzip-labelled-none" or name in FLIPS_UNSEEN:
        decompress(codec, payload)
        return
    with pytest.raises((BadCompression, BadCodec, LimitExceeded)):
        decompress(codec, payload)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("bomb-")])
def test_bombs(name: str) -> None:
    codec, payload = of_case(CASES[name])
    limit = 8 * 1024 * 1024
    with pytest.raises(LimitExceeded):
        decompress(codec, payload, limit=limit)
    prefix, error = decompress_prefix(codec, payload, limit=limit)
    assert isinstance(error, LimitExceeded)
    assert len(prefix) <= limit


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD])
def test_prefix_is_what_lies_before_the_damage(codec: int) -> None:
    rng = random.Random(codec)
    data = b"".join(b"order %d, " % rng.randrange(10**6) for _ in range(40_000))
    packed = compress(codec, data)
    for part in (0.3, 0.8, 0.99):
        cut = int(len(packed) * part)
        prefix, error = decompress_prefix(codec, packed[:cut])
        assert isinstance(error, BadCompression)
        assert data.startswith(prefix)
        assert len(prefix) > len(data) * part - (200_000 if codec == ZSTD else 20_000)


@pytest.mark.parametrize(
    "compressed", [compress(SNAPPY, TEXT), bytes(cramjam.snappy.compress_raw(TEXT)), compress(LZ4, TEXT)]
)
def test_prefix_of_a_damaged_block(compressed: bytes) -> None:
    codec = LZ4 if compressed.startswith(compression.LZ4_MAGIC) else SNAPPY
    shortest = 0
    for cut in range(len(compressed)):
        prefix, error = decompress_prefix(codec, compressed[:cut])
        assert error is not None or (codec == SNAPPY and cut == 16)
        assert TEXT.startswith(prefix)
        assert len(prefix) >= shortest
        shortest = len(prefix)
    assert shortest >= len(TEXT) - 80


def test_several_members_and_frames() -> None:
    parts = [b"first " * 100, b"", b"second " * 100]
    whole = b"".join(parts)
    skippable = b"\x5a\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    streamed = zstandard.ZstdCompressor(write_content_size=False).compress(whole)
    assert decompress(GZIP, b"".join(map(gzip.compress, parts))) == whole
    assert decompress(ZSTD, skippable.join(map(zstandard.compress, parts)) + skippable) == whole
    assert decompress(ZSTD, streamed) == whole
    assert decompress(SNAPPY, b"".join(compress(SNAPPY, part) for part in parts)) == whole


def test_lz4_frames_that_kafka_reads() -> None:
    data = random.Random(4).randbytes(70_000) + bytes(200_000)
    for size in (lz4.frame.BLOCKSIZE_MAX64KB, lz4.frame.BLOCKSIZE_MAX1MB, lz4.frame.BLOCKSIZE_MAX4MB):
        for flags in ({"block_checksum": True}, {"content_checksum": True}, {"store_size": False}):
            frame = lz4.frame.compress(data, block_size=size, block_linked=False, **flags)
            assert decompress(LZ4, frame) == data
    with pytest.raises(BadCompression, match="depend on each other"):
        decompress(LZ4, lz4.frame.compress(data, block_size=lz4.frame.BLOCKSIZE_MAX64KB, block_linked=True))


def test_lz4_header_checksum_of_magic_0() -> None:
    old, new = compress(LZ4, b"old", magic=0), compress(LZ4, b"old")
    assert old != new
    assert decompress(LZ4, old, magic=0) == decompress(LZ4, new, magic=0) == b"old"
    with pytest.raises(BadCompression, match="checksum"):
        decompress(LZ4, old)


def test_lz4_block_checksum() -> None:
    frame = bytearray(lz4.frame.compress(b"x" * 100, block_linked=False, block_checksum=True, store_size=False))
    frame[-5] ^= 1
    with pytest.raises(BadCompression, match="checksum"):
        decompress(LZ4, bytes(frame))


def test_threads_do_not_disturb_each_other() -> None:
    def work(seed: int) -> bool:
        rng = random.Random(seed)
        data = [rng.randbytes(50) * rng.randrange(1, 400) for _ in range(40)]
        return all(decompress(codec, compress(codec, each)) == each for each in data for codec in CODECS)

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_only_the_codec_in_use_is_imported() -> None:
    script = (
        "import sys; from formats import compression as c; c.decompress(c.GZIP, c.compress(c.GZIP, b'x'));"
        "print(sorted({'construct', 'cramjam', 'lz4', 'numpy', 'zstandard'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names() -> None:
    assert [CODEC_NAMES[codec] for codec in (NONE, GZIP, SNAPPY, LZ4, ZSTD)] == CODEC_NAMES_OF_KAFKA
    assert compression.DEFAULT_LIMIT == 64 * 1024 * 1024


def test_errors_are_format_errors() -> None:
    error = BadCompression("x", 3).at(100)
    assert isinstance(error, FormatError)
    assert (type(error), error.reason, error.position, str(error)) == (BadCompression, "x", 103, "x (byte 103)")
    assert LimitExceeded("y").at(7).position == 7


@pytest.mark.parametrize("rest", [b"\0", b"\xff" * 3, b"\x28\xb5\x2f", bytes(17), b"garbage behind the frame"])
def test_zstd_frame_without_content_size_ends_where_it_ends(rest: bytes) -> None:
    """Kafka's producers write such frames: only the blocks show where the frame ends."""
    content = b"value " * 40_000
    for checksum in (False, True):
        options = {"write_content_size": False, "write_checksum": checksum}
        parameters = zstandard.ZstdCompressionParameters.from_level(3, **options)
        frame = zstandard.ZstdCompressor(compression_params=parameters).compress(content)
        assert decompress(ZSTD, frame) == content
        with pytest.raises(FormatError):
            decompress(ZSTD, frame + rest)
