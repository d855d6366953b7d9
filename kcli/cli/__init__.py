"""The command line. One file per command: parse, one call, show. Here errors become exit statuses.

0  fine    1  findings, or a failure    2  usage, or input that cannot be read
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import NoReturn


def main() -> NoReturn:
    """Run `kcli` with the process's arguments, and exit."""
    from kcli.cli.output import note, take_streams
    from kcli.errors import KcliError, error_text

    take_streams()
    from kcli.cli.app import app

    status: int = 0
    try:
        app(prog_name="kcli")
    except KcliError as error:
        if str(error):
            note(f"kcli: {error}")
        status = error.exit_status
    except OSError as error:
        note(f"kcli: {error_text(error)}")
        status = 1
    except KeyboardInterrupt:
        status = 130
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    _leave(status)


def _leave(status: int) -> NoReturn:
    """Exit at once: nothing is worth waiting for."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()
    os._exit(status)
