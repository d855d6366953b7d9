"""The broker: what handlers are given. It is put together, started and stopped in node.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.broker.coordinators.producer_ids import ProducerIds
from kcli.broker.coordinators.runtime import Coordinator, Work
from kcli.broker.network.peers import Network, NoNetwork
from kcli.broker.replication.manager import ReplicaManager
from kcli.broker.to_controller import ToController
from kcli.broker.turns import Turns
from kcli.coordinator import GROUPS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    import asyncio

    from kcli.broker.clock import Clock
    from kcli.broker.config import BrokerConfig
    from kcli.broker.controller.active import ActiveController
    from kcli.broker.fetch_sessions import FetchSessions
    from kcli.broker.lifecycle import BrokerLifecycle
    from kcli.broker.logs.manager import LogManager
    from kcli.broker.logs.partitions import Partitions
    from kcli.broker.metadata.log import MetadataLog
    from kcli.broker.quotas import Quotas
    from kcli.metadata.image import MetadataImage


@dataclass(slots=True)
class Broker:
    """One node. Everything here belongs to the event loop's thread.

    advertised: listener name -> host and port that clients are told. is_alone: it is all of its cluster. network: to
    other nodes; controller: to the active one, which may be this one. active: where this node is a controller;
    lifecycle: where it is a broker. creating: topics that the controller was asked for because a client named them;
    topic_problem: why the last such topic was not created. turns: who has a lot to do waits for them.
    """

    config: BrokerConfig
    clock: Clock
    node_id: int
    cluster_id: str
    image: MetadataImage
    metadata: MetadataLog
    logs: LogManager
    partitions: Partitions
    sessions: FetchSessions
    quotas: Quotas
    advertised: dict[str, tuple[str, int]]
    is_read_only: bool = False
    is_alone: bool = True
    active: ActiveController | None = None
    lifecycle: BrokerLifecycle | None = None
    network: Network = field(default_factory=NoNetwork)
    creating: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    topic_problem: str = ""
    turns: Turns = field(default_factory=Turns)
    controller: ToController = field(init=False)
    replicas: ReplicaManager = field(init=False)
    producer_ids: ProducerIds = field(init=False)
    groups: Coordinator = field(init=False)
    transactions: Coordinator = field(init=False)

    def __post_init__(self) -> None:
        """What needs nothing but the others."""
        self.controller = ToController(self)
        self.replicas = ReplicaManager(self)
        if self.config.is_broker and not self.is_read_only:
            self.logs.host = self.replicas
        self.producer_ids = ProducerIds(self)
        self.groups = Coordinator(self, GROUPS_TOPIC, self._coordinate_groups)
        self.transactions = Coordinator(self, TRANSACTIONS_TOPIC, self._coordinate_transactions)

    def _coordinate_groups(self) -> Work:
        from kcli.broker.coordinators.groups import coordinate

        return coordinate(self)

    def _coordinate_transactions(self) -> Work:
        from kcli.broker.coordinators.transactions import coordinate

        return coordinate(self)
