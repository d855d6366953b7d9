"""A controller tells the active one where it is reached and what it can do, until the metadata log has it.

Source: ControllerRegistrationManager; KIP-919.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from kcli.broker.controller.asking import Asking
from kcli.broker.network.peers import Unanswered
from kcli.errors import KcliError
from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.registration import Controller, Endpoint
from kcli.metadata.result import ErrorCode, Refused

if TYPE_CHECKING:
    from kcli.broker.addresses import Addresses
    from kcli.broker.broker import Broker

log = logging.getLogger("kcli.broker")

ASK_S: Final = 5.0
AGAIN_S: Final = 0.5
PROTOCOL_IDS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


async def register_controller(broker: Broker, reached: Addresses) -> None:
    """Register this controller. It tries until it is heard: run it as a task where nothing must wait for it.

    reached: controller listener -> where other nodes reach it; none where it is not opened.
    """
    config = broker.config
    endpoints = {
        name: Endpoint(name, host, port, PROTOCOL_IDS[config.protocols[name]]) for name, (host, port) in reached.items()
    }
    controller = Controller(id=config.node_id, incarnation_id=uuid4(), endpoints=endpoints, features=SUPPORTED_FEATURES)
    asking, problem = Asking(broker), ""
    while True:
        try:
            return await asking.register_controller(controller, ASK_S)
        except (Unanswered, Refused, KcliError) as error:
            if isinstance(error, Refused) and error.error.code is ErrorCode.UNSUPPORTED_VERSION:
                return None  # no metadata.version yet that has such records
            if str(error) != problem:
                log.warning("controller %d is not registered yet: %s", config.node_id, error)
            problem = str(error)
        await asyncio.sleep(AGAIN_S)
