"""The parts of the broker that coordinators use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.network.peers import Network
    from kcli.broker.partition.partitions import Partitions
    from kcli.broker.process.clock import Clock
    from kcli.broker.process.turns import Turns
    from kcli.metadata.image import MetadataImage


@dataclass(frozen=True, slots=True)
class CoordinatorContext:
    """The parts of the broker that its coordinators and its tiered storage use. network: channels to other brokers.
    turns: splits long work into parts, each of which runs in an iteration of the event loop of its own."""

    config: BrokerConfig
    clock: Clock
    image: MetadataImage
    partitions: Partitions
    network: Network
    turns: Turns

    @property
    def node_id(self) -> int:
        """This broker's id."""
        return self.config.node_id
