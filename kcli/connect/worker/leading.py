"""What the leader of a group does for the tasks of all workers: it writes their configurations, and fences the
producers of a source's earlier tasks before those of a new generation start.

    commit-NAME            the connector is pending: a task of the generation before may still write, and a partition
                           may have moved from it to another task
    fence                  InitProducerId for the transactional ids of all tasks of the last generation that was fenced
    tasks-fencing-NAME     the connector is pending no longer; it has so many tasks
    tasks start            each takes its own id, and is given up if the configurations have changed meanwhile

Nothing is fenced, but the record is written, for a connector without a record, as no task of it had a producer, and
where the tasks are one before and one after, as they have the same id. Source: DistributedHerder; KIP-618.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kcli.connect.engine.clients import become_producer
from kcli.connect.plugins import TaskId
from kcli.connect.topics.configs import Properties, commit_record, fencing_record, task_records
from kcli.connect.worker.errors import Conflict

if TYPE_CHECKING:
    from kcli.connect.worker.group import Group
    from kcli.connect.worker.work import Parts


class Leading:
    """What a worker does as the leader (kcli.connect.worker.group.Leader)."""

    def __init__(self, parts: Parts, group: Group) -> None:
        self._stores, _, self._clients, self._resolve, self._executor = parts
        self._group = group
        self._writing = asyncio.Lock()
        self._fencing: dict[str, asyncio.Lock] = {}

    async def put_tasks(self, name: str, tasks: Sequence[Properties]) -> None:
        """Write the configurations of a connector's tasks, and commit them. Raises KcliError."""
        async with self._writing:
            if tasks:
                await self._stores.write_configs(task_records(name, tasks))
            await self._stores.write_configs([commit_record(name, len(tasks))])

    async def fence(self, name: str) -> None:
        """Fence the producers of a connector's earlier tasks, unless that was done. Raises KcliError."""
        async with self._fencing.setdefault(name, asyncio.Lock()):
            await self._stores.refresh()
            configs = self._stores.configs
            if name not in configs.pending_fencing:
                return
            generation, count = configs.generations[name], configs.task_counts.get(name, 0)
            fenced = configs.fenced_counts.get(name, 0)
            if fenced and (fenced, count) != (1, 1):
                await asyncio.get_running_loop().run_in_executor(self._executor, self._fence, name, fenced)
                await self._stores.refresh()
            async with self._writing:  # no commit comes between the look and the record
                if configs.generations[name] != generation:
                    raise Conflict("Fencing failed because new task configurations were generated for the connector")
                if not self._group.is_leader:
                    raise Conflict("Fencing failed because another worker leads now")
                await self._stores.write_configs([fencing_record(name, count)])

    def _fence(self, name: str, count: int) -> None:
        connector = self._resolve(self._stores.configs.connectors.get(name, {}))
        for number in range(count):
            become_producer(self._clients.producer_in_transactions(TaskId(name, number), connector))
