"""The command line. Each command has a module, which parses options, makes one call and shows the result.

`main` turns errors into exit statuses:

0  fine    1  findings, or a failure    2  usage, or input that cannot be read    130  interrupted
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
# A Ctrl-C during an import before leave_at_once() would print a traceback: so `typing` is imported for mypy alone.
if TYPE_CHECKING:
    from typing import NoReturn

BYTES_SHOWN = 60


def main() -> NoReturn:
    """Run `kcli` with the process's arguments, and exit."""
    try:
        status = _run()
    except KeyboardInterrupt:
        status = 130
    _leave(status)


def _run() -> int:
    from kcli.cli.interrupts import leave_at_once

    leave_at_once()
    from kcli.cli.output import note, take_streams
    from kcli.errors import KcliError, error_text

    take_streams()
    from kcli.cli.app import app

    try:
        app(prog_name="kcli")
    except KcliError as error:
        if str(error):
            note(f"kcli: {error}")
        return error.exit_status
    except OSError as error:
        note(f"kcli: {error_text(error)}")
        return 1
    except UnicodeDecodeError as error:  # confluent-kafka decodes the names in a broker's answer
        note(f"kcli: a name or a text is not UTF-8: {error.object[:BYTES_SHOWN]!r}")
        return 1
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    return 0


def _leave(status: int) -> NoReturn:
    """Flush stdout and stderr, and exit without waiting for threads or running clean-up."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            continue
    os._exit(status)
