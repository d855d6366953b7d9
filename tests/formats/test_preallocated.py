"""Index files of a running broker: Kafka preallocates 10 MiB for each, and few entries are in use."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest

from formats import offset_index, time_index
from formats.errors import BadLength

PREALLOCATED_BYTES = 120_000


@pytest.mark.parametrize(
    ("index", "entries"), [(offset_index, [(7, 4096), (19, 8192)]), (time_index, [(1_700_000_000_000, 7), (-1, 19)])]
)
def test_only_entries_in_use_are_unpacked(
    index: ModuleType, entries: Sequence[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest once took a second of each read of an active segment by offset."""
    made: list[Any] = []
    make = index.ENTRY._value

    def counted(*values: int) -> Any:
        made.append(make(*values))
        return made[-1]

    monkeypatch.setattr(index.ENTRY, "_value", counted)
    data = index.ENTRY.pack_all(entries)
    slack = bytes(PREALLOCATED_BYTES - len(data))
    parsed = index.parse(data + slack)
    assert (list(parsed.entries), parsed.slack_bytes) == (entries, len(slack))
    assert made == entries
    with pytest.raises(BadLength) as error:
        index.parse(data + slack + b"\0")
    assert error.value.position == PREALLOCATED_BYTES
