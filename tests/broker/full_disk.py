"""A disk that is full while a file exists, for the paths that match the file's patterns, or from a certain operation
on; and `kcli serve` on it:

    python -m tests.broker.full_disk FILE DATA-DIR [NAME=VALUE ...]
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from kcli.log.disk import Disk, DiskFile


class FullFile(DiskFile):
    """A file that does not become longer."""

    def __init__(self, disk: FullDisk, path: Path, fd: int) -> None:
        super().__init__(path, fd)
        self._disk = disk

    def write(self, buffers: Sequence[bytes | bytearray | memoryview], position: int) -> int:
        self._disk.take(self.path)
        return super().write(buffers, position)


class FullDisk(Disk):
    """A disk that is full while `sign` exists, and from operation number `full_at` on (0: never)."""

    waits = False

    def __init__(self, sign: Path, full_at: int = 0) -> None:
        self._sign, self._full_at = sign, full_at
        self.operations = 0

    def take(self, path: Path) -> None:
        """Something needs room. Raises OSError."""
        self.operations += 1
        if self._is_full(path) or 0 < self._full_at <= self.operations:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    def _is_full(self, path: Path) -> bool:
        try:
            return path.match(self._sign.read_text())
        except FileNotFoundError:
            return False

    def open(self, path: Path, *, create: bool = False, truncate: bool = False, read_only: bool = False) -> FullFile:
        if create and not path.exists():
            self.take(path)
        file = super().open(path, create=create, truncate=truncate, read_only=read_only)
        return FullFile(self, path, file.fd)

    def make_directory(self, path: Path) -> None:
        if not path.exists():
            self.take(path)
        super().make_directory(path)


def main() -> None:
    """Run `kcli serve` on a FullDisk, and exit with its status."""
    from kcli.broker.config.single_node import single_node_config
    from kcli.broker.process.log_lines import set_up_logging
    from kcli.broker.startup.serve import serve
    from kcli.cli.serve import _ready
    from kcli.errors import KcliError, error_text

    sign, data_dir, *options = sys.argv[1:]
    set_up_logging(json_lines=False, verbose=False)
    config = single_node_config(
        Path(data_dir), ("127.0.0.1", 0), None, None, dict(each.split("=", 1) for each in options)
    )
    try:
        serve(config, _ready, disk=FullDisk(Path(sign)))
    except (KcliError, OSError) as error:
        sys.exit(f"kcli: {error_text(error)}")


if __name__ == "__main__":
    main()
