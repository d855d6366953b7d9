"""Producer ids for idempotent producers, out of the blocks that the controller gives to this broker.

What is left of a block when the broker stops is never used. Where the controller gives no block soon, who waits is told
to come again: COORDINATOR_LOAD_IN_PROGRESS is what all clients try again on. Source: ProducerIdManager; KIP-730.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.messages import ErrorCode
from kcli.broker.network.peers import Unanswered
from kcli.broker.unattended import report

if TYPE_CHECKING:
    from kcli.broker.broker import Broker

log = logging.getLogger("kcli.broker")
NO_EPOCH: Final = -1
PATIENCE_S: Final = 5.0


class ProducerIds:
    """The block at hand. It belongs to the event loop's thread."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._block = range(0)
        self._fetch: asyncio.Task[ErrorCode] | None = None

    async def next(self) -> int:
        """An id that no producer has or had. Raises CoordinatorError: UNKNOWN_SERVER_ERROR when there are none left,
        COORDINATOR_LOAD_IN_PROGRESS when there will be some."""
        while not self._block:
            if self._fetch is None:
                self._fetch = asyncio.get_running_loop().create_task(self._fetch_block())
            done, _ = await asyncio.wait([self._fetch], timeout=PATIENCE_S)
            code = done.pop().result() if done else ErrorCode.request_timed_out
            if code is ErrorCode.unknown_server_error:
                raise CoordinatorError(code)
            if code is not ErrorCode.none:
                raise CoordinatorError(ErrorCode.coordinator_load_in_progress)
        first, self._block = self._block[0], self._block[1:]
        return first

    async def _fetch_block(self) -> ErrorCode:
        broker = self._broker
        own = broker.image.brokers.get(broker.node_id)
        try:
            answer = await broker.controller.call(
                "allocate_producer_ids",
                0,
                timeout_s=broker.config.number("request.timeout.ms") / 1000,
                broker_id=broker.node_id,
                broker_epoch=NO_EPOCH if own is None else own.epoch,
            )
        except Unanswered as error:
            log.warning("no block of producer ids: %s", error)
            return ErrorCode.request_timed_out
        except Exception as error:  # noqa: BLE001  (whoever waits is told to come again)
            report("no block of producer ids", error)
            return ErrorCode.request_timed_out
        finally:
            self._fetch = None
        code: ErrorCode = answer.error_code
        if code is ErrorCode.none:
            self._block = range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)
        else:
            log.warning("no block of producer ids: %s", code.name)
        return code
