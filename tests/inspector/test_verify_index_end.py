"""A wrong offset index of the active segment, after a clean stop: verify says what recover says, which is what Kafka
does with it."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest

from tests.cli.run import kcli
from tests.inspector.test_verify_causes import PARTITION, directory, logs, loud

__all__ = ["directory"]  # a fixture


def kinds_of(directory: Path) -> dict[str, dict[str, object]]:
    rows = map(json.loads, kcli("recover", "--clean", "--format", "jsonl", directory).stdout.splitlines())
    return {row["kind"]: row for row in rows if row["partition"] == PARTITION}


@pytest.mark.parametrize("position", [1, 100, 4000, -20])
def test_verify_and_recover_agree(directory: Path, position: int) -> None:
    log = logs(directory)[-1]
    (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')
    at = position if position >= 0 else log.stat().st_size + position
    log.with_suffix(".index").write_bytes(struct.pack(">ii", 5, at))
    rows = kinds_of(directory)
    (finding,) = [each for each in loud(directory) if each.path == str(log.with_suffix(".index"))]
    assert finding.refuses_start == ("refused" in rows)
    if finding.refuses_start:
        assert f"at byte {rows['refused']['position']:,} of the log" in finding.action
    else:
        end = rows["partition"]["log_end_offset"]
        assert f"offsets {end:,}.." in finding.action or f"the end of the log with it, {end:,};" in str(finding.action)
