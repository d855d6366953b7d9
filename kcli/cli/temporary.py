"""A temporary directory that is removed however the command ends, but for SIGKILL."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NoReturn

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class Temporary:
    """A temporary directory, which `temporary_directory` removes at the end of its block."""

    path: Path
    _directory: TemporaryDirectory[str]

    def leave(self, status: int) -> NoReturn:
        """Remove the directory, and end the process at once with an exit status, without any other cleanup."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        self._directory.cleanup()
        os._exit(status)


@contextmanager
def temporary_directory() -> Iterator[Temporary]:
    """Yield a new directory, which is removed at the end.

    Until the command installs handlers of its own, SIGTERM and SIGINT remove the directory and end the process on the
    spot. Without a handler SIGTERM would leave the directory, which may have secrets; a handler that raised an
    exception would not do, as an import that is under way may swallow the exception.
    """
    made = TemporaryDirectory(prefix="kcli-")
    temporary = Temporary(Path(made.name), made)
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda number, _: temporary.leave(128 + number))
    with made:
        yield temporary


@contextmanager
def spool_for(store: str) -> Iterator[Path | None]:
    """Yield a temporary directory for copies of the store's objects; it is removed at the end, also if a signal other
    than SIGKILL ends the process. Yield None if the objects need not be copied. store: the path or the URL of the
    store."""
    from kcli.tier.opening import needs_copies

    if not needs_copies(store):
        yield None
        return
    with temporary_directory() as temporary:
        yield temporary.path
