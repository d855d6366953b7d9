"""Reads quorum-state when a node starts. If the node must not start with this file, the error has the reason and the
next step.

    unreadable         damaged, or of an unknown version: an error
    the last epoch     no higher epoch exists for an election (see kcli.raft.election), while Kafka wraps around to
                       -2^31: an error
    a negative epoch   written by a Kafka that has wrapped around: the node starts, with the epoch of its log

The only state of the file that the log does not have is a vote. The file may be removed while no controller runs: each
controller then begins with the epoch of its log, and a lost vote no longer counts in any election.
"""

from __future__ import annotations

from pathlib import Path

from formats.errors import FormatError
from formats.quorum_state import QuorumState, parse
from kcli.errors import StartRefused
from kcli.log.source import read_whole
from kcli.raft.election import EPOCH_MAX


def read_quorum_state(path: Path) -> QuorumState | None:
    """Return the contents of the file, None if it does not exist. Raises StartRefused, UnreadableInput."""
    if not path.exists():
        return None
    try:
        found = parse(read_whole(path))
    except FormatError as error:
        raise StartRefused(str(path), f"{error.reason}. {_next(path)}", error.position) from None
    if found.leader_epoch >= EPOCH_MAX:
        reason = f"leader epoch {found.leader_epoch:,} is the largest there is, no election can follow it"
        raise StartRefused(str(path), f"{reason}. {_next(path)}")
    return found


def _next(path: Path) -> str:
    return f"Next: stop every controller, remove {path} on each that says this, and start them again"
