"""The promises of raft, checked after every event.

election safety       an epoch has one leader; a replica votes once in an epoch; its epoch never decreases
log matching          batches with the same offset and epoch are equal, and so are all batches before them
leader completeness   a new leader has all committed batches
state machine safety  all nodes have the same committed batches; a committed offset never decreases
"""

from __future__ import annotations

from formats.quorum_state import QuorumState
from kcli.raft.raft import Raft
from kcli.raft.voters import ReplicaKey
from tests.raft.memory import Batch, MemoryLog


class Broken(AssertionError):
    """A promise is broken."""


class Checks:
    """Checks the promises. committed: the chain at each offset between committed batches."""

    def __init__(self) -> None:
        self.leaders: dict[int, ReplicaKey] = {}
        self.committed: dict[int, int] = {0: 0}
        self.committed_offset = 0
        self._votes: dict[tuple[ReplicaKey, int], tuple[int, str | None]] = {}
        self._epochs: dict[ReplicaKey, int] = {}
        self._chains: dict[tuple[int, int], int] = {}

    def saved(self, key: ReplicaKey, state: QuorumState) -> None:
        """Check a quorum-state that a replica has written."""
        if state.leader_epoch < self._epochs.get(key, 0):
            raise Broken(f"{key.id}: from epoch {self._epochs[key]} to {state.leader_epoch}")
        self._epochs[key] = state.leader_epoch
        if state.voted_id >= 0:
            vote = state.voted_id, state.voted_directory_id
            first = self._votes.setdefault((key, state.leader_epoch), vote)
            if first[0] != vote[0]:
                raise Broken(f"{key.id} votes for {first} and {vote} in epoch {state.leader_epoch}")

    def appended(self, batch: Batch) -> None:
        """Check a batch that was appended to a log."""
        if self._chains.setdefault((batch.base_offset, batch.epoch), batch.chain) != batch.chain:
            raise Broken(f"two logs differ at offset {batch.base_offset} of epoch {batch.epoch}")

    def look(self, raft: Raft, log: MemoryLog) -> None:
        """Check a node after an event."""
        if raft.is_leader and self.leaders.get(raft.epoch) != raft.key:
            self._elected(raft, log)
        if raft.committed_offset != log.high_watermark:
            raise Broken(f"{raft.key.id}: committed {raft.committed_offset}, the log has {log.high_watermark}")
        self._commit(raft, log)

    def _elected(self, raft: Raft, log: MemoryLog) -> None:
        if raft.epoch in self.leaders:
            raise Broken(f"{self.leaders[raft.epoch].id} and {raft.key.id} lead epoch {raft.epoch}")
        self.leaders[raft.epoch] = raft.key
        if log.start_offset <= self.committed_offset:
            found = log.chain_at(self.committed_offset)
            if found != self.committed[self.committed_offset]:
                raise Broken(f"{raft.key.id} leads epoch {raft.epoch} without all before {self.committed_offset}")

    def _commit(self, raft: Raft, log: MemoryLog) -> None:
        offset = raft.committed_offset
        if offset > self.committed_offset:
            for batch in log.disk.batches:
                if self.committed_offset < batch.end_offset <= offset:
                    self.committed[batch.end_offset] = batch.chain
            self.committed_offset = offset
        chain = log.chain_at(offset)
        if chain is not None and offset >= log.start_offset and self.committed.get(offset) != chain:
            raise Broken(f"{raft.key.id} has another log before {offset}, which is committed")
        if chain is None and offset > log.start_offset:
            raise Broken(f"{raft.key.id} has lost what it called committed, before {offset}")
