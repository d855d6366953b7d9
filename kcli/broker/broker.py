"""The class Broker, which every request handler receives. node.py builds, starts and stops it."""

from __future__ import annotations

from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from formats.kernels.produce import ProduceLanes
from kcli.broker.authorization import Authorization
from kcli.broker.client_view.nodes import View
from kcli.broker.controller.channel import ControllerChannel
from kcli.broker.coordinators.context import CoordinatorContext
from kcli.broker.coordinators.local_markers import LocalMarkers
from kcli.broker.coordinators.producer_ids import ProducerIds
from kcli.broker.coordinators.runtime import Coordinator, Work
from kcli.broker.network.peers import Network, NoNetwork
from kcli.broker.partition.long_batches import AT_ONCE_BYTES
from kcli.broker.process.turns import Turns
from kcli.broker.replication.manager import ReplicaManager
from kcli.coordinator.machine import GROUPS_TOPIC, TRANSACTIONS_TOPIC

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcli.broker.config import BrokerConfig
    from kcli.broker.controller.active import ActiveController
    from kcli.broker.controller.config_admin import ConfigAdmin
    from kcli.broker.controller.token_admin import TokenAdmin
    from kcli.broker.controller.topic_creation import TopicCreation
    from kcli.broker.fetching.sessions import FetchSessions
    from kcli.broker.logs.manager import LogManager
    from kcli.broker.metadata.log import MetadataLog
    from kcli.broker.network.certificates import Certificates
    from kcli.broker.partition.partitions import Partition, Partitions
    from kcli.broker.process.clock import Clock
    from kcli.broker.quotas.client import Quotas
    from kcli.broker.tiering.reader import RemoteReader
    from kcli.metadata.image import MetadataImage
    from kcli.security.authorizer import Authorizer
    from kcli.security.delegation_tokens import DelegationTokens

NO_EPOCH = -1
NO_NETWORK: Network = NoNetwork()


@dataclass
class Broker:
    """One node's parts, for request handlers. All of them are used on the event loop's thread only.

    The arguments of the constructor are the parts that the node has opened; the fields from `access` on are built from
    them. Each part receives the objects that it calls; none receives the Broker.

    advertised: listener -> the host and port in Metadata responses.
    controller: the channel to the active controller, which may be this node.
    lanes: the partitions to which compiled code appends the batches of plain Produce requests, see dispatch/routing.py.
    is_alone: whether this node is the only node of its cluster.
    active: the active controller's state, None if this node is not a controller.
    broker_epoch: a function that returns the epoch of this broker's current registration, -1 for none.
    tokens: the delegation tokens of the metadata image, None without delegation.token.secret.key.
    certificates: the keys and trusted certificates of the node's listeners.
    tier: reads from tiered storage; None without remote.log.storage.system.enable, and until the node has opened it.
    authorizer: allows or denies the operations of a principal, by the ACLs of the metadata image; None: every
        operation is allowed.
    """

    config: BrokerConfig
    clock: Clock
    cluster_id: str
    image: MetadataImage
    metadata: MetadataLog
    logs: LogManager
    partitions: Partitions
    sessions: FetchSessions
    quotas: Quotas
    advertised: Mapping[str, tuple[str, int]]
    controller: ControllerChannel
    network: InitVar[Network] = NO_NETWORK
    broker_epoch: InitVar[Callable[[], int]] = lambda: NO_EPOCH
    active: ActiveController | None = None
    is_alone: bool = True
    is_read_only: bool = False
    authorizer: Authorizer | None = None
    tokens: DelegationTokens | None = None
    certificates: Certificates | None = None

    tier: RemoteReader | None = field(default=None, init=False)
    access: Authorization = field(init=False)
    lanes: ProduceLanes[Partition] = field(init=False)
    turns: Turns = field(init=False)
    replicas: ReplicaManager = field(init=False)
    producer_ids: ProducerIds = field(init=False)
    groups: Coordinator = field(init=False)
    markers: LocalMarkers = field(init=False)
    transactions: Coordinator = field(init=False)

    def __post_init__(self, network: Network, broker_epoch: Callable[[], int]) -> None:
        """Build those fields of the Broker that are not arguments of the constructor, from `access` on."""
        config, controller = self.config, self.controller
        self.access = Authorization(self.authorizer)
        self.lanes = ProduceLanes(AT_ONCE_BYTES)
        self.turns = Turns()
        self.replicas = ReplicaManager(
            config, self.clock, self.image, self.partitions, network, controller, broker_epoch
        )
        self.context = context = CoordinatorContext(
            config, self.clock, self.image, self.partitions, network, self.turns
        )
        self.producer_ids = ProducerIds(context, controller)
        self.groups = Coordinator(context, GROUPS_TOPIC, self._coordinate_groups)
        self.markers = LocalMarkers(context, self.groups)
        self.transactions = Coordinator(context, TRANSACTIONS_TOPIC, self._coordinate_transactions)

    @cached_property
    def topics(self) -> TopicCreation:
        """Creates topics. The first access imports its module, so that the start of a broker does not wait for that
        import."""
        from kcli.broker.controller.topic_creation import TopicCreation

        return TopicCreation(self.config, self.metadata, self.quotas, self.controller)

    @cached_property
    def config_admin(self) -> ConfigAdmin:
        """Changes configurations. The first access imports its module, so that the start of a broker does not wait for
        that import."""
        from kcli.broker.controller.config_admin import ConfigAdmin

        return ConfigAdmin(
            self.config,
            self.metadata,
            self.controller,
            self.access,
            is_alone=self.is_alone,
            certificates=self.certificates,
        )

    @cached_property
    def token_admin(self) -> TokenAdmin:
        """Checks requests about delegation tokens. The first access imports its module, so that the start of a broker
        does not wait for that import."""
        from kcli.broker.controller.token_admin import TokenAdmin

        return TokenAdmin(self.config, self.controller, self.tokens, is_alone=self.is_alone)

    @property
    def node_id(self) -> int:
        """This node's id."""
        return self.config.node_id

    def view(self, listener: str) -> View:
        """Return the brokers and replicas with the addresses of one listener, for responses to that listener's
        clients."""
        return View(self.image, listener, self.node_id, self.advertised)

    def _coordinate_groups(self, _: Coordinator) -> Work:
        from kcli.broker.coordinators.groups import coordinate

        return coordinate(self.config, self.image)

    def _coordinate_transactions(self, transactions: Coordinator) -> Work:
        from kcli.broker.coordinators.transactions import coordinate

        return coordinate(transactions, self.markers, self.producer_ids)
