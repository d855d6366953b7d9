"""Each kind of damage at several batches of real Kafka's segments is found at its byte, with the number of sound
batches before it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from formats.crc32c import crc32c
from kcli.inspector.verify import Verification
from tests.conftest import GOLDEN

SEGMENTS = sorted((GOLDEN / "codecs" / "data").glob("[jmr]*-0/*.log"))[::3]
BASE_OFFSET, LENGTH, LEADER_EPOCH, MAGIC, LAST_DELTA, MAX_TIMESTAMP, COUNT = (
    slice(0, 8),
    slice(8, 12),
    slice(12, 16),
    slice(16, 17),
    slice(23, 27),
    slice(35, 43),
    slice(57, 61),
)


def changed(field: slice, change: Callable[[int], int], *, right_crc: bool = False) -> Callable[[bytes], bytes]:
    """Return a function that changes one field of a batch, and corrects its CRC or not."""

    def damage(batch: bytes) -> bytes:
        value = change(int.from_bytes(batch[field], signed=True))
        damaged = batch[: field.start] + value.to_bytes(field.stop - field.start, signed=True) + batch[field.stop :]
        return damaged[:17] + crc32c(damaged[21:]).to_bytes(4) + damaged[21:] if right_crc else damaged

    return damage


# name: (damage, whether it shows in the last batch, too)
DAMAGES: dict[str, tuple[Callable[[bytes], bytes], bool]] = {
    "overlap": (changed(BASE_OFFSET, lambda offset: offset - 1), True),
    "jump": (changed(BASE_OFFSET, lambda offset: offset + 1000), False),
    "negative": (changed(BASE_OFFSET, lambda _: -5), True),
    "beyond-int": (changed(BASE_OFFSET, lambda offset: offset + 2**31 + 7), True),
    "last-offset-above": (changed(LAST_DELTA, lambda delta: delta + 5, right_crc=True), False),
    "last-offset-below": (changed(LAST_DELTA, lambda _: -2, right_crc=True), True),
    "leader-epoch": (changed(LEADER_EPOCH, lambda epoch: epoch + 7), False),
    "max-timestamp": (changed(MAX_TIMESTAMP, lambda timestamp: timestamp + 10**9, right_crc=True), True),
    "length-shorter": (changed(LENGTH, lambda length: length - 5), True),
    "length-longer": (changed(LENGTH, lambda length: length + 7), True),
    "length-largest": (changed(LENGTH, lambda _: 2**31 - 1), True),
    "length-48": (changed(LENGTH, lambda _: 48), True),
    **{f"magic{magic}": (changed(MAGIC, lambda _, magic=magic: magic), True) for magic in (-1, 0, 1, 3, 127)},  # type: ignore[misc]
    "count": (changed(COUNT, lambda count: count + 1, right_crc=True), True),
    "zeros": (lambda batch: bytes(len(batch)), True),
}


def batches_of(data: bytes) -> list[bytes]:
    batches = []
    while data:
        size = 12 + int.from_bytes(data[8:12])
        batches.append(data[:size])
        data = data[size:]
    return batches


def check(path: Path, batches: list[bytes], faulty: int) -> None:
    """Write the batches; verify must find the one with that number, with all earlier ones sound."""
    path.write_bytes(b"".join(batches))
    position = sum(map(len, batches[:faulty]))
    findings = [finding for finding in Verification([path]).findings() if finding.severity != "info"]
    found = [(finding.position, finding.valid_batches_before, finding.valid_bytes_before) for finding in findings]
    assert (position, faulty, position) in found


@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_batch(tmp_path: Path, name: str) -> None:
    damage, in_last = DAMAGES[name]
    for segment in SEGMENTS:
        batches = batches_of(segment.read_bytes())
        for i in sorted({0, 1, len(batches) // 2, len(batches) - 1}):
            if in_last or i < len(batches) - 1:
                check(tmp_path / segment.name, [*batches[:i], damage(batches[i]), *batches[i + 1 :]], i)


def test_doubled_and_swapped_batches(tmp_path: Path) -> None:
    for segment in SEGMENTS:
        batches = batches_of(segment.read_bytes())
        for i in sorted({0, 1, len(batches) // 2, len(batches) - 2} & set(range(len(batches) - 1))):
            check(tmp_path / segment.name, [*batches[: i + 1], *batches[i:]], i + 1)
            swapped = [*batches[:i], batches[i + 1], batches[i], *batches[i + 2 :]]
            check(tmp_path / segment.name, swapped, i + 1)
