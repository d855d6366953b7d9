"""A controller tells the active one where it is reached and what it can do, until the metadata log has it.

Source: ControllerRegistrationManager; KIP-919.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from kcli.broker.controller.asking import Asking
from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.registration import Controller, Endpoint
from kcli.metadata.result import ErrorCode, Refused

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

log = logging.getLogger("kcli.broker")

ASK_S: Final = 5.0
AGAIN_S: Final = 0.5
PROTOCOL_IDS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


async def register_controller(broker: Broker) -> None:
    """Register this controller. It tries until it is heard: run it as a task where nothing must wait for it."""
    config = broker.config
    endpoints = {
        each.listener: Endpoint(
            each.listener, each.host or "localhost", each.port, PROTOCOL_IDS[each.security_protocol]
        )
        for each in config.listeners
        if each.listener in config.controller_listener_names
    }
    controller = Controller(id=config.node_id, incarnation_id=uuid4(), endpoints=endpoints, features=SUPPORTED_FEATURES)
    asking, problem = Asking(broker), ""
    while True:
        try:
            return await asking.register_controller(controller, ASK_S)
        except Exception as error:  # noqa: BLE001  (whatever it is, it is tried again)
            if isinstance(error, Refused) and error.error.code is ErrorCode.UNSUPPORTED_VERSION:
                return None  # no metadata.version yet that has such records
            if str(error) != problem:
                log.warning("controller %d is not registered yet: %s", config.node_id, error)
            problem = str(error)
        await asyncio.sleep(AGAIN_S)
