"""A batch with a correct CRC that no client can read: the read-only log skips it like other damage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.log.read_only.segment import ReadOnlySegment
from tests.damage import frames, mended
from tests.log.live.test_partition_log_lifecycle import SMALL, filled

MAX_BYTES = 1 << 20

CHANGES: dict[str, Callable[[bytearray], None]] = {
    "codec": lambda data: data.__setitem__(22, 5),
    "payload that does not decompress": lambda data: data.__setitem__(22, 4),
    "record count": lambda data: data.__setitem__(60, data[60] + 1),
    "length of a record": lambda data: data.__setitem__(61, 0x7E),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=list(CHANGES))
def test_a_fetch_goes_on_behind_it(tmp_path: Path, change: Callable[[bytearray], None]) -> None:
    directory = tmp_path / "p-0"
    filled(directory, SMALL).close(0)
    path = directory / f"{6:020}.log"
    data = path.read_bytes()
    (_, first_size), (start, size), (behind, _) = frames(data)
    batch = bytearray(data[start : start + size])
    change(batch)
    path.write_bytes(data[:start] + mended(batch) + data[start + size :])
    segment = ReadOnlySegment(path, 6)
    before = segment.read(6, 12, MAX_BYTES, min_one_batch=True)
    after = segment.read(8, 12, MAX_BYTES, min_one_batch=True)
    segment.release()
    assert before is not None
    assert after is not None
    assert before.region is not None
    assert after.region is not None
    assert (before.region.position, before.region.length) == (0, first_size)
    assert after.region.position == behind
