"""How far the tasks of an application are: the committed offset of each partition that they read, and its end."""

from __future__ import annotations

from typing import NamedTuple

from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.local.internal import partition_counts
from kcli.streams.local.plan import TaskId, plan
from kcli.streams.topology.topology import Topology


class TaskLag(NamedTuple):
    """An input of a task. committed: None if the group has no offset. end: None if the topic is not made yet. member:
    the id of the group's member that has the task, with its host; None if none has it."""

    task: TaskId
    place: TopicPartition
    committed: int | None
    end: int | None
    member: str | None

    @property
    def lag(self) -> int | None:
        """How many offsets are not processed yet."""
        return None if self.end is None else self.end - (self.committed or 0)


def lags(connection: Connection, topology: Topology, application_id: str) -> list[TaskLag]:
    """Return the inputs of all tasks, by task. Raises TopologyError for topics that are missing, KcliError."""
    made = plan(topology, application_id, partition_counts(connection))
    groups = Groups(connection)
    group = groups.group(application_id)
    committed = groups.committed(application_id)
    owners = {place: f"{each.id} {each.host}" for each in group.members for place in each.assignment}
    leaders = made.leaders()
    places = {
        (TaskId(part.number, number), TopicPartition(topic, number)): owners.get(TopicPartition(leader, number))
        for leader, part in leaders.items()
        for number in range(made.partitions[leader])
        for topic in made.inputs(part, number)
    }
    ends = groups.ends(place for _, place in places)
    return [
        TaskLag(task, place, committed[place].offset if place in committed else None, ends.get(place), member)
        for (task, place), member in sorted(places.items())
    ]
