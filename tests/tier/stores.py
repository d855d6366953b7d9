"""Copies of golden/tiered to damage, and what is asked of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kcli.inspector.tier import Orphans, TierVerification
from kcli.inspector.verify.findings import Finding
from kcli.log.disk import Disk
from kcli.tier.fetch import Fetched, fetch
from kcli.tier.local import LocalStore
from kcli.tier.tier import Tier, chosen
from tests.conftest import GOLDEN

TIERED = GOLDEN / "tiered"
SHORT = "r-short-0-KlEWaF5xTFCF8vBhf0Z2Xg"


@dataclass(frozen=True)
class Copy:
    """A copy of the log directory and of the store."""

    data: Path
    remote: Path

    @classmethod
    def of_golden(cls, home: Path) -> Copy:
        shutil.copytree(TIERED / "data", home / "data")
        shutil.copytree(TIERED / "remote", home / "remote")
        return cls(home / "data", home / "remote")

    def object(self, start_offset: int, suffix: str, directory: str = SHORT) -> Path:
        """The path of an object of a segment."""
        (found,) = (self.remote / "kafka-tiered-storage" / directory).glob(f"{start_offset:020}-*{suffix}")
        return found

    def tier(self, *, is_alone: bool = False, topic: str | None = None) -> Tier:
        return Tier.read(LocalStore(self.remote), None if is_alone else self.data, topic)

    def verified(self, *, is_alone: bool = False) -> list[Finding]:
        """The findings of verify that are no notes."""
        verification = TierVerification(self.tier(is_alone=is_alone))
        found = [each for each in verification.findings() if each.severity != "info"]
        assert verification.unreadable == []
        return found

    def orphans(self) -> list[Finding]:
        return list(Orphans(self.tier()).findings())

    def fetched(self, target: Path, topic: str = "r-short", *, is_alone: bool = False) -> list[Fetched]:
        tier = self.tier(is_alone=is_alone)
        return fetch(tier, chosen(tier.partitions, topic, None), target, disk=Disk())


def flip(path: Path, position: int) -> None:
    """Flip the bits of a byte of a file."""
    with changed(path) as data:
        data[position] ^= 0xFF


@contextmanager
def changed(path: Path) -> Iterator[bytearray]:
    """The bytes of a file, which are written back."""
    data = bytearray(path.read_bytes())
    yield data
    path.write_bytes(data)
