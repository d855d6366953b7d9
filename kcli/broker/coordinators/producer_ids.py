"""Producer ids, out of the blocks that the controller allocates to this broker.

The unused ids of a block are lost when the broker stops. If the controller allocates no block within PATIENCE_S, the
error is COORDINATOR_LOAD_IN_PROGRESS, after which all clients retry. Source: ProducerIdManager; KIP-730.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from kcli.broker.coordinators.runtime import CoordinatorError
from kcli.broker.network.peers import Unanswered
from kcli.broker.process.unattended import report
from kcli.protocol.error_code import ErrorCode

if TYPE_CHECKING:
    from kcli.broker.coordinators.context import CoordinatorContext
    from kcli.broker.network.peers import Peer
    from kcli.broker.wire.types.allocate_producer_ids import AllocateProducerIdsResponse

log = logging.getLogger("kcli.broker")
NO_EPOCH: Final = -1
PATIENCE_S: Final = 5.0


class ProducerIds:
    """The current block of producer ids. controller: the channel to the active controller."""

    def __init__(self, context: CoordinatorContext, controller: Peer) -> None:
        self._context, self._controller = context, controller
        self._block = range(0)
        self._fetch: asyncio.Task[ErrorCode] | None = None

    async def next(self) -> int:
        """Return an unused producer id. Raises CoordinatorError: UNKNOWN_SERVER_ERROR if the cluster has no producer
        ids left, COORDINATOR_LOAD_IN_PROGRESS if the controller has not allocated a block in time."""
        while not self._block:
            if self._fetch is None:
                self._fetch = asyncio.get_running_loop().create_task(self._fetch_block())
            done, _ = await asyncio.wait([self._fetch], timeout=PATIENCE_S)
            code = done.pop().result() if done else ErrorCode.REQUEST_TIMED_OUT
            if code == ErrorCode.UNKNOWN_SERVER_ERROR:
                raise CoordinatorError(code)
            if code != ErrorCode.NONE:
                raise CoordinatorError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        first, self._block = self._block[0], self._block[1:]
        return first

    async def _fetch_block(self) -> ErrorCode:
        context = self._context
        own = context.image.brokers.get(context.node_id)
        try:
            answer: AllocateProducerIdsResponse = await self._controller.call(
                "allocate_producer_ids",
                0,
                timeout_s=context.config.number("request.timeout.ms") / 1000,
                broker_id=context.node_id,
                broker_epoch=NO_EPOCH if own is None else own.epoch,
            )
        except Unanswered as error:
            log.warning("no block of producer ids: %s", error)
            return ErrorCode.REQUEST_TIMED_OUT
        except Exception as error:  # noqa: BLE001  (waiting requests fail with an error that is retried)
            report("no block of producer ids", error)
            return ErrorCode.REQUEST_TIMED_OUT
        finally:
            self._fetch = None
        code = ErrorCode(answer.error_code)
        if code == ErrorCode.NONE:
            self._block = range(answer.producer_id_start, answer.producer_id_start + answer.producer_id_len)
        else:
            log.warning("no block of producer ids: %s", code.name)
        return code
