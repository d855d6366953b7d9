"""Sound batches out of order, and batches that consumers cannot read: the first line names cause and effect."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from kcli.inspector.verify import Finding, Verification
from kcli.inspector.verify.findings import rank
from tests.damage import frames, mended
from tests.log.batches import keyed as keyed_batch
from tests.log.live.test_partition_log_lifecycle import SMALL, filled

Batches = list[bytes]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a partition of several segments with three batches each."""
    directory = tmp_path_factory.mktemp("sound") / "p-0"
    filled(directory, SMALL).close(0)
    return directory


def batches_of(path: Path) -> Batches:
    data = path.read_bytes()
    return [data[start : start + size] for start, size in frames(data)]


@pytest.mark.parametrize(("one", "other"), [(1, 3), (2, 5)])
def test_exchanged_batches_that_fit_into_the_places_of_each_other(tmp_path: Path, one: int, other: int) -> None:
    found = [bytes(keyed_batch(b"k", b"%d" % at, base_offset=at)) for at in range(8)]
    size = len(found[0])
    found[one], found[other] = found[other], found[one]
    directory = tmp_path / "p-0"
    directory.mkdir()
    (directory / f"{0:020}.log").write_bytes(b"".join(found))
    first, *_ = errors_of(directory)
    assert first.kind == "offsets-order"
    assert f"the batches at byte {one * size} and byte {other * size} are exchanged" in str(first.found)


def errors_of(directory: Path) -> list[Finding]:
    found = [each for each in Verification([directory]).findings() if each.severity == "error"]
    return sorted(found, key=rank)


def damaged(sound: Path, home: Path, change: Callable[[Batches], Batches]) -> list[Finding]:
    """Return the errors in a partition of which one segment is changed."""
    directory = home / "p-0"
    shutil.copytree(sound, directory)
    path = directory / f"{6:020}.log"
    path.write_bytes(b"".join(change(batches_of(path))))
    return errors_of(directory)


ORDER: dict[str, tuple[Callable[[Batches], Batches], str]] = {
    "exchanged": (lambda b: [b[0], b[2], b[1]], "the batches at byte {1} and byte {2} are exchanged"),
    "exchanged across one": (lambda b: [b[2], b[1], b[0]], "the batches at byte 0 and byte {2} are exchanged"),
    "rotated forward": (lambda b: [b[2], b[0], b[1]], "the batch at byte 0 belongs behind the 2 that follow"),
    "rotated back": (lambda b: [b[1], b[2], b[0]], "the batch at byte {2} belongs in front of the 2 from byte 0 on"),
    "repeated": (lambda b: [b[0], b[1], b[0], b[1], b[2]], "the 2 batches at byte {2} repeat those at byte 0"),
    "repeated at the end": (lambda b: [*b, b[1]], "the batch at byte {3} repeats the one at byte {1}"),
    "repeated in front": (lambda b: [b[1], *b], "the batch at byte 0 repeats the one at byte {2}"),
    "written over": (
        lambda b: [b[0], b[0], b[2]],
        "the batch at byte {1} repeats the one at byte 0; offsets 8..9 are in no batch",
    ),
}
"""Changes of a segment's batches, and their findings; {n}: the byte where batch n then begins."""


@pytest.mark.parametrize("case", ORDER)
def test_batches_out_of_order_are_one_finding(sound: Path, tmp_path: Path, case: str) -> None:
    change, told = ORDER[case]
    (finding,) = damaged(sound, tmp_path, change)
    starts = [start for start, _ in frames((tmp_path / "p-0" / f"{6:020}.log").read_bytes())]
    assert finding.kind == "offsets-order"
    assert finding.found == told.format(*(f"{start:,}" for start in starts))
    assert finding.command == f"kcli recover --unclean --salvage --dry-run {tmp_path}/p-0"
    assert (finding.lost_first_offset, finding.lost_last_offset) == ((8, 9) if case == "written over" else (None, None))


CONTENT: dict[str, tuple[Callable[[bytearray], None], str]] = {
    "magic": (lambda data: data.__setitem__(16, 3), "batch-magic"),
    "codec": (lambda data: data.__setitem__(22, 5), "codec"),
    "payload": (lambda data: data.__setitem__(22, 4), "decompression"),
    "count": (lambda data: data.__setitem__(60, data[60] + 1), "record-count"),
    "length of a record": (lambda data: data.__setitem__(61, 0x7E), "record-structure"),
    "another magic": (lambda data: data.__setitem__(16, 1), "record-structure"),
}


@pytest.mark.parametrize("case", CONTENT)
def test_consumers_stop_at_a_batch_that_they_cannot_read(sound: Path, tmp_path: Path, case: str) -> None:
    """The batch's CRC is correct, so Kafka starts with it."""
    change, kind = CONTENT[case]

    def changed(batches: Batches) -> Batches:
        batch = bytearray(batches[1])
        change(batch)
        return [batches[0], mended(batch), *batches[2:]]

    finding = damaged(sound, tmp_path, changed)[0]
    assert finding.kind == kind
    assert finding.action.startswith("Kafka starts with it, and consumers stop at offset 8 for good")
    assert finding.command == f"kcli recover --unclean --salvage --dry-run {tmp_path}/p-0"
