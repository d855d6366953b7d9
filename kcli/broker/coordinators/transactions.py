"""Transactions on a broker: the coordinator of __transaction_state, what it wants done, and what its handlers share.

    markers   written wherever the partitions' leaders are, again and again until all are; then the coordinator hears
              of it. See markers.py
    verify    before a transactional batch is the first of its transaction in a partition, the coordinator is asked
              whether the partition is part of it, or told so by new clients (KIP-890)

Source: TransactionCoordinator, TransactionMarkerChannelManager, AddPartitionsToTxnManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.coordinators.markers import Markers
from kcli.broker.coordinators.runtime import CoordinatorError, Work
from kcli.broker.network.messages import ErrorCode
from kcli.broker.unattended import begin
from kcli.txn.machine import TransactionMachine
from kcli.txn.requests import NEEDS_PRODUCER_ID, AbortTimedOut, MarkersWritten, Producer, WriteMarkers
from kcli.txn.turn import TransactionConfig

if TYPE_CHECKING:
    from kcli.broker.broker import Broker
    from kcli.broker.config import BrokerConfig

log = logging.getLogger("kcli.broker")

FEATURE: Final = "transaction.version"
RETRY_S: Final = 0.1


def coordinate(broker: Broker) -> Work:
    """What the coordinator of transactions does."""
    config = _config(broker.config)
    return Work(
        make=lambda _: TransactionMachine(config, lambda: broker.image.features.get(FEATURE, 0)),
        act=_Transactions(broker).act,
        commit_timeout_ms=broker.config.number("request.timeout.ms"),
        changes_nothing=lambda _: True,  # transactions change by their records only
    )


def _config(config: BrokerConfig) -> TransactionConfig:
    return TransactionConfig(
        max_timeout_ms=config.number("transaction.max.timeout.ms"),
        id_expiration_ms=config.number("transactional.id.expiration.ms"),
        abort_interval_ms=config.number("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        remove_interval_ms=config.number("transaction.remove.expired.transaction.cleanup.interval.ms"),
        two_phase_commit=bool(config.get("transaction.two.phase.commit.enable")),
    )


class _Transactions:
    """Does what the coordinator's machines tell."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._markers = Markers(broker, lambda message, number: self._begin(self._complete(message, number)))

    def act(self, message: WriteMarkers | AbortTimedOut, number: int) -> None:
        """Do it."""
        if isinstance(message, WriteMarkers):
            self._markers.write(message, number)
        else:
            self._begin(self._abort(message, number))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        _ = begin(work, "a transaction is not completed")

    async def _complete(self, message: WriteMarkers, number: int) -> None:
        """Where that cannot be appended now, it is tried again: nobody else would."""
        request = MarkersWritten(message.transactional_id, message.producer_id, message.producer_epoch)
        while True:
            try:
                await self._broker.transactions.ask_shard(number, request)
            except CoordinatorError as error:
                log.info("%s is completed later: %s", message.transactional_id, error.code.name)
                if error.code is ErrorCode.coordinator_not_available:
                    await asyncio.sleep(RETRY_S)
                    continue
            return

    async def _abort(self, message: AbortTimedOut, number: int) -> None:
        try:
            producer_id = await self._broker.producer_ids.next()
            await self._broker.transactions.ask_shard(number, replace(message, new_producer_id=producer_id))
        except CoordinatorError as error:
            log.warning("%s has timed out and is not aborted: %s", message.transactional_id, error)


async def ask_transaction(broker: Broker, transactional_id: str, request: Any) -> Any:
    """The answer of the transactional id's machine, with a producer id where it needs one. Raises CoordinatorError,
    also where there are no producer ids."""
    answer = await broker.transactions.ask(transactional_id, request)
    if answer is NEEDS_PRODUCER_ID:
        request = replace(request, new_producer_id=await broker.producer_ids.next())
        answer = await broker.transactions.ask(transactional_id, request)
    return answer


async def ask_producer(broker: Broker, transactional_id: str, request: Any) -> tuple[ErrorCode, int, int]:
    """The answer to InitProducerId and EndTransaction: error, producer id, epoch."""
    if not transactional_id:
        return ErrorCode.invalid_request, -1, -1
    try:
        answer: Producer = await ask_transaction(broker, transactional_id, request)
    except CoordinatorError as error:
        return error.code, -1, -1
    return ErrorCode(answer.code.value), answer.producer_id, answer.producer_epoch


def for_version(code: ErrorCode, version: int, since: int) -> ErrorCode:
    """Clients before that version do not know PRODUCER_FENCED."""
    return ErrorCode.invalid_producer_epoch if code is ErrorCode.producer_fenced and version < since else code
