"""The transaction coordinator of a broker, which uses __transaction_state, and functions for its request handlers.

    markers   are written to the leaders of the transaction's partitions, with retries until all are written; then the
              coordinator completes the transaction. See markers.py
    verify    before the first batch of a transaction in a partition, the coordinator verifies that the partition is
              part of the transaction, or adds it (KIP-890). See transaction_check.py

Source: TransactionCoordinator, TransactionMarkerChannelManager, AddPartitionsToTxnManager.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from kcli.broker.coordinators.local_markers import LocalMarkers
from kcli.broker.coordinators.markers import Markers
from kcli.broker.coordinators.runtime import Coordinator, CoordinatorError, Work
from kcli.broker.process.unattended import begin
from kcli.protocol.error_code import ErrorCode
from kcli.txn.machine import TransactionMachine
from kcli.txn.requests import NEEDS_PRODUCER_ID, AbortTimedOut, MarkersWritten, Producer, WriteMarkers
from kcli.txn.turn import TransactionConfig

if TYPE_CHECKING:
    from kcli.broker.config import BrokerConfig
    from kcli.broker.coordinators.producer_ids import ProducerIds

log = logging.getLogger("kcli.broker")

FEATURE: Final = "transaction.version"
RETRY_S: Final = 0.1


def coordinate(transactions: Coordinator, local: LocalMarkers, producer_ids: ProducerIds) -> Work:
    """Return the Work of the transaction coordinator: the functions with which it extends the runtime. local: writes
    markers to the partitions that this broker leads."""
    context = transactions.context
    config, image = _config(context.config), context.image
    return Work(
        make=lambda _: TransactionMachine(config, lambda: image.features.get(FEATURE, 0)),
        act=_Transactions(transactions, local, producer_ids).act,
        commit_timeout_ms=context.config.number("request.timeout.ms"),
        changes_nothing=lambda _: True,  # only the replay of records changes a transaction
        loads_in_part=True,  # as in TransactionStateManager.loadTransactionMetadata, unlike GroupCoordinatorService
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
    """Carries out the messages of the transaction coordinator's state machines: writes transaction markers, and aborts
    transactions that have timed out."""

    def __init__(self, coordinator: Coordinator, local: LocalMarkers, producer_ids: ProducerIds) -> None:
        self._coordinator, self._producer_ids = coordinator, producer_ids
        self._markers = Markers(
            coordinator, local, lambda message, number: self._begin(self._complete(message, number))
        )

    def act(self, message: WriteMarkers | AbortTimedOut, number: int) -> None:
        """Carry out a message of the state machine of partition `number` of __transaction_state."""
        if isinstance(message, WriteMarkers):
            self._markers.write(message, number)
        else:
            self._begin(self._abort(message, number))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        _ = begin(work, "a transaction is not completed")

    async def _complete(self, message: WriteMarkers, number: int) -> None:
        """Complete a transaction whose markers are written; retry while the record that completes it cannot be
        appended."""
        request = MarkersWritten(message.transactional_id, message.producer_id, message.producer_epoch)
        while True:
            try:
                await self._coordinator.handle_in(number, request)
            except CoordinatorError as error:
                log.info("%s is completed later: %s", message.transactional_id, error.code.name)
                if error.code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
                    await asyncio.sleep(RETRY_S)
                    continue
            return

    async def _abort(self, message: AbortTimedOut, number: int) -> None:
        try:
            producer_id = await self._producer_ids.next()
            await self._coordinator.handle_in(number, replace(message, new_producer_id=producer_id))
        except CoordinatorError as error:
            log.warning("%s has timed out and is not aborted: %s", message.transactional_id, error)


async def ask_transaction(
    transactions: Coordinator, producer_ids: ProducerIds, transactional_id: str, request: Any
) -> Any:
    """Return the response of the state machine of the transactional id's partition (runtime.py). If the state machine
    needs a new producer id, send the request again with a new one. Raises CoordinatorError, also if there are no
    producer ids left."""
    answer = await transactions.handle(transactional_id, request)
    if answer is NEEDS_PRODUCER_ID:
        request = replace(request, new_producer_id=await producer_ids.next())
        answer = await transactions.handle(transactional_id, request)
    return answer


async def ask_producer(
    transactions: Coordinator, producer_ids: ProducerIds, transactional_id: str, request: Any
) -> tuple[ErrorCode, int, int]:
    """Pass an InitProducerId or EndTxn request to the transaction coordinator, and return the error, producer id and
    producer epoch for the response. With an error, id and epoch are -1."""
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST, -1, -1
    try:
        answer: Producer = await ask_transaction(transactions, producer_ids, transactional_id, request)
    except CoordinatorError as error:
        return error.code, -1, -1
    return answer.code, answer.producer_id, answer.producer_epoch


def for_version(code: ErrorCode, version: int, since: int) -> ErrorCode:
    """Return `code`, or INVALID_PRODUCER_EPOCH in place of PRODUCER_FENCED if the request's `version` is below `since`,
    the first version that has PRODUCER_FENCED."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED and version < since else code
