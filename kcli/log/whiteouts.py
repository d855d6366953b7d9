"""Whiteouts: an overlay file system keeps one in its upper layer for each file of a lower layer that was removed.

    a character device 0/0    overlayfs, which Docker uses; the device cannot be opened
    .wh.NAME                  fuse-overlayfs, and a layer of an image as a tar (OCI); an empty file

Who copies only the upper layer gets the whiteouts, and lacks each file that had not changed since the image was made.
Source: the kernel's documentation of overlayfs; the image format of OCI, section Whiteouts.
"""

from __future__ import annotations

import stat
from pathlib import Path

from kcli.log.log_directory import LogDirectory

PREFIX = ".wh."
WHITEOUT = "a whiteout of an overlay, for a file that was removed"
"""What a whiteout is, in words."""


def is_whiteout(path: Path) -> bool:
    """Whether the path is a whiteout."""
    try:
        status = path.lstat()
    except OSError:
        return False
    is_device = stat.S_ISCHR(status.st_mode) and not status.st_rdev
    return is_device or (path.name.startswith(PREFIX) and stat.S_ISREG(status.st_mode) and not status.st_size)


def whiteouts_in(home: Path) -> list[Path]:
    """Return the whiteouts in a log directory and in its partitions' directories. Raises UnreadableInput, OSError."""
    directories = [home, *(each.path for each in LogDirectory(home).partitions())]
    return sorted(path for each in directories for path in each.iterdir() if is_whiteout(path))
