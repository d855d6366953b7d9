"""The objects by which a broker reads from its tier: the index cache, the threads, and the two readers.

    reader   for Fetch and ListOffsets of clients                  Broker.tier
    states   for followers whose log begins behind a segment       ReplicaManager.tier
             in the tier

All limits are read from the configuration when they are needed, as most of them are dynamic.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from kcli.broker.tiering.following import StatesInTier
from kcli.broker.tiering.index_cache import IndexCache
from kcli.broker.tiering.pool import ThreadPool
from kcli.broker.tiering.reader import RemoteReader

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.tiering.reader import FetchQuota, Segments
    from kcli.log.disk import Disk
    from kcli.tier.store import Store

STATES_PENDING_MAX = 100_000
"""The greatest number of waiting reads of a log's state: more than the partitions of a broker, each of which may need
one after a start."""


class TierReading:
    """All reading from one store. segments: the segments in the tier, by the records of `__remote_log_metadata`
    (MetadataTopic)."""

    def __init__(
        self, config: BrokerConfig, store: Store, segments: Segments, quota: FetchQuota, disk: Disk | None = None
    ) -> None:
        self.indexes = IndexCache(
            Path(config.log_dirs[0]),
            store,
            lambda: config.number("remote.log.index.file.cache.total.size.bytes"),
            disk,
            ttl_ms=lambda: config.number("remote.log.index.file.cache.ttl.ms"),
        )
        self._pool = ThreadPool(
            "remote-log-reader",
            lambda: config.number("remote.log.reader.threads"),
            lambda: config.number("remote.log.reader.max.pending.tasks"),
        )
        self._state_pool = ThreadPool(
            "remote-log-state", lambda: config.number("num.replica.fetchers"), lambda: STATES_PENDING_MAX
        )
        self.reader = RemoteReader(store, segments, self.indexes, self._pool, quota)
        self.states = StatesInTier(store, segments, self._state_pool)

    async def start(self) -> None:
        """Load the index cache from its files. Call this before `reader` is used. Raises OSError."""
        await asyncio.to_thread(self.indexes.load)

    def stop(self) -> None:
        """Stop the threads. Queued reads are cancelled; a read that hangs keeps its thread until the process ends."""
        self._pool.close()
        self.reader.stop()
        self._state_pool.close()
