"""The state of a TransactionMachine (Shard), and the handling of one request or deadline on it (Turn)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kcli.coordinator.machine import Outcome
from kcli.protocol.error_code import ErrorCode
from kcli.txn.errors import Refused
from kcli.txn.records import tombstone, transaction_record
from kcli.txn.requests import WriteMarkers
from kcli.txn.transaction import NONE, State, Transaction


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """The broker's configurations, in the order of the fields: transaction.max.timeout.ms,
    transactional.id.expiration.ms, transaction.abort.timed.out.transaction.cleanup.interval.ms,
    transaction.remove.expired.transaction.cleanup.interval.ms and transaction.two.phase.commit.enable."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    remove_interval_ms: int = 3_600_000
    two_phase_commit: bool = False


@dataclass(slots=True)
class Shard:
    """The state of one TransactionMachine: the transactions of a partition of __transaction_state.

    version(): returns the cluster's transaction.version. transactions: by transactional id. last_epochs: by
    transactional id, the `last_producer_epoch` of a record that is being appended, as the record itself does not have
    it.
    """

    config: TransactionConfig
    version: Callable[[], int]
    transactions: dict[str, Transaction] = field(default_factory=dict)
    last_epochs: dict[str, int] = field(default_factory=dict)

    def get(self, transactional_id: str) -> Transaction:
        """Return the state of a transactional id. Raises Refused INVALID_REQUEST for an empty id,
        INVALID_PRODUCER_ID_MAPPING for an unknown one."""
        if not transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def check_version(self, client_version: int) -> None:
        """Raises Refused UNSUPPORTED_VERSION if the client uses transaction version 1 or higher and the cluster's
        transaction.version is 0: the records of transactions then have no field for the client's version."""
        if client_version and not self.version():
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)


@dataclass(slots=True)
class Turn:
    """The handling of one request or deadline, and its outcome."""

    shard: Shard
    now_ms: int
    outcome: Outcome = field(default_factory=Outcome)

    def write(self, transactional_id: str, transaction: Transaction) -> None:
        """Append the record of the transactional id's new state."""
        self.shard.last_epochs[transactional_id] = transaction.last_producer_epoch
        self.outcome.append(transaction_record(transactional_id, transaction, self.shard.version()))

    def forget(self, transactional_ids: list[str]) -> None:
        """Append tombstones of these transactional ids."""
        self.outcome.append(*(tombstone(each) for each in transactional_ids))

    def write_markers(self, transactional_id: str, transaction: Transaction) -> None:
        """Add the message WriteMarkers for a prepared transaction."""
        self.outcome.messages.append(
            WriteMarkers(
                transactional_id,
                transaction.producer_id,
                transaction.producer_epoch,
                transaction.state is State.PREPARE_COMMIT,
                tuple(sorted(transaction.partitions)),
                transaction.client_version,
            )
        )


def last_epoch_of(shard: Shard, transactional_id: str) -> int:
    """Remove and return the `last_producer_epoch` that belongs to a record that was just appended; NONE for a record
    that was loaded from the log."""
    return shard.last_epochs.pop(transactional_id, NONE)
