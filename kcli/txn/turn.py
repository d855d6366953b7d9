"""One turn of a machine: what its functions read, and what they leave to be done."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kcli.coordinator import Outcome
from kcli.txn.errors import ErrorCode, Refused
from kcli.txn.records import tombstone, transaction_record
from kcli.txn.requests import WriteMarkers
from kcli.txn.transaction import NONE, State, Transaction


@dataclass(frozen=True, slots=True)
class TransactionConfig:
    """The broker's configuration: transaction.max.timeout.ms, transactional.id.expiration.ms,
    transaction.abort.timed.out.transaction.cleanup.interval.ms, transaction.remove.expired.transaction.cleanup.
    interval.ms, transaction.two.phase.commit.enable."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 604_800_000
    abort_interval_ms: int = 10_000
    remove_interval_ms: int = 3_600_000
    two_phase_commit: bool = False


@dataclass(slots=True)
class Shard:
    """All that a machine knows. version(): the cluster's transaction.version.

    last_epochs: of records that are just being appended, what they cannot hold.
    """

    config: TransactionConfig
    version: Callable[[], int]
    transactions: dict[str, Transaction] = field(default_factory=dict)
    last_epochs: dict[str, int] = field(default_factory=dict)

    def get(self, transactional_id: str) -> Transaction:
        """A transactional id that there must be. Raises Refused."""
        if not transactional_id:
            raise Refused(ErrorCode.INVALID_REQUEST)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def check_version(self, client_version: int) -> None:
        """Records of transaction.version 0 have no place for the client's. Raises Refused."""
        if client_version and not self.version():
            raise Refused(ErrorCode.UNSUPPORTED_VERSION)


@dataclass(slots=True)
class Turn:
    """A request, or a deadline, and what comes of it."""

    shard: Shard
    now_ms: int
    outcome: Outcome = field(default_factory=Outcome)

    def write(self, transactional_id: str, transaction: Transaction) -> None:
        """The transactional id is like that from now on."""
        self.shard.last_epochs[transactional_id] = transaction.last_producer_epoch
        self.outcome.append(transaction_record(transactional_id, transaction, self.shard.version()))

    def forget(self, transactional_ids: list[str]) -> None:
        """There are no such transactional ids from now on."""
        self.outcome.append(*(tombstone(each) for each in transactional_ids))

    def write_markers(self, transactional_id: str, transaction: Transaction) -> None:
        """Have the markers of a prepared transaction written."""
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
    """What a record cannot hold, of the record that is just appended; -1 of one that is read."""
    return shard.last_epochs.pop(transactional_id, NONE)
