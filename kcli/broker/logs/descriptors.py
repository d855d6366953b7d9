"""File descriptors: a broker with thousands of partitions needs more than a shell's usual limit."""

from __future__ import annotations

import logging
import resource
from pathlib import Path

log = logging.getLogger("kcli.broker")

OPEN = Path("/dev/fd")


def raise_limit() -> None:
    """Use all that the system allows this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError) as error:
            log.warning("the limit of open files stays at %d: %s", soft, error)


def share_in_use() -> float:
    """Which part of the limit is in use; 0 where the system does not tell."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or not OPEN.exists():
        return 0.0
    return sum(1 for _ in OPEN.iterdir()) / limit
