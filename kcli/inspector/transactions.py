"""Transactional ids and producers from the files of log directories, without a broker.

    __transaction_state   replayed: transactional ids, in the state in which their coordinators load them
    partitions            producers, from the latest producer snapshot and the batches from its offset on

The directories may lack partitions of `__transaction_state`: then `TransactionFiles.trouble` says how many. No producer
expires. Source: TransactionStateManager, ProducerStateManager; KIP-98, KIP-664.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from formats.errors import FormatError
from formats.producer_snapshot import ProducerEntry
from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.inspector.cluster_metadata import read_image
from kcli.inspector.home_partition import is_home, unserved_lines
from kcli.inspector.partition_paths import PartitionPaths
from kcli.log.config import LogConfig
from kcli.log.coordinator_records import CoordinatorRecord, read_records, read_view
from kcli.log.partition_view import PartitionView
from kcli.log.read_only.log import ReadOnlyLog, log
from kcli.protocol.topic_partition import TopicPartition
from kcli.txn import transaction
from kcli.txn.records import TOPIC, parse
from kcli.views.transactions import Listing, NoSuchTransactionalId, Producer, Transaction, TransactionFilter, known


class StatePartition(NamedTuple):
    """A partition of __transaction_state as it will be after a start. view: its files; None for a partition that the
    start creates empty. end: the .log file, and the byte in it, at which the transaction coordinator stops loading;
    None if it loads the whole partition."""

    view: PartitionView | None
    end: tuple[str, int] | None = None


class TransactionFiles:
    """The transactions in log directories. trouble: a line for each damaged batch or record, and an error for each file
    that cannot be read."""

    def __init__(
        self,
        directories: Iterable[Path],
        now_ms: int,
        warn: Callable[[str], None] = log.warning,
        after_start: Mapping[int, StatePartition] | None = None,
    ) -> None:
        """now_ms: the present time, from which TransactionFilter.longer_than_ms counts back to the beginning of a
        transaction. warn: called with a line of text for each file of a partition that cannot be read. after_start: by
        number, partitions of __transaction_state that are read as they will be after a start, in place of their files.
        Raises UnreadableInput if no directory is readable."""
        self._after_start = {} if after_start is None else after_start
        self._directories = list(directories)
        self._now_ms = now_ms
        self._warn = warn
        self._found = PartitionPaths.of(self._directories)
        self.trouble: list[str | UnreadableInput] = [*self._found.unreadable]
        self._partitions = self._found.paths
        self._known: dict[str, transaction.Transaction] | None = None
        self.state_partitions: dict[str, int] = {}
        """The partition of __transaction_state with the records of each transactional id that `transactions`
        returns."""
        self._count = 0

    def all(self, selection: TransactionFilter) -> Iterator[Listing]:
        """Yield the transactional ids that `selection` selects, in order. Raises UnreadableInput."""
        for name, each in sorted(self.transactions().items()):
            if (
                (not selection.states or each.state.label in selection.states)
                and (not selection.producer_ids or each.producer_id in selection.producer_ids)
                and (selection.longer_than_ms is None or self._now_ms - each.start_ms > selection.longer_than_ms)
            ):
                yield Listing(name, None, each.producer_id, each.state.label)

    def describe(self, transactional_ids: Iterable[str]) -> Iterator[Transaction | KcliError]:
        """Yield the states of these transactional ids, in the order given; an error for an unknown one.

        Raises UnreadableInput.
        """
        for name in transactional_ids:
            each = self.transactions().get(name)
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

    def places(self, topic: str | None, broker: int | None) -> list[TopicPartition]:
        """Return the partitions of a topic, or of all topics if `topic` is None. broker: must be None.

        Raises UsageError for a broker, UnreadableInput if no partition of the topic can be read.
        """
        _no_broker(broker)
        if topic is None:
            return sorted(self._partitions)
        found = self._found.of_topic(topic)
        if not found:
            raise self._missing(topic)
        return [TopicPartition(topic, number) for number in found]

    def producers(
        self, places: Iterable[TopicPartition], broker: int | None
    ) -> Iterator[tuple[TopicPartition, list[Producer]] | KcliError]:
        """Yield these partitions with their producers; an error for a missing partition. broker: must be None.

        A partition that cannot be read is added to `trouble`. Raises UsageError for a broker.
        """
        _no_broker(broker)
        for place in places:
            path = self._partitions.get(place)
            if path is None:
                if place not in self._found.named:
                    yield self._missing(str(place))
                continue
            try:
                opened = ReadOnlyLog(path, LogConfig(), warn=self._warn)
            except (OSError, KcliError) as error:
                self.trouble.append(_unreadable(path, error))
                continue
            try:
                entries = map(ProducerEntry._make, opened.producers.table.entries())
                yield place, sorted(map(_producer, entries))
            except (OSError, KcliError) as error:
                self.trouble.append(_unreadable(path, error))
            except FormatError as error:
                self.trouble.append(f"{path}: {error}")
            finally:
                opened.release_handles()

    def unserved(self) -> list[str]:
        """A line of text if Kafka does not find some of the transactional ids that `transactions` returns, as their
        records lie in another partition of __transaction_state. Raises UnreadableInput."""
        self.transactions()
        return list(unserved_lines("transactional id", TOPIC, self.state_partitions, self._count))

    def transactions(self) -> dict[str, transaction.Transaction]:
        """The transactions by transactional id, as their coordinators load them. Raises UnreadableInput."""
        if self._known is None:
            self._known = self._replayed()
        return self._known

    def _replayed(self) -> dict[str, transaction.Transaction]:
        paths = self._found.of_topic(TOPIC)
        if not (paths or self._after_start):
            raise self._missing(TOPIC)
        named = {number for topic, number in self._found.named if topic == TOPIC} | self._after_start.keys()
        count = self._state_partitions(named)
        if len(named) < count:
            self.trouble.append(f"only {len(named)} of {count} partitions of {TOPIC} are there")
        found: dict[str, transaction.Transaction] = {}
        for number in sorted(paths.keys() | self._after_start.keys()):
            here: dict[str, transaction.Transaction] = {}
            self._replay(number, paths.get(number), here)
            for name, each in here.items():
                if name not in found or not is_home(name, self.state_partitions[name], self._count):
                    found[name], self.state_partitions[name] = each, number
        return found

    def _replay(self, number: int, directory: Path | None, found: dict[str, transaction.Transaction]) -> None:
        try:
            self._replay_records(self._records(number, directory), found)
        except UnreadableInput as error:
            self.trouble.append(error)

    def _records(self, number: int, directory: Path | None) -> Iterator[tuple[Path, CoordinatorRecord]]:
        """Return the records of partition `number` of __transaction_state, each with the path of its .log file: as they
        will be after a start, if `after_start` has the partition; else those in `directory`, the partition's
        directory."""
        after = self._after_start.get(number)
        if after is not None:
            return iter(()) if after.view is None else read_view(after.view, self.trouble.append, after.end)
        assert directory is not None, "a partition has a directory, or is in after_start"
        return read_records(directory, self.trouble.append)

    def _replay_records(
        self, records: Iterable[tuple[Path, CoordinatorRecord]], found: dict[str, transaction.Transaction]
    ) -> None:
        for path, record in records:
            if record.marker is not None:
                continue
            try:
                parsed = parse((record.key, record.value))
            except FormatError as error:
                self.trouble.append(f"{path}: offset {record.offset:,}: {error}")
                continue
            if parsed is None:  # a later Kafka version wrote the record; coordinators skip it too
                continue
            if parsed.transaction is None:
                found.pop(parsed.transactional_id, None)
            else:
                found[parsed.transactional_id] = parsed.transaction

    def _state_partitions(self, numbers: Iterable[int]) -> int:
        """Return the number of partitions of __transaction_state: the largest count in the metadata logs of the
        directories, but at least the highest of `numbers` plus one.

        numbers: the partitions of __transaction_state that lie in the directories.
        """
        counts = [max(numbers) + 1]
        for directory in self._directories:
            try:
                image = read_image(directory)
            except UnreadableInput as error:
                self.trouble.append(error)
                continue
            topic = None if image is None else image.topics.get(TOPIC)
            if topic is not None:
                counts.append(len(topic.partitions))
        self._count = max(counts[1:], default=0)
        return max(counts)

    def _missing(self, topic: str) -> UnreadableInput:
        return UnreadableInput(", ".join(map(str, self._directories)), f"no partition of {topic} in it")


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
