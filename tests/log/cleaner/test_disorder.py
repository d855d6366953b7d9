"""Directories whose names do not say what is in them: Kafka's cleaner goes by the names, and so does this one.

The name of the segment that follows sets how far the offset map speaks, whatever offsets it holds. The hashes are of
the logs that Kafka 4.3's cleaner left of these very directories.
"""

from __future__ import annotations

import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

from formats.batch_writer import write_batch
from kcli.errors import KcliError
from kcli.log.cleaner.cleaner import PartitionCleaner
from kcli.log.cleaner.partition import Uncleanable, read_log
from kcli.log.config import CleanerConfig, LogConfig
from kcli.log.disk import Disk

TIME_MS = 1_700_000_000_000
RULES = LogConfig({"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"})
LAST_OFFSET = 2**63 - 1
BATCH = 50
EMPTY = (9_999, 0, 0)

# By base offset of the file: offsets from, to. Then what Kafka leaves: size, sha256, and its cleaner's checkpoint.
Case = tuple[list[tuple[int, int, int]], dict[int, tuple[int, str]], int]
CASES: dict[str, Case] = {
    "within what the segment before holds": (
        [(0, 0, 20_000), EMPTY, (20_000, 20_000, 30_000), (30_000, 30_000, 30_100)],
        {0: (1_664, "e9af92962e9bb6e9"), 30_000: (1_712, "f8c22eaa6f6d7e15")},
        30_000,
    ),
    "behind two whose offsets pass it": (
        [(0, 0, 20_000), (5_000, 20_000, 30_000), EMPTY],
        {0: (342_414, "703f027444563f70"), 9_999: (0, "e3b0c44298fc1c14")},
        9_999,
    ),
    "behind one far longer": (
        [(0, 0, 200_000), EMPTY],
        {0: (3_352_294, "1845fa224208f2f2"), 9_999: (0, "e3b0c44298fc1c14")},
        9_999,
    ),
    "between two whose offsets pass it": (
        [(0, 0, 20_000), (5_000, 20_000, 30_000), EMPTY, (25_000, 25_000, 26_000), (40_000, 40_000, 40_010)],
        {0: (71_792, "533de8c4ee8e7aa1"), 40_000: (221, "884ad7e5756ff5cf")},
        40_000,
    ),
}


def write(directory: Path, base: int, first: int, stop: int) -> None:
    """Write a segment named `base` with offsets [first, stop) of 97 repeating keys."""
    log = b"".join(
        write_batch(
            [(b"k%d" % (i % 97), b"v%d" % i) for i in range(at, min(stop, at + BATCH))], TIME_MS, base_offset=at
        )
        for at in range(first, stop, BATCH)
    )
    (directory / f"{base:020}.log").write_bytes(log)


def clean(directory: Path) -> tuple[dict[int, bytes], int | None]:
    """Clean; return the remaining logs by base offset, and the checkpoint."""
    target = directory / "cleaned"
    target.mkdir()
    now_ms = TIME_MS + 86_400_000
    log = read_log(directory, now_ms=now_ms, producer_expiration_ms=86_400_000)
    done = PartitionCleaner(log, RULES, CleanerConfig(), now_ms=now_ms, disk=Disk(), target=target).clean(None)
    return {segment.base_offset: segment.path().read_bytes() for segment in log.segments}, done.checkpoint


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_empty_segment_among_others(case: Case, tmp_path: Path) -> None:
    segments, expected, checkpoint = case
    for segment in segments:
        write(tmp_path, *segment)
    logs, reached = clean(tmp_path)
    assert {base: (len(log), sha256(log).hexdigest()[:16]) for base, log in logs.items()} == expected
    assert reached == checkpoint


def test_bits_of_the_map_stay_in_their_memory(tmp_path: Path) -> None:
    """The offsets lie two thousand million behind the next segment's base offset, so their bits would lie 250 MB behind
    the map's."""
    log = write_batch([(b"k", b"1")], TIME_MS) + write_batch([(b"k", b"2")], TIME_MS, base_offset=2_000_000_000)
    (tmp_path / f"{0:020}.log").write_bytes(log)
    (tmp_path / f"{9_999:020}.log").touch()
    script = "import sys; from pathlib import Path; from tests.log.cleaner.test_disorder import clean; "
    script += "print(*clean(Path(sys.argv[1]))[0][0])"
    done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    second = log[len(log) // 2 :]
    assert bytes(map(int, done.stdout.split())) == second


def test_a_log_that_ends_where_offsets_end(tmp_path: Path) -> None:
    """No offset lies behind 2^63 - 1: neither a log's end, nor one in a checkpoint that Kafka could read."""
    base = LAST_OFFSET - 10
    log = write_batch([(b"k", b"v")] * 11, TIME_MS, base_offset=base)
    (tmp_path / f"{base:020}.log").write_bytes(log)
    with pytest.raises(Uncleanable, match="no offset lies behind"):
        clean(tmp_path)


def test_a_map_that_is_full_where_offsets_end(tmp_path: Path) -> None:
    """The pass would end behind the largest offset."""
    head = write_batch([(b"k", b"1")], TIME_MS, base_offset=LAST_OFFSET - 5)
    tail = write_batch([(b"last", b"2")], TIME_MS, base_offset=LAST_OFFSET)
    more = write_batch([(b"other", b"3"), (b"third", b"3")], TIME_MS, base_offset=LAST_OFFSET - 1)
    base = LAST_OFFSET - 9
    (tmp_path / f"{base:020}.log").write_bytes(head + tail + more)
    (tmp_path / f"{LAST_OFFSET:020}.log").touch()
    log = read_log(tmp_path, now_ms=TIME_MS, producer_expiration_ms=1)
    broker = CleanerConfig(dedupe_buffer_bytes=96, dedupe_load_factor=0.5)
    cleaner = PartitionCleaner(log, RULES, broker, now_ms=TIME_MS, disk=Disk(), target=None)
    with pytest.raises(KcliError, match="no offset lies behind"):
        cleaner.clean(None)
