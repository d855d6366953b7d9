"""The command line. One file per command: parse, one call, show. Here errors become exit statuses.

0  fine    1  findings, or a failure    2  usage, or input that cannot be read
"""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run `kcli` with the process's arguments, and exit."""
    from kcli.cli.app import app
    from kcli.errors import KcliError

    status: int = 0
    try:
        app(prog_name="kcli")
    except KcliError as error:
        if str(error):
            print(f"kcli: {error}", file=sys.stderr)
        status = error.exit_status
    except KeyboardInterrupt:
        status = 130
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    _leave(status)


def _leave(status: int) -> NoReturn:
    """Exit at once: nothing is worth waiting for, and a closed pipe must not be complained about."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 0
    os._exit(status)
