"""Which connectors and tasks a worker has, and who leads the workers: what the herder asks of the group, and what a
worker has the leader do."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from kcli.connect.plugins import TaskId
from kcli.connect.topics.configs import ConfigState, Properties


class Group(Protocol):
    """This worker's membership in a group of workers. lost_generation: the last one after which its session was over,
    so that others have had what it had; -1 if there is none."""

    generation: int
    lost_generation: int

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads: it alone writes configurations of connectors and tasks."""

    @property
    def leader_url(self) -> str | None:
        """The REST address of the leader; None while a rebalance is underway."""

    @property
    def signs_requests(self) -> bool:
        """Whether requests between the workers are signed."""

    def connectors(self) -> Collection[str]:
        """Return the connectors that this worker has."""

    def tasks(self) -> Collection[TaskId]:
        """Return the tasks that this worker has."""

    def owner_url(self, what: str | TaskId) -> str | None:
        """Return the REST address of the worker that has a connector or a task, as far as this one knows."""

    async def settled(self) -> None:
        """Wait for the end of a rebalance, but not for ever."""

    async def released(self, connector: str) -> bool:
        """As the leader, wait until no worker has tasks of a connector that is stopped, but not for ever; return
        whether none has."""

    def work_changed(self) -> None:
        """There are other connectors or tasks than those that were assigned: join again."""


class Leader(Protocol):
    """The leader of this worker's group, wherever it is."""

    async def put_tasks(self, name: str, tasks: Sequence[Properties]) -> None:
        """Have the leader write the configurations of a connector's tasks. Raises KcliError."""

    async def fence(self, name: str) -> None:
        """Have the leader fence the producers of a connector's earlier tasks. Raises KcliError."""


class Alone:
    """A standalone worker: it leads, and has all connectors and tasks."""

    generation = 0
    lost_generation = -1

    def __init__(self, configs: ConfigState, url: str) -> None:
        self._configs, self._url = configs, url

    @property
    def is_leader(self) -> bool:
        """True."""
        return True

    @property
    def leader_url(self) -> str | None:
        """This worker's address."""
        return self._url

    @property
    def signs_requests(self) -> bool:
        """There are none."""
        return False

    def connectors(self) -> Collection[str]:
        """Return all connectors."""
        return self._configs.connectors.keys()

    def tasks(self) -> Collection[TaskId]:
        """Return all tasks."""
        return [task for name in self._configs.connectors for task in self._configs.task_ids(name)]

    def owner_url(self, what: str | TaskId) -> str | None:  # noqa: ARG002
        """Return this worker's address."""
        return self._url

    async def settled(self) -> None:
        """There are no rebalances."""

    async def released(self, connector: str) -> bool:  # noqa: ARG002
        """There is no other worker."""
        return True

    def work_changed(self) -> None:
        """A standalone worker has everything, whatever there is."""
