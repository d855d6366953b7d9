"""Ctrl-C while kcli is being loaded. KeyboardInterrupt in the middle of an import would end in a traceback, or be
lost in a callback of the interpreter; until a command runs there is nothing to clean up.
"""

from __future__ import annotations

import os
import signal

INTERRUPTED = 130


def leave_at_once() -> None:
    """From here on SIGINT ends the process; where it is ignored it stays so."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def raise_again() -> None:
    """A command runs: SIGINT is a KeyboardInterrupt again, if `leave_at_once` has changed that."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(*_: object) -> None:
    os._exit(INTERRUPTED)
