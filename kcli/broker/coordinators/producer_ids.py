"""Producer ids for idempotent producers, out of the blocks that the controller gives to this broker.

What is left of a block when the broker stops is never used. Source: ProducerIdManager; KIP-730.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kcli.metadata.producer_ids import next_block

if TYPE_CHECKING:
    from kcli.broker.metadata.log import MetadataLog

NO_EPOCH = -1


class ProducerIds:
    """The block at hand. It belongs to the event loop's thread."""

    def __init__(self, metadata: MetadataLog, node_id: int) -> None:
        self._metadata = metadata
        self._node_id = node_id
        self._block = range(0)
        self._fetch: asyncio.Task[None] | None = None

    async def next(self) -> int:
        """An id that no producer has or had. Raises Refused when there are none left, and what appending raises."""
        while not self._block:
            if self._fetch is None:
                self._fetch = asyncio.get_running_loop().create_task(self._fetch_block())
            await asyncio.shield(self._fetch)
        first, self._block = self._block[0], self._block[1:]
        return first

    async def _fetch_block(self) -> None:
        try:
            broker = self._metadata.draft.brokers.get(self._node_id)
            epoch = NO_EPOCH if broker is None else broker.epoch
            records, block = next_block(self._metadata.draft, self._node_id, epoch)
            await self._metadata.append(records)
            self._block = block
        finally:
            self._fetch = None
