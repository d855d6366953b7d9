"""Ctrl-C while kcli is being loaded ends the process at once. A KeyboardInterrupt during an import would end in a
traceback, or be lost in a callback of the interpreter; before a command runs there is nothing to clean up.
"""

from __future__ import annotations

import os
import signal

INTERRUPTED = 130


def leave_at_once() -> None:
    """Let SIGINT end the process at once, unless the process ignores SIGINT or has set its own handler."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _leave)


def raise_again() -> None:
    """Let SIGINT raise KeyboardInterrupt again, for a command; no change if `leave_at_once` changed nothing."""
    if signal.getsignal(signal.SIGINT) is _leave:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _leave(*_: object) -> None:
    os._exit(INTERRUPTED)
