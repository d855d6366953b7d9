"""The rows of `kcli recover` about producers whose epochs the transaction coordinator has lost, and the records that
its salvage writes for them: see kcli.inspector.transaction_state. Salvage also writes the committed offsets of groups
in a topic that has grown: see kcli.inspector.verify.unserved_records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcli.coordinator.machine import GROUPS_TOPIC
from kcli.log.disk import Disk
from kcli.printable import names_text

if TYPE_CHECKING:
    from kcli.inspector.transaction_state import EndedAgain, Unfit
    from kcli.protocol.topic_partition import TopicPartition

KIND, ENDED_AGAIN = "transaction-state-end", "transaction-ends-again"
Row = dict[str, Any]
PLACES_SHOWN = 3


@dataclass
class StateRecords:
    """Writes records of the transaction coordinator for producers whose last epochs are lost, so that these producers
    can continue. others: the other log directories of the broker. replicas: returns the other nodes that have replicas
    of a partition; if there are any, they have the lost records, and none are written. now_ms, expiration_ms: see
    CoordinatorCheck. copied_groups: returns the groups whose committed offsets `write` appends to the partition in
    which Kafka looks for them. written: the contradictions that `write` has mended."""

    others: Sequence[Path]
    replicas: Callable[[TopicPartition], Sequence[int]]
    now_ms: int
    expiration_ms: int
    copied_groups: Callable[[], Collection[str]] = tuple
    written: list[Unfit] = field(default_factory=list)

    def mends(self, found: Unfit) -> bool:
        """Whether `write` mends a contradiction."""
        return found.mended is not None and not self.replicas(found.partition)

    def write(self, home: Path) -> None:
        """Write the records into the partitions of __transaction_state, and committed offsets into those of
        __consumer_offsets, in a recovered log directory. Raises UnreadableInput, OSError."""
        from kcli.inspector.transaction_state import unfit
        from kcli.log.recovery.state_records import append_record, append_records
        from kcli.txn.records import transaction_record

        found = list(unfit([home, *self.others], None, self.now_ms, self.expiration_ms))
        for each in found:  # all are found before a record is written
            directory, mended = home / str(each.partition), each.mended
            if mended is not None and self.mends(each) and directory.is_dir():
                key, value = transaction_record(each.transactional_id, mended, mended.client_version)
                append_record(directory, Disk(), key, value, mended.last_update_ms)
                self.written.append(each)
        groups = self.copied_groups()
        if groups:
            from kcli.inspector.groups import GroupFiles

            for number, records in GroupFiles([home, *self.others]).records_to_copy(groups):
                directory = home / f"{GROUPS_TOPIC}-{number}"
                if directory.is_dir():
                    append_records(directory, Disk(), records, self.now_ms)


def row(found: Unfit, *, mends: bool, salvage: bool) -> Row:
    """Return the row of a contradiction. mends: whether salvage mends it. salvage: whether this recovery salvages."""
    fields: Row = {"partition": str(found.partition), "kind": KIND, "file": ""}
    fields |= {"transactional_id": found.transactional_id, "producer_id": found.producer_id}
    fields |= {"coordinator_epoch": found.coordinator_epoch, "producer_epoch": found.producer_epoch}
    fields |= {"producer_partition": str(found.place), "error": found.error, "outcome": found.outcome}
    ongoing = [] if found.mended is None else sorted(map(str, found.mended.partitions))
    return fields | {"ongoing": ongoing, "salvage_mends": mends, "mended": mends and salvage}


def words(fields: Row) -> str:
    """Return a row of either kind in words."""
    if fields["kind"] == ENDED_AGAIN:
        return _ended_again_words(fields)
    name, epoch = fields["transactional_id"], fields["producer_epoch"]
    whose = f"{name} (producer {fields['producer_id']}) has epoch {fields['coordinator_epoch']:,} in its last record"
    told = f"{whose}, and {epoch:,} in {fields['producer_partition']}"
    if fields["mended"]:
        more = f", in which Kafka aborts the transaction open in {', '.join(fields['ongoing'])}"
        return (
            f"{told}: a record with epoch {epoch:,}, with which the producer goes on{more if fields['ongoing'] else ''}"
        )
    if fields["salvage_mends"]:
        return f"{told}: {fields['outcome']}; salvage writes a record with which the producer goes on"
    return f"{told}: {fields['outcome']}"


def ended_again_row(found: EndedAgain) -> Row:
    """Return the row of a transaction that the coordinator ends for the second time."""
    fields: Row = {"partition": str(found.partition), "kind": ENDED_AGAIN, "file": ""}
    fields |= {"transactional_id": found.transactional_id, "producer_id": found.producer_id}
    return fields | {"state": found.state.label, "partitions": [*map(str, found.places)]}


def _ended_again_words(fields: Row) -> str:
    does = {"PrepareCommit": "commits", "PrepareAbort": "aborts"}
    verb = does.get(fields["state"], "aborts, after its timeout,")
    name = f"{fields['transactional_id']} (producer {fields['producer_id']}) is {fields['state']} in its last record"
    places = names_text(fields["partitions"], PLACES_SHOWN)
    return f"{name}: its coordinator then {verb} a transaction that has ended, with another marker in {places}"
