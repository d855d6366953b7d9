"""Partitions with several leaders: what is fetched is the log of the last one, each offset once, of the right epoch."""

from __future__ import annotations

import shutil
from pathlib import Path

from kcli.inspector.tier import Orphans, TierVerification
from kcli.inspector.verify import Verification
from kcli.log.disk import Disk
from kcli.log.stored_batches import read_batches
from kcli.tier.fetch import fetch
from kcli.tier.local import LocalStore
from kcli.tier.tier import Tier
from tests.conftest import is_soak
from tests.tier.records import PARTITION
from tests.tier.worlds import World, make, values

LIVES, SOAK_LIVES = 60, 5_000


def read(directory: Path) -> list[tuple[int, int]]:
    """Offset and leader epoch of each record in a partition's directory, which its value has, too."""
    found = []
    for path in sorted(directory.glob("*.log")):
        for row, records in read_batches(path):
            for record in records:
                assert record.value == f"{row.leader_epoch}:{record.offset}".encode()
                found.append((record.offset, row.leader_epoch))
    return found


def fetched(home: Path, *, is_alone: bool) -> tuple[list[tuple[int, int]], int]:
    """What is fetched from the tier, and of how many segments a part."""
    tier = Tier.read(LocalStore(home / "tier"), None if is_alone else home / "data")
    target = home / ("alone" if is_alone else "new")
    (result,) = fetch(tier, tier.partitions, target, disk=Disk())
    assert (result.missing, result.troubles) == ([], [])
    assert [each for each in Verification([target]).findings() if each.severity != "info"] == []
    return read(target / str(PARTITION)), result.cut


def test_lives_of_partitions(tmp_path: Path) -> None:
    cuts = superseded = 0
    for seed in range(SOAK_LIVES if is_soak() else LIVES):
        home = tmp_path / str(seed)
        world: World = make(home, seed)
        tier = Tier.read(LocalStore(home / "tier"), home / "data")
        found = [each for each in TierVerification(tier).findings() if each.severity != "info"]
        assert found == [], seed
        assert [each for each in Orphans(tier).findings() if each.severity != "info"] == [], seed
        records, cut = fetched(home, is_alone=False)
        assert records == values(world.log), seed
        alone, _ = fetched(home, is_alone=True) if world.copies else ([], 0)
        assert alone == values(world.tiered), seed
        cuts += cut
        superseded += world.copies > len(tier.partitions[0].plan().parts)
        shutil.rmtree(home)
    assert cuts > 10, "leaders lost what they had copied, or local logs begin inside of segments"
    assert superseded > 10, "segments that nothing reads"
