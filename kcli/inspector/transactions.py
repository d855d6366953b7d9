"""Transactions as the files of log directories have them, without a broker.

    __transaction_state   replayed: transactional ids as their coordinators would load them
    partitions            the latest producer snapshot, and the log behind it

A directory may have only some partitions of `__transaction_state`: what the others know is not known then, which is
told. No producer is forgotten for its age. Source: TransactionStateManager, ProducerStateManager; KIP-98, KIP-664.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from formats.errors import FormatError
from formats.producer_snapshot import ProducerEntry
from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.group_view import Place
from kcli.inspector.cluster_metadata import read_image
from kcli.inspector.partition_paths import PartitionPaths
from kcli.log.config import LogConfig
from kcli.log.coordinator_records import read_records
from kcli.log.read_only_log import ReadOnlyLog
from kcli.transaction_view import Listing, NoSuchTransactionalId, Producer, Transaction, Wanted, known
from kcli.txn import transaction
from kcli.txn.records import TOPIC, parse


class TransactionFiles:
    """The transactions of log directories. `trouble`: what is damaged, a line each, and what could not be read."""

    def __init__(self, directories: Iterable[Path], now_ms: int) -> None:
        """Raises UnreadableInput: no such directory."""
        self._directories = list(directories)
        self._now_ms = now_ms
        self._found = PartitionPaths.of(self._directories)
        self.trouble: list[str | UnreadableInput] = [*self._found.unreadable]
        self._partitions = self._found.paths
        self._known: dict[str, transaction.Transaction] | None = None

    def all(self, wanted: Wanted) -> Iterator[Listing]:
        """Transactional ids, by name. Raises UnreadableInput."""
        for name, each in sorted(self._transactions().items()):
            if (
                (not wanted.states or each.state.label in wanted.states)
                and (not wanted.producer_ids or each.producer_id in wanted.producer_ids)
                and (wanted.longer_than_ms is None or self._now_ms - each.start_ms > wanted.longer_than_ms)
            ):
                yield Listing(name, None, each.producer_id, each.state.label)

    def describe(self, transactional_ids: Iterable[str]) -> Iterator[Transaction | KcliError]:
        """Transactional ids, in the order given, or why not. Raises UnreadableInput."""
        for name in transactional_ids:
            each = self._transactions().get(name)
            if each is None:
                yield NoSuchTransactionalId(name)
            else:
                yield Transaction(
                    name,
                    None,
                    each.producer_id,
                    each.producer_epoch,
                    each.state.label,
                    each.timeout_ms,
                    each.start_ms if each.start_ms >= 0 else None,
                    tuple(sorted(each.partitions)),
                )

    def places(self, topic: str | None, broker: int | None) -> list[Place]:
        """The partitions of a topic, or all. Raises UsageError: a broker; UnreadableInput: nothing of the topic."""
        _no_broker(broker)
        if topic is None:
            return sorted(self._partitions)
        found = self._found.of_topic(topic)
        if not found:
            raise self._missing(topic)
        return [(topic, number) for number in found]

    def producers(
        self, places: Iterable[Place], broker: int | None
    ) -> Iterator[tuple[Place, list[Producer]] | KcliError]:
        """The producers that partitions know, or why not. Raises UsageError: a broker."""
        _no_broker(broker)
        for place in places:
            path = self._partitions.get(place)
            if path is None:
                if place not in self._found.named:
                    yield self._missing(f"{place[0]}-{place[1]}")
                continue
            try:
                log = ReadOnlyLog(path, LogConfig())
            except (OSError, KcliError) as error:
                self.trouble.append(_unreadable(path, error))
                continue
            try:
                entries = map(ProducerEntry._make, log.producers.table.entries())
                yield place, sorted(map(_producer, entries))
            except (OSError, KcliError) as error:
                self.trouble.append(_unreadable(path, error))
            except FormatError as error:
                self.trouble.append(f"{path}: {error}")
            finally:
                log.release_handles()

    def _transactions(self) -> dict[str, transaction.Transaction]:
        if self._known is None:
            self._known = self._replayed()
        return self._known

    def _replayed(self) -> dict[str, transaction.Transaction]:
        paths = self._found.of_topic(TOPIC)
        if not paths:
            raise self._missing(TOPIC)
        named = {number for topic, number in self._found.named if topic == TOPIC}
        count = self._state_partitions(named)
        if len(named) < count:
            self.trouble.append(f"only {len(named)} of {count} partitions of {TOPIC} are there")
        found: dict[str, transaction.Transaction] = {}
        for number in sorted(paths):
            self._replay(paths[number], found)
        return found

    def _replay(self, directory: Path, found: dict[str, transaction.Transaction]) -> None:
        try:
            self._replay_records(directory, found)
        except UnreadableInput as error:
            self.trouble.append(error)

    def _replay_records(self, directory: Path, found: dict[str, transaction.Transaction]) -> None:
        for path, record in read_records(directory, self.trouble.append):
            if record.marker is not None:
                continue
            try:
                parsed = parse((record.key, record.value))
            except FormatError as error:
                self.trouble.append(f"{path}: offset {record.offset:,}: {error}")
                continue
            if parsed is None:  # of a later version: coordinators pass over it too
                continue
            if parsed.transaction is None:
                found.pop(parsed.transactional_id, None)
            else:
                found[parsed.transactional_id] = parsed.transaction

    def _state_partitions(self, here: Iterable[int]) -> int:
        """How many partitions there are in the cluster, as far as the directories tell."""
        counts = [max(here) + 1]
        for directory in self._directories:
            try:
                image = read_image(directory)
            except UnreadableInput as error:
                self.trouble.append(error)
                continue
            topic = None if image is None else image.topics.get(TOPIC)
            if topic is not None:
                counts.append(len(topic.partitions))
        return max(counts)

    def _missing(self, what: str) -> UnreadableInput:
        return UnreadableInput(", ".join(map(str, self._directories)), f"no partition of {what} in it")


def _no_broker(broker: int | None) -> None:
    if broker is not None:
        raise UsageError("--broker-id asks a broker: it excludes --data-dir")


def _unreadable(path: Path, error: OSError | KcliError) -> UnreadableInput:
    return error if isinstance(error, UnreadableInput) else UnreadableInput(str(path), str(error))


def _producer(entry: ProducerEntry) -> Producer:
    return Producer(
        entry.producer_id,
        entry.producer_epoch,
        known(entry.coordinator_epoch),
        known(entry.last_sequence),
        entry.timestamp,
        known(entry.current_txn_first_offset),
    )
