"""Reading a damaged segment, with corrected CRCs or without, gives typed errors or sound Arrow tables, and takes little
memory."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcli.export.corruption import CorruptLog
from tests.conftest import GOLDEN, examples
from tests.export.tables import load
from tests.test_fuzz import damaged

SEGMENTS = [
    *(GOLDEN / f"codecs/data/{topic}-0/{0:020}.log" for topic in ("mixed", "java-none", "append-time")),
    *(GOLDEN / f"legacy/data/{topic}-0/{0:020}.log" for topic in ("v0-gzip", "v1-none", "v0-v1-v2-mixed")),
    GOLDEN / f"txn/data/t-mix-0/{3:020}.log",
]
PLACES = st.integers(0, 1 << 20) | st.integers(0, 200)


@given(
    original=st.sampled_from(SEGMENTS),
    flips=st.lists(st.tuples(PLACES, st.integers(1, 255)), max_size=4),
    cut=st.none() | st.integers(0, 1 << 20),
    mend=st.booleans(),
    isolation=st.sampled_from(["read_uncommitted", "read_committed"]),
)
@examples(60, soak=3_000)
def test_any_damage(
    tmp_path_factory: pytest.TempPathFactory,
    original: Path,
    flips: list[tuple[int, int]],
    cut: int | None,
    mend: bool,
    isolation: str,
) -> None:
    directory = tmp_path_factory.mktemp("fuzz") / original.parent.name
    directory.mkdir()
    for beside in original.parent.iterdir():
        if beside.suffix != ".log":
            (directory / beside.name).write_bytes(beside.read_bytes())
    (directory / original.name).write_bytes(damaged(original.read_bytes(), flips, cut, mend=mend))
    options = {"columns": "*", "isolation": isolation, "includeControl": "true"}
    kept = load(directory, onCorruption="skip", **options)
    with suppress(CorruptLog):
        assert load(directory, **options) == kept
