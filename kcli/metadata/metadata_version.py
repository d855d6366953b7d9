"""metadata.version: the records, and their versions, that a cluster may write to its metadata log.

The finalized level is one that every node of the cluster supports, whatever version of the software it runs. Source:
MetadataVersion.
"""

from __future__ import annotations

from typing import Final

# level: (name, whether a downgrade from it to the level before loses metadata)
LEVELS: Final = {
    7: ("3.3-IV3", True),
    8: ("3.4-IV0", True),
    9: ("3.5-IV0", False),
    10: ("3.5-IV1", False),
    11: ("3.5-IV2", True),
    12: ("3.6-IV0", False),
    13: ("3.6-IV1", True),
    14: ("3.6-IV2", True),
    15: ("3.7-IV0", True),
    16: ("3.7-IV1", False),
    17: ("3.7-IV2", True),
    18: ("3.7-IV3", False),
    19: ("3.7-IV4", False),
    20: ("3.8-IV0", False),
    21: ("3.9-IV0", False),
    22: ("4.0-IV0", False),
    23: ("4.0-IV1", True),
    24: ("4.0-IV2", False),
    25: ("4.0-IV3", False),
    26: ("4.1-IV0", False),
    27: ("4.1-IV1", False),
    28: ("4.2-IV0", False),
    29: ("4.2-IV1", False),
    30: ("4.3-IV0", True),
}
MINIMUM: Final = 7
LATEST: Final = 30
READABLE: Final = 31
"""The highest level whose records Kafka 4.3 reads; it is in development there, and not finalized."""

MIGRATION: Final = 8
SCRAM: Final = 11
NO_EPOCH_BUMP_ON_SHRINK: Final = 12
DELEGATION_TOKENS: Final = 14
CONTROLLER_REGISTRATION: Final = 15
DIRECTORIES: Final = 17
ELR: Final = 23
CORDONED_DIRECTORIES: Final = 30


def partition_record_version(level: int) -> int:
    """The version of PartitionRecord and PartitionChangeRecord at that level of metadata.version."""
    return 2 if level >= ELR else 1 if level >= DIRECTORIES else 0


def register_broker_record_version(level: int) -> int:
    """The version of RegisterBrokerRecord at that level of metadata.version."""
    return 4 if level >= CORDONED_DIRECTORIES else 3 if level >= DIRECTORIES else 2 if level >= MIGRATION else 1


def level_name(level: int) -> str:
    """Return Kafka's name of a level, such as 4.3-IV0; the number itself for an unknown level."""
    return LEVELS[level][0] if level in LEVELS else str(level)


def refused_level(level: int) -> str | None:
    """Return why Kafka does not start with metadata whose finalized level that is; None if it does, and for level 0,
    which is none."""
    if not level or MINIMUM <= level <= READABLE:
        return None
    return f"metadata.version {level:,} is of another release: Kafka 4.3 knows the levels {MINIMUM} to {READABLE}"


def level_of(version: str) -> int | None:
    """Return the level of a release (4.3, 4.3.1) or of a metadata.version by name (4.3-IV0); None for an unknown one.

    A release stands for the highest level that it introduced.
    """
    release = ".".join(version.split(".")[:2])
    found = [level for level, (name, _) in LEVELS.items() if release in (name, name.partition("-")[0])]
    return max(found, default=None)


def loses_metadata(high: int, low: int) -> bool:
    """Whether a downgrade from level `high` to level `low` loses metadata: one of the levels above `low`, up to `high`,
    can write metadata that the level before it cannot."""
    return any(LEVELS[level][1] for level in LEVELS if low < level <= high)
