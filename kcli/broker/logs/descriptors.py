"""File descriptors: what a broker's files need is held back from connections.

    limit       the system's, all of it: the soft limit becomes the hard one, as a JVM has it
    held back   some for upkeep (checkpoints, snapshots, segments that are rolled), and those of logs that are not in
                use yet: a log, its offset and its time index. Connections always have half of the limit
    shortage    EMFILE, ENFILE: nothing is wrong with a disk, and what met it may be tried again

The system gives the lowest descriptor that is free: as many as its number says are in use.
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
    """Use all that the system allows this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError) as error:
            log.warning("the limit of open files stays at %d: %s", soft, error)


def limit() -> int | None:
    """How many descriptors this process may have; None: any number."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft == resource.RLIM_INFINITY else soft


def in_use() -> int:
    """How many it has; 0 where the system does not tell."""
    try:
        return sum(1 for _ in OPEN.iterdir())
    except FileNotFoundError:
        return 0
    except OSError as error:
        if is_shortage(error):
            return limit() or 0
        raise


def share_in_use() -> float:
    """Which part of the limit is in use; 0 where the system does not tell."""
    most = limit()
    return 0.0 if most is None else in_use() / most


def for_upkeep(most: int) -> int:
    """How many of so many descriptors are held back for what comes and goes."""
    return min(UPKEEP_MAX, most // 8)


def may_connect(descriptor: int, files_to_come: Callable[[], int]) -> bool:
    """May a connection have this descriptor, the last that the system gave? files_to_come: those of logs that are not
    in use yet."""
    most = limit()
    return most is None or descriptor < most // 2 or descriptor < most - for_upkeep(most) - files_to_come()


def is_shortage(error: BaseException | None) -> bool:
    """Is it, or what it comes of, that there are no descriptors?"""
    while error is not None:
        if isinstance(error, OSError) and error.errno in SHORTAGES:
            return True
        error = error.__cause__
    return False
