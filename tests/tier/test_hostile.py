"""Records of `__remote_log_metadata` that no broker writes, as inspectors and caches take them.

tests/interop/test_tier_kafka.py asks Kafka about the same records.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from formats.checkpoint import EpochEntry
from formats.errors import FormatError
from formats.file_name import FileKind
from kcli.log.coordinator_records import read_records
from kcli.tier.cache import Refused, SegmentCache
from kcli.tier.copying import first_tiered, last_tiered
from kcli.tier.lineage import last_readable, plan, segment_from
from kcli.tier.metadata import RemoteLogMetadata
from kcli.tier.segment import TieredPartition
from tests.cli.run import kcli
from tests.conftest import is_soak
from tests.log.batches import keyed
from tests.tier.hostile import NAMES, at, broken, copied, flipped, kinds
from tests.tier.records import PARTITION, deleted, started, updated, uuid
from tests.tier.stores import SHORT, Copy
from tests.tier.worlds import write_metadata

LIVES, SOAK_LIVES = 150, 5_000
SOUND = [
    record
    for number in range(4)
    for record in (started(uuid(number), 10 * number, 10 * number + 9), updated(uuid(number), 1))
]
LINEAGE = (EpochEntry(0, 0), EpochEntry(3, 500), EpochEntry(5, 700))
R_SHORT = TieredPartition("r-short", 0, SHORT.removeprefix("r-short-0-"))


def replayed(records: Sequence[bytes | None], metadata: RemoteLogMetadata) -> list[str]:
    """Why each record is refused, empty for those that are taken."""
    reasons = []
    for each in records:
        try:
            metadata.replay(each)
            reasons.append("")
        except (Refused, FormatError) as error:
            reasons.append(str(error))
    return reasons


def check_reads(cache: SegmentCache) -> None:
    """What is asked of a cache ends, and goes forward."""
    for offset in (-1, 0, 9, 40, 499, 500, 1_000, 1_005, 2**63 - 1):
        found = segment_from(cache, LINEAGE, offset)
        assert found is None or last_readable(found[0], LINEAGE, found[1]) >= found[1] >= offset
    whole = plan(cache, LINEAGE, 0, 1_020)
    behind = 0
    for first, last in sorted([*((each.first, each.last) for each in whole.parts), *whole.gaps]):
        assert first == behind <= last
        behind = last + 1
    assert behind == 1_020
    assert first_tiered(cache, LINEAGE, 0) == 0
    assert last_tiered(cache, LINEAGE, 600) <= 599


@pytest.mark.parametrize("kind", kinds())
def test_a_cache_goes_on(kind: str) -> None:
    metadata = RemoteLogMetadata({PARTITION.topic_id: PARTITION.topic}.get)
    replayed([*SOUND], metadata)
    begun = time.thread_time()
    replayed(kinds()[kind], metadata)
    assert time.thread_time() - begun < 10, "looking up 20,000 leader epochs took their square"
    assert [metadata.caches[PARTITION].segment(uuid(number)) is not None for number in range(4)] == [True] * 4
    check_reads(metadata.caches[PARTITION])
    assert last_tiered(metadata.caches[PARTITION], (EpochEntry(0, 0),), 600) == 39, "nothing else is in the tier"


@pytest.mark.hypothesis
def test_any_records_are_taken_or_refused() -> None:
    for seed in range(SOAK_LIVES if is_soak() else LIVES):
        metadata = RemoteLogMetadata({PARTITION.topic_id: PARTITION.topic}.get)
        replayed([*SOUND, *flipped(seed)], metadata)
        assert all(segment.leader_epochs for each in metadata.caches.values() for segment in each.segments()), seed
        check_reads(metadata.caches[PARTITION])


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        ([*at(9, 19, [(0, 20)])][:1], "has offsets 9..19, and leader epoch 0 from 20 on"),
        (at(9, 19, [(2, 15), (3, 12)])[:1], "leader epoch 3 begins before epoch 2"),
        ([deleted(2)], "orders-0 is in DELETE_PARTITION_FINISHED, and the cluster has its topic"),
        (copied(PARTITION._replace(topic="other"))[:1], "which is that of the topic orders"),
        (copied(PARTITION._replace(topic=NAMES["traversal"]))[:1], "'../../etc/passwd' is no name of a topic"),
        (copied(PARTITION._replace(topic=NAMES["lines"]))[:1], r"'a\\nb\\x1b\[31m' is no name"),
        (copied(PARTITION._replace(partition=-1))[:1], "no topic has partition -1"),
        ([bytes(2 << 20)], "a record of 2,097,152 bytes"),
    ],
)
def test_why_a_record_is_refused(records: list[bytes], reason: str) -> None:
    metadata = RemoteLogMetadata({PARTITION.topic_id: PARTITION.topic}.get)
    with pytest.raises(Refused, match=reason):
        metadata.replay(records[0])


def findings(copy: Copy, command: str) -> list[dict[str, object]]:
    """What a command of kcli tier finds."""
    ended = kcli("tier", command, copy.data, "--tier", copy.remote, "--format", "jsonl", "--severity", "info")
    assert ended.stderr == ""
    assert ended.status in (0, 1)
    return [each for line in ended.stdout.splitlines() if "kind" in (each := json.loads(line))]


def append(copy: Copy, records: list[bytes | None]) -> dict[int, bytes | None]:
    """Append records to the metadata log. Returns them by offset."""
    directory = copy.data / "__remote_log_metadata-0"
    (log,) = directory.glob("*.log")
    end = 1 + max(each.offset for _, each in read_records(directory, lambda error: pytest.fail(f"{error}")))
    with log.open("ab") as file:
        for i, each in enumerate(records):
            file.write(keyed(None, each, base_offset=end + i))
    return dict(enumerate(records, end))


def test_the_deletion_of_a_topic_that_exists(tmp_path: Path) -> None:
    """Nothing of it is an orphan, and nothing is lost; Kafka's brokers would forget its segments."""
    copy = Copy.of_golden(tmp_path)
    before = findings(copy, "verify")
    offsets = append(copy, [deleted(state, partition=R_SHORT) for state in range(3)])
    more = [each for each in findings(copy, "verify") if each not in before]
    assert [(each["kind"], each["offset"]) for each in more] == [("tier-metadata-implausible", at) for at in offsets]
    assert findings(copy, "orphans") == []
    assert [each.missing for each in copy.fetched(tmp_path / "fetched")] == [[], []]


