"""Damage of every kind in batches of every golden log, with corrected CRCs where the damage is behind these: verify
names the batch, and counts the sound ones before it. A fixed sample of seeds; `make soak` runs many more."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formats.kernels.batches import BatchTable
from formats.kernels.columns import BatchRow
from formats.kernels.crc import crc32c
from formats.kernels.scan import scan
from kcli.inspector.verify import Verification
from tests.conftest import GOLDEN

Random = random.Random
Damage = Callable[[bytes, BatchRow, Random], bytes]

SETS = (
    "codecs/data",
    "txn/data",
    "txn/data-tv0",
    "groups/data",
    "unclean/recovered",
    "compact/before",
    "compact/after",
)
LOGS = sorted(path for each in SETS for path in (GOLDEN / each).glob("*/*.log") if 2_000 < path.stat().st_size < 40_000)


def batches_of(data: bytes) -> list[BatchRow]:
    table = BatchTable()
    scan(data, 0, len(data), 0, table)
    return [BatchRow._make(table.row(i)) for i in range(table.count)]


def put(batch: bytes, at: int, layout: str, value: int) -> bytes:
    changed = bytearray(batch)
    struct.pack_into(f">{layout}", changed, at, value)
    return bytes(changed)


def sealed(batch: bytes) -> bytes:
    """Return the batch with length and CRC that fit its bytes."""
    batch = put(batch, 8, "i", len(batch) - 12)
    return put(batch, 17, "I", crc32c(memoryview(batch)[21:]))


def flipped(batch: bytes, first: int, last: int, rng: Random) -> bytes:
    at = rng.randrange(first, last)
    return batch[:at] + bytes([batch[at] ^ 1 << rng.randrange(8)]) + batch[at + 1 :]


def attributes(batch: bytes, row: BatchRow, codec: int) -> bytes:
    return sealed(put(batch, 21, "h", row.attributes & ~7 | codec))


ANY: dict[str, Damage] = {
    "payload flipped": lambda b, _, r: flipped(b, 61, len(b), r),
    "CRC flipped": lambda b, _, r: flipped(b, 17, 21, r),
    "magic": lambda b, _, r: put(b, 16, "b", r.choice([3, 5, 9, 100, 127, -1, -5])),
    "codec": lambda b, row, r: attributes(b, row, r.choice([5, 6, 7])),
    "length none has": lambda b, _, r: put(b, 8, "i", r.choice([0, 1, 13, -1, -7, -(2**31), 14, 30, 48])),
    "length too large": lambda b, _, r: put(
        b, 8, "i", min(len(b) - 12 + r.choice([1, 5, 50, 10**6, 2**31]), 2**31 - 1)
    ),
    "length too small": lambda b, _, r: put(b, 8, "i", len(b) - 12 - r.choice([1, 2, 5, 9])),
    "last offset delta": lambda b, _, r: sealed(put(b, 23, "i", -r.randrange(1, 9))),
    "max timestamp": lambda b, row, r: sealed(put(b, 35, "q", row.max_timestamp + r.choice([1, -1, 10**9, 10**12]))),
    "transactional without producer": lambda b, row, _: sealed(
        put(put(put(put(b, 21, "h", row.attributes | 16), 43, "q", -1), 51, "h", -1), 53, "i", -1)
    ),
    "base offset": lambda b, _, r: put(b, 0, "q", -r.randrange(1, 100)),
}
UNCOMPRESSED: dict[str, Damage] = {
    "count": lambda b, row, r: sealed(put(b, 57, "i", r.choice([row.count + 1, row.count - 1, 0, -1, 2**31 - 1]))),
    "bytes behind the records": lambda b, _, r: sealed(b + bytes(r.randrange(1, 20))),
    "records cut": lambda b, _, r: sealed(b[: -r.randrange(1, 4)]),
}
COMPRESSED: dict[str, Damage] = {
    "count": lambda b, row, r: sealed(put(b, 57, "i", row.count + r.choice([1, -1, 5]))),
    "garbage": lambda b, _, r: sealed(b[:61] + r.randbytes(len(b) - 61)),
    "no payload": lambda b, _, __: sealed(b[:61]),
    "bytes behind the payload": lambda b, _, r: sealed(b + r.randbytes(r.randrange(1, 30))),
    "payload cut": lambda b, _, r: sealed(b[: -r.randrange(1, max(2, min(40, len(b) - 62)))]),
    "another codec": lambda b, row, r: attributes(b, row, r.choice([each for each in range(5) if each != row.codec])),
}


def damages(row: BatchRow) -> dict[str, Damage]:
    """Return the kinds of damage that such a batch can have."""
    kinds = dict(ANY)
    if row.is_append_time:
        del kinds["max timestamp"]
    if row.codec:
        return kinds | COMPRESSED
    return kinds | (UNCOMPRESSED if row.count > 0 and not row.is_control else {})


@given(seed=st.integers(0, 2**32 - 1))
def test_damage_is_found_where_it_is(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    rng = Random(seed)
    log = rng.choice(LOGS)
    data = log.read_bytes()
    rows = batches_of(data)
    if len(rows) < 3:
        return
    number = rng.randrange(1, len(rows) - 1)
    row = rows[number]
    batch = data[row.position : row.position + row.size]
    kind, damage = rng.choice(sorted(damages(row).items()))
    damaged = damage(batch, row, rng)
    if damaged == batch:
        return
    found = findings(log.name, data[: row.position] + damaged + data[row.position + row.size :], tmp_path_factory)
    at = f"{kind} in batch {number} at byte {row.position} of {log.relative_to(GOLDEN)}, seed {seed}"
    assert not [each for each in found if each[0] < row.position], f"nothing is wrong before it: {at}"
    assert (row.position, number, row.position) in found, f"not found: {at}"


def findings(
    name: str, data: bytes, tmp_path_factory: pytest.TempPathFactory
) -> list[tuple[int, int | None, int | None]]:
    """Return position, sound batches and sound bytes before it, of every error and warning."""
    partition = tmp_path_factory.mktemp("damaged") / "topic-0"
    partition.mkdir()
    (partition / name).write_bytes(data)
    return [
        (each.position, each.valid_batches_before, each.valid_bytes_before)
        for each in Verification([partition]).findings()
        if each.severity != "info" and each.position is not None
    ]
