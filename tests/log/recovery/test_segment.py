"""One segment: lookups through its index as in Kafka, and batches too large for memory."""

import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.errors import StartRefused, UnreadableInput
from kcli.log.index_entries import OffsetIndexReader, whole_entries
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.partition_view import PartitionView
from kcli.log.producer_state import ProducerStateManager
from kcli.log.recovery import segment as segment_module
from kcli.log.recovery.segment import RecoverySegment
from kcli.log.segment_reader import Window, read_segment
from tests.conftest import SAMPLES
from tests.log.recovery.test_loader import NOW_MS, batch, write


@given(st.lists(st.integers(0, 10**6), unique=True, max_size=3000), st.integers(-1, 10**6 + 1))
def test_index_search(relatives: list[int], target: int) -> None:
    ordered = sorted(relatives)
    data = b"".join(struct.pack(">ii", relative, number) for number, relative in enumerate(ordered))
    reader = OffsetIndexReader(data + b"rest", 1000)
    below = [number for number, relative in enumerate(ordered) if relative + 1000 <= target + 1000]
    assert reader.position_of(target + 1000) == (below[-1] if below else 0)
    assert reader.last_offset == 1000 + (ordered[-1] if ordered else 0)
    assert whole_entries(data + b"rest", 8) == data


@pytest.mark.parametrize("name", ["java-none-0", "java-zstd-0", "v1-none-0", "c-tomb-short-0"])
def test_translate_and_end(name: str) -> None:
    view = PartitionView(SAMPLES / "good" / name)
    bases = [int(each.partition(".")[0]) for each in view.names() if each.endswith(".log")]
    for base, behind in [*pairwise(bases), (bases[-1], None)]:
        segment = RecoverySegment(view, base)
        rows = []
        for part in segment.windows():
            assert isinstance(part, Window)
            rows += [part.batches.row(i) for i in range(part.batches.count)]
        end = rows[-1][4] + 1
        assert segment.read_next_offset() == end
        assert behind is None or end <= behind
        assert segment.translate(end) is None
        for position, _, _, first, last, *_ in rows:
            assert segment.translate(first) == segment.translate(last) == position


def test_clean_start_meets_a_bad_length(tmp_path: Path) -> None:
    write(tmp_path / "t-0", batch(0), bytes(100))
    with pytest.raises(StartRefused, match="length 0 is below 14"):
        RecoverySegment(PartitionView(tmp_path / "t-0"), 0).read_next_offset()


@pytest.mark.parametrize("sound", [True, False])
def test_batch_beyond_memory(sound: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The CRC is computed piece by piece: a wrong one cuts the log, a correct one gives an error, since the batch is
    too large."""

    def small(*arguments: object, **options: object) -> object:
        return read_segment(*arguments, **{**options, "window_bytes": 1000, "max_batch_bytes": 5000})  # type: ignore[arg-type]

    monkeypatch.setattr(segment_module, "read_segment", small)
    large = bytearray(batch(1, size=20_000))
    large[9000] ^= not sound
    write(tmp_path / "t-0", batch(0), bytes(large), batch(2))
    view = PartitionView(tmp_path / "t-0")
    segment = RecoverySegment(view, 0)
    if sound:
        with pytest.raises(UnreadableInput, match="above the limit"):
            segment.recover(ProducerStateManager(view, NOW_MS), LeaderEpochCache())
        return
    recovered = segment.recover(ProducerStateManager(view, NOW_MS), LeaderEpochCache())
    assert recovered.fault is not None
    assert (recovered.fault.kind, recovered.fault.position, segment.size) == ("crc", 200, 200)