def test_each_record_has_one_finding(tmp_path: Path) -> None:
    copy = Copy.of_golden(tmp_path)
    metadata = RemoteLogMetadata({R_SHORT.topic_id: "r-short"}.get)
    legible = [each for kind, records in kinds(R_SHORT).items() for each in records if kind not in broken()]
    appended = append(copy, legible)
    expected = [at for at, reason in zip(appended, replayed([*appended.values()], metadata), strict=True) if reason]
    found = [each["offset"] for each in findings(copy, "verify") if str(each["kind"]).startswith("tier-metadata-")]
    assert sorted(found) == expected  # type: ignore[type-var]
    assert len(expected) > 90
    orphans = findings(copy, "orphans")
    assert not [each for each in orphans if each["kind"] == "tier-orphan"]


@pytest.mark.parametrize("command", [["list"], ["list", "--format", "jsonl"], ["verify"], ["orphans"], ["fetch"]])
def test_commands_go_on(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "tier").mkdir()
    write_metadata(tmp_path / "data", [each or b"" for kind in kinds().values() for each in kind])
    more: list[str | Path] = ["--topic", "orders", "--out", tmp_path / "out"] if command == ["fetch"] else []
    ended = kcli("tier", *command, tmp_path / "data", "--tier", tmp_path / "tier", *more)
    assert "Traceback" not in ended.stderr
    assert ended.status in (0, 1, 2)
    assert {each.name for each in tmp_path.iterdir()} <= {"tier", "data", "out"}
    assert "\x1b" not in ended.stdout + ended.stderr
    assert not list((tmp_path / "tier").rglob(f"*{FileKind.LOG}"))
