"""The quorum of the metadata log with this node as its only voter: the voter and the leader epoch.

    kraft.version 0   the voters are those of controller.quorum.voters, known by their ids
    kraft.version 1   the voters are in control records of the log, known by id and directory (KIP-853)
    upgrade to 1      writes kraft.version and the voters, with this node as the only voter, in one batch; it cannot be
                      undone
    at each start     a new epoch begins, above that of quorum-state and that of the log: it is written to quorum-state,
                      then a LeaderChange record is appended as the first record of the epoch

With kraft.version 1 the records of kraft.version and of the voters follow the LeaderChange if the log does not have
them yet; a directory that was formatted with --standalone has them in its first snapshot. Source: QuorumState,
LeaderState, KRaftControlRecordStateMachine.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from formats.batch_writer import Pair
from formats.control_record import ControlType
from formats.file_name import FileKind
from formats.quorum_state import QuorumState, build
from kcli.broker.metadata.quorum_state import read_quorum_state
from kcli.errors import KcliError
from kcli.log.disk import Disk
from kcli.metadata_log.quorum_records import NOT_IN_LOG, QuorumRecords
from kcli.metadata_log.records import encode_control
from kcli.raft.controls import kraft_version, kraft_voters
from kcli.raft.election import next_epoch
from kcli.raft.voters import SUPPORTED_KRAFT_VERSIONS, Endpoints, ReplicaKey, VoterNode, VoterSet

_NO_ID: Final = -1
_NO_DIRECTORY: Final = "A" * 22

logger = logging.getLogger("kcli.broker")


class NotTheOnlyVoter(KcliError):
    """The voters in the log are not exactly this node with this directory, so that it may not lead alone."""


@dataclass
class Quorum(QuorumRecords):
    """The state of the quorum according to the control records of the log. endpoints: this node's endpoints as a voter
    with kraft.version 1."""

    node_id: int
    directory_id: str
    endpoints: Endpoints = ()
    epoch: int = 0

    @property
    def directory(self) -> str | None:
        """The voter's directory id; None with kraft.version 0, where voters are known only by their node ids."""
        return self.directory_id if self.kraft_version else None

    def begin_epoch(self, disk: Disk, directory: Path, last_epoch: int, offset: int) -> list[Pair]:
        """Become the leader of a new epoch, durably. last_epoch: the epoch of the log's last record. offset: the log
        end offset.

        Returns the control records with which the epoch begins. Raises NotTheOnlyVoter, NoEpochLeft, StartRefused,
        UnreadableInput, OSError.
        """
        self._check_alone()
        path = directory / FileKind.QUORUM_STATE
        found = read_quorum_state(path)
        known = None if found is None else found.leader_epoch
        if known is not None and known < last_epoch:
            logger.warning("%s has epoch %d, the log has %d", path, known, last_epoch)
        self.epoch = next_epoch(max(known or 0, last_epoch))
        disk.write_file(path, build(self._state()))
        node = [{"voterId": self.node_id}]
        change = {"leaderId": self.node_id, "voters": node, "grantingVoters": node}
        begin = [encode_control(ControlType.LEADER_CHANGE, change)]
        if self.kraft_version and self.voters_offset == NOT_IN_LOG:
            self.voters_offset = offset
            begin += self.controls()
        return begin

    def upgrade(self) -> list[Pair]:
        """Return the control records that raise kraft.version to 1. Call `follow` with them after their commit."""
        least, most = SUPPORTED_KRAFT_VERSIONS
        own = VoterNode(ReplicaKey(self.node_id, self.directory_id), self.endpoints, least, most)
        return [kraft_version(most), kraft_voters(VoterSet.of([own]))]

    def _check_alone(self) -> None:
        if not self.kraft_version:
            return
        if [(voter["voterId"], voter["voterDirectoryId"]) for voter in self.voters] != [
            (self.node_id, self.directory_id)
        ]:
            found = ", ".join(f"{voter['voterId']}@{voter['voterDirectoryId']}" for voter in self.voters) or "none"
            reason = f"the metadata log's voters are {found}, not only {self.node_id}@{self.directory_id}"
            raise NotTheOnlyVoter(f"{reason}: this node cannot lead it alone")

    def _state(self) -> QuorumState:
        if self.kraft_version:
            return QuorumState(1, self.node_id, self.epoch, _NO_ID, _NO_DIRECTORY)
        return QuorumState(
            0, self.node_id, self.epoch, _NO_ID, cluster_id="", applied_offset=0, current_voters=(self.node_id,)
        )
