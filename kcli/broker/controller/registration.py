"""The registration of a controller with the active controller: its endpoints, and the features that it supports.

Source: ControllerRegistrationManager; KIP-919.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from kcli.metadata.features import SUPPORTED_FEATURES
from kcli.metadata.registration import Controller, Endpoint
from kcli.metadata.result import Refused
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.controller.requests import ControllerRequests
    from kcli.broker.network.addresses import Addresses

log = logging.getLogger("kcli.broker")

REQUEST_TIMEOUT_S: Final = 5.0
AGAIN_S: Final = 0.5
PROTOCOL_IDS: Final = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}


async def register_controller(config: BrokerConfig, requests: ControllerRequests, reached: Addresses) -> None:
    """Register this controller, with retries until the active controller has recorded the registration. Return without
    it if the cluster's metadata.version is too old for registrations of controllers.

    reached: controller listener -> the host and port for other nodes; empty if no such listener is open.
    """
    endpoints = {
        name: Endpoint(name, host, port, PROTOCOL_IDS[config.protocols[name]]) for name, (host, port) in reached.items()
    }
    controller = Controller(id=config.node_id, incarnation_id=uuid4(), endpoints=endpoints, features=SUPPORTED_FEATURES)
    problem = ""
    while True:
        try:
            return await requests.register_controller(controller, REQUEST_TIMEOUT_S)
        except Exception as error:  # noqa: BLE001  (after any error the request is sent again)
            if isinstance(error, Refused) and error.error.code == ErrorCode.UNSUPPORTED_VERSION:
                return None  # this metadata.version has no records for registrations of controllers
            if str(error) != problem:
                log.warning("controller %d is not registered yet: %s", config.node_id, error)
            problem = str(error)
        await asyncio.sleep(AGAIN_S)
