"""File descriptors. The number of connections is limited so that enough descriptors remain for the broker's files.

    limit       the soft limit of the process, raised to its hard limit, as a JVM does
    reserved    descriptors that connections may not use: up to UPKEEP_MAX for background work (checkpoints, snapshots,
                segments that are rolled), and those of log files that are not open yet (a segment's log, offset index
                and time index). Half of the limit is always for connections
    shortage    EMFILE and ENFILE are no failures of a disk; the failed operation may be tried again

The system gives a new file the lowest free descriptor, so that the number of the descriptor is about the number of
descriptors in use.
"""

from __future__ import annotations

import errno
import logging
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Final

log = logging.getLogger("kcli.broker")

OPEN: Final = Path("/dev/fd")
FILES_OF_A_LOG: Final = 3
UPKEEP_MAX: Final = 64
SHORTAGES: Final = (errno.EMFILE, errno.ENFILE)


def raise_limit() -> None:
    """Raise the soft limit of open files to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError) as error:
            log.warning("the limit of open files stays at %d: %s", soft, error)


def limit() -> int | None:
    """The greatest number of descriptors of this process; None for no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def in_use() -> int:
    """Return the number of descriptors in use: 0 if the system has no /dev/fd; the limit if no descriptor is left with
    which to read /dev/fd. Raises OSError."""
    try:
        return sum(1 for _ in OPEN.iterdir())
    except FileNotFoundError:
        return 0
    except OSError as error:
        if is_shortage(error):
            return limit() or 0
        raise


def share_in_use() -> float:
    """Return the share of the limit of file descriptors that is in use, from 0 to 1; 0 if there is no limit, or no
    /dev/fd. Raises OSError."""
    most = limit()
    return 0.0 if most is None else in_use() / most


def for_upkeep(most: int) -> int:
    """Return the number of descriptors reserved for background work: an eighth of the limit, but at most UPKEEP_MAX.
    most: the limit of descriptors."""
    return min(UPKEEP_MAX, most // 8)


def may_connect(descriptor: int, files_to_come: Callable[[], int]) -> bool:
    """Whether a connection may keep the descriptor that the system has just given it. files_to_come: returns the number
    of descriptors that the log files which are not open yet will need."""
    most = limit()
    return most is None or descriptor < most // 2 or descriptor < most - for_upkeep(most) - files_to_come()


def is_shortage(error: BaseException | None) -> bool:
    """Whether the error, or one of its causes, is a shortage of file descriptors."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in SHORTAGES:
            return True
        error = error.__cause__
    return False
