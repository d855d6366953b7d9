"""Stages: how many micro-batches after its records were there a topic is read.

A record needs a micro-batch for each sub-topology that it goes through. Where a sub-topology joins a repartition topic
with another topic, the other one is read as many micro-batches later as the repartitioning takes. Then a micro-batch
has the records of both sides that were there at one time, and processes them by their timestamps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kcli.streams.local.plan import SubTopology


class Feed(NamedTuple):
    """How a topic is read: by which sub-topology, and how many micro-batches late."""

    sub_topology: int
    delay: int


def feeds(parts: Sequence[SubTopology]) -> dict[str, Feed]:
    """Return the feed of each topic, without those of global stores."""
    own = [part for part in parts if not part.is_global]
    stages = {part.number: _stage(part, own, ()) for part in own}
    found: dict[str, Feed] = {}
    for part in own:
        for topic in part.topics:
            arrival = max((stages[each.number] + 1 for each in own if topic in each.sinks), default=0)
            found[topic] = Feed(part.number, max(0, stages[part.number] - arrival))
    return found


def _stage(part: SubTopology, parts: Sequence[SubTopology], behind: tuple[int, ...]) -> int:
    """Return through how many sub-topologies records come to this one. behind: those that have been counted, as the two
    sides of a foreign-key join send to each other."""
    behind = (*behind, part.number)
    senders = [each for each in parts if each.sinks & set(part.topics) and each.number not in behind]
    return max((_stage(each, parts, behind) + 1 for each in senders), default=0)
