"""What an application has read and made is reset, so that it begins anew: as kafka-streams-application-reset.

Offsets of its input topics are set, the offsets of internal topics go, and then the internal topics themselves: a reset
that was interrupted is done by the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kcli.client.admin import Admin
from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.client.resets import Report, Reset, new_offsets
from kcli.errors import KcliError
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.errors import StreamsError

SUFFIXES = ("-changelog", "-repartition", "-topic")
"""How the names of internal topics end; those of foreign-key joins with -topic."""


@dataclass(frozen=True)
class ResetPlan:
    """What a reset does. offsets: the new offset of each partition of the input topics. gone: the partitions of
    internal topics whose offsets go. topics: the internal topics that are deleted."""

    application_id: str
    offsets: dict[TopicPartition, int]
    gone: list[TopicPartition]
    topics: list[str]


def planned(
    connection: Connection, application_id: str, reset: Reset, input_topics: list[str], report: Report
) -> ResetPlan:
    """Return what a reset would do. report: as for kcli.client.resets. Raises StreamsError while the application runs,
    UsageError, KcliError."""
    groups = Groups(connection)
    state = groups.group(application_id).state
    if state not in ("Empty", "Dead"):
        raise StreamsError(f"{application_id} is reset while none of its instances runs: its group is {state}")
    offsets = new_offsets(groups, application_id, reset, input_topics, report)[0] if input_topics else {}
    internal = [name for name in Admin(connection).names() if is_internal(name, application_id)]
    committed = groups.committed(application_id)
    gone = sorted(place for place in committed if place.topic in internal)
    return ResetPlan(application_id, offsets, gone, internal)


def execute(connection: Connection, plan: ResetPlan) -> Iterator[KcliError]:
    """Do what is planned; yield the errors."""
    groups = Groups(connection)
    results: list[object] = list(groups.commit(plan.application_id, plan.offsets)) if plan.offsets else []
    if plan.gone:
        results += groups.delete_offsets(plan.application_id, plan.gone)
    if plan.topics:
        results += Admin(connection).delete(plan.topics, if_exists=True)
    return (each for each in results if isinstance(each, KcliError))


def is_internal(topic: str, application_id: str) -> bool:
    """Whether an application has made the topic, by its name."""
    name = topic.removeprefix(f"{application_id}-")
    is_of_join = "-subscription-" in name or "KTABLE-FK-JOIN-SUBSCRIPTION-" in name
    return name != topic and name.endswith(SUFFIXES) and (not name.endswith("-topic") or is_of_join)
