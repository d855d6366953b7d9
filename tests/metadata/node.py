"""A node without files and sockets: handlers on an image whose records are committed as soon as they are appended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kcli.broker.broker import Broker
from kcli.broker.config import BrokerConfig
from kcli.broker.controller.channel import ControllerChannel
from kcli.broker.dispatch.handlers import answer as answer_of
from kcli.broker.metadata.activation import activation
from kcli.broker.metadata.quorum_view import QuorumView, of_only_voter
from kcli.broker.network.peers import NoNetwork
from kcli.broker.process.clock import Clock
from kcli.broker.quotas.client import Quotas
from kcli.broker.wire.call import Call
from kcli.broker.wire.messages import RequestHeader, messages
from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.image import MetadataImage, Record
from kcli.metadata.registration import Broker as Registration
from kcli.metadata.registration import Controller, Endpoint
from kcli.metadata.registration_control import NO_EPOCH, register_broker, register_controller, unfence_broker
from kcli.security.authorizer import Authorizer
from kcli.testing.wire import message
from tests.broker.metadata_dirs import KAFKAS_LEVELS
from tests.metadata.wire import whole

NODE_ID = 1
HOST, PORT = "127.0.0.1", 9092
DIRECTORY = UUID(int=0x5EED)
PLAINTEXT = Endpoint("PLAINTEXT", HOST, PORT, 0)
CONTROLLER = Endpoint("CONTROLLER", HOST, PORT + 1, 0)


class Metadata:
    """Replaces the metadata log. `written`: all records so far."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = self.draft = image
        self.written: list[Record] = []
        self.epoch = 1
        self.kraft_version = 0
        self.is_leader = True
        self.leader_id: int | None = NODE_ID
        self.leader_address: tuple[str, int] | None = None
        self.on_leadership: list[Callable[[], None]] = []
        self.authorizer: Authorizer | None = None

    @property
    def next_offset(self) -> int:
        return len(self.written)

    high_watermark = next_offset

    def kraft_upgrade(self, *, validate_only: bool) -> Callable[[int], None]:
        """Of a quorum of one."""

        def upgrade(level: int) -> None:
            if not validate_only:
                self.kraft_version = level

        return upgrade

    @property
    def view(self) -> QuorumView:
        return of_only_voter(NODE_ID, None, self.epoch, self.next_offset, self.high_watermark)

    def append(self, records: Sequence[Record]) -> asyncio.Future[int]:
        self.apply(records)
        done = asyncio.get_running_loop().create_future()
        done.set_result(self.next_offset - 1)
        return done

    def apply(self, records: Sequence[Record]) -> None:
        for name, version, value in records:
            self.image.apply(name, whole(name, version, value), self.next_offset)
            self.written.append((name, version, value))
        if self.authorizer is not None:
            self.authorizer.follow(self.image.acls, self.image.take_changes().acls)


def registration(epoch: int, node_id: int = NODE_ID, **fields: Any) -> Registration:
    """Return the registration of a 4.3 broker that has just started."""
    known: dict[str, Any] = {"directories": (DIRECTORY,), "endpoints": {"PLAINTEXT": PLAINTEXT}}
    incarnation = UUID(int=Random(epoch).getrandbits(127))
    identity = {"id": node_id, "epoch": epoch, "incarnation_id": incarnation, "features": SUPPORTED_FEATURES}
    return Registration(**{**known, **identity, **fields})


def started(min_insync_replicas: int = 1) -> Metadata:
    """Return the metadata of a fresh single node that runs."""
    metadata = Metadata(MetadataImage())
    levels: list[Record] = [
        ("FeatureLevelRecord", 0, {"name": name, "featureLevel": level}) for name, level in KAFKAS_LEVELS.items()
    ]
    metadata.apply(activation(metadata.image, levels, min_insync_replicas))
    controller = Controller(
        id=NODE_ID, incarnation_id=UUID(int=7), endpoints={"CONTROLLER": CONTROLLER}, features=SUPPORTED_FEATURES
    )
    metadata.apply(register_controller(metadata.image, controller))
    metadata.apply(register_broker(metadata.image, registration(metadata.next_offset), NO_EPOCH, {}))
    metadata.apply(unfence_broker(metadata.image, NODE_ID, {}))
    return metadata


def node(properties: dict[str, str], metadata: Metadata, authorizer: Authorizer | None = None) -> Broker:
    """A broker of these properties."""
    metadata.authorizer = authorizer
    logs = SimpleNamespace()
    parts: dict[str, Any] = {"metadata": metadata, "image": metadata.image, "logs": logs, "partitions": None}
    clock = Clock()
    made = Broker(
        controller=ControllerChannel(NODE_ID, clock, metadata, NoNetwork(), lambda call: answer_of(made, call)),
        config=BrokerConfig(properties),
        clock=clock,
        cluster_id="cluster",
        sessions=None,  # type: ignore[arg-type]
        quotas=Quotas(),
        advertised={"PLAINTEXT": (HOST, PORT)},
        authorizer=authorizer,
        **parts,
    )
    return made


def call(api_key: int, version: int, body: dict[str, Any], client_id: str = "cases") -> Call:
    """A request as its handler gets it."""
    kind = messages(api_key, version)
    header = RequestHeader(api_key, version, 1, client_id, 0)
    return Call(kind, header, message(kind.request_type, body), now_ms=0, listener="PLAINTEXT")


async def answer(broker: Broker, asked: Call) -> Any:
    """What the handler of its API answers."""
    found = answer_of(broker, asked)
    return await found if asyncio.iscoroutine(found) else found
