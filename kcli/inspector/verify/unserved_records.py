"""Findings of groups and transactional ids that Kafka does not find, as their records lie in another partition of the
coordinator's topic than the one in which it looks (see kcli.metadata_log.unserved_state)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.coordinator.machine import GROUPS_TOPIC as TOPIC
from kcli.inspector.home_partition import NAMES_SHOWN
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.printable import names_text
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.inspector.verify.surroundings import Surroundings
    from kcli.metadata_log.unserved_state import UnservedState

OUTCOMES = {
    "group": "Kafka starts, and knows no committed offset of them: their consumers begin where auto.offset.reset says",
    "transactional id": "Kafka starts, and does not know them: initTransactions gives them new producer ids, and does "
    "not fence their older producers",
    "share group": "Kafka starts, and does not know what they have acknowledged: it delivers from "
    "share.auto.offset.reset on",
}
"""By kind of id, what becomes of the ids after Kafka's start."""


def unserved_records(around: Surroundings, explained: Collection[str]) -> Iterator[Finding]:
    """Yield a finding for each coordinator's topic of which partitions in this log directory have records of ids that
    Kafka does not find.

    explained: the topics with another finding that explains such records, unless the topic has grown.
    """
    for each, here in unserved_here(around, explained):
        is_group = each.what == "group"
        action = OUTCOMES[each.what]
        command = next_steps.describe_groups(around.path, here[:NAMES_SHOWN]) if is_group else None
        copied = copied_groups(around)
        if is_group and copied:
            action += f"; {copied_text(each, copied)}, in a copy"
            command = next_steps.salvage_log_directory(around.path)
        elif is_group:
            action += (
                "; the command shows the offsets, and once Kafka runs, kcli groups reset GROUP --topic "
                "TOPIC:PARTITION --to-offset N --execute commits each anew, before the group's consumers start"
            )
        yield Finding(
            path=str(min(each.places[name].directory for name in here)),
            kind="records-unserved",
            severity="warning" if each.what == "transactional id" else "error",
            expected=f"each {each.what} in the partition that the hash of its id gives of {each.count:,}",
            found=unserved_text(each, here),
            action=action,
            command=command,
        )


def unserved_here(around: Surroundings, explained: Collection[str]) -> Iterator[tuple[UnservedState, list[str]]]:
    """Yield, for each coordinator's topic of which partitions in this log directory have records of ids that Kafka does
    not find, what is known of it, and these ids. explained: see `unserved_records`."""
    for topic, each in around.unserved.items():
        here = [name for name, place in each.places.items() if place.directory.parent == around.path]
        if here and (each.before or topic not in explained):
            yield each, here


def copied_groups(around: Surroundings) -> list[str]:
    """Return the groups whose committed offsets `recover --salvage` of this log directory copies to another partition
    of __consumer_offsets. After the topic has got more partitions, Kafka looks for a group in another one than before;
    salvage copies the offsets if that partition is in this log directory, has no record of the group, and has no other
    replica."""
    state = around.unserved.get(TOPIC)
    if state is None or not state.before:
        return []
    homes = {each.home for each in state.places.values() if each.is_new}
    alone = {each for each in homes if not around.is_replicated(TopicPartition(TOPIC, each))}
    alone = {each for each in alone if (around.path / f"{TOPIC}-{each}").is_dir()}
    return [name for name, place in state.places.items() if place.is_new and place.home in alone]


def copied_text(state: UnservedState, copied: Collection[str]) -> str:
    """Return, in words, the effect of salvage on the groups `copied`."""
    whose = "their committed offsets" if len(copied) == len(state.places) else f"those of {len(copied):,} of them"
    return f"salvage appends {whose} to the partition in which Kafka looks"


def unserved_text(state: UnservedState, names: list[str]) -> str:
    """Return, in words, the fault of the records of these ids of a topic."""
    places = (state.places[name] for name in names)
    shown = [
        f"{name} (in {_number(place.directory)}, looked for in {place.home})"
        for name, place in zip(names, places, strict=True)
    ]
    ids = f"{len(names):,} {state.what}{'s' if len(names) > 1 else ''}"
    text = f"the records of {ids} are in other partitions of {state.topic} than the one in which Kafka looks: "
    text += names_text(shown, NAMES_SHOWN)
    away = sum(not state.places[name].is_here for name in names)
    if away:
        text += f"; of {away:,} that partition is not here, and may have newer records"
    return f"{text}; {_cause(state)}"


def _cause(state: UnservedState) -> str:
    if state.before:
        return f"the topic grew from {state.before:,} to {state.count:,} partitions, and Kafka moves no record"
    return f"the topic has {state.count:,} partitions"


def _number(directory: Path) -> str:
    return directory.name.rpartition("-")[2]
