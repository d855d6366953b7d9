"""kraft.version and, at level 1, the voters (KIP-853), from the control records of the metadata log.

Source: KRaftControlRecordStateMachine.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from formats.batch_writer import Pair
from formats.control_record import ControlRecord, ControlType
from kcli.metadata_log.records import encode_control

NOT_IN_LOG: Final = -1


@dataclass
class QuorumRecords:
    """kraft.version and the voters after the control records that were replayed. voters_offset: the offset of the last
    VotersRecord, -1 if the log has none."""

    kraft_version: int = field(default=0, init=False)
    voters: list[dict[str, Any]] = field(default_factory=list, init=False)
    voters_offset: int = field(default=NOT_IN_LOG, init=False)

    def follow(self, controls: Iterable[ControlRecord], offset: int) -> None:
        """Replay the control records of a batch. offset: the voters_offset to set if one of them is a VotersRecord: the
        base offset of the batch; for a batch in a snapshot, the end offset in the snapshot's file name less 1."""
        for control in controls:
            if control.type is ControlType.KRAFT_VERSION:
                self.kraft_version = control.value["kRaftVersion"]
            elif control.type is ControlType.KRAFT_VOTERS:
                self.voters, self.voters_offset = control.value["voters"], offset

    def controls(self) -> list[Pair]:
        """The control records of kraft.version and voters, for a snapshot's header or the log; none if kraft.version
        is 0."""
        if not self.kraft_version:
            return []
        version = encode_control(ControlType.KRAFT_VERSION, {"kRaftVersion": self.kraft_version})
        return (
            [version, encode_control(ControlType.KRAFT_VOTERS, {"voters": self.voters})] if self.voters else [version]
        )
