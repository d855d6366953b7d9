"""quorum-state at a start: what it says, or why this node does not start with it and what to do then.

    not to be read     damaged, or of an unknown version
    the last epoch     there is none above it to be elected in (see kcli.raft.election); Kafka wraps around to -2^31
    a negative epoch   what Kafka leaves then: the epoch of the log counts, as after any epoch below it

What the file keeps beyond the log is a vote. It may be removed while no controller runs: then each goes on from the
epoch of its log, and no vote that was forgotten can count any more.
"""

from __future__ import annotations

from pathlib import Path

from formats.errors import FormatError
from formats.quorum_state import QuorumState, parse
from kcli.log.recovery_view import StartRefused
from kcli.log.source import read_whole
from kcli.raft.election import EPOCH_MAX


def read_quorum_state(path: Path) -> QuorumState | None:
    """What the file says; None where there is none. Raises StartRefused, UnreadableInput."""
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
