"""The warnings of Spark's Python processes, told by the command that has started Spark.

Spark writes what its processes print to its own log, where nobody looks for data that was lost or passed over. So a
process that finds KCLI_WARNINGS in its environment appends each warning of kcli to that file, as a line; the command
reads the file while Spark runs. Processes on other machines have no such directory: their warnings stay in their logs.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread
from typing import Final

VARIABLE: Final = "KCLI_WARNINGS"
POLL_S: Final = 0.5


class _OneLine(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(record.getMessage().split("\n"))


def keep() -> None:
    """Append kcli's warnings in this process to the file that the environment names, if it names one."""
    path = os.environ.get(VARIABLE)
    if path is None or not Path(path).parent.is_dir():
        return
    handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace", delay=True)
    handler.setFormatter(_OneLine())
    logging.getLogger("kcli").addHandler(handler)


@contextmanager
def told(path: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """A context in which `tell` is called, in another thread, with each line that is appended to a file."""
    stop = Event()

    def watch() -> None:
        rest, at = b"", 0
        while True:
            is_last = stop.wait(POLL_S)
            with suppress(FileNotFoundError), path.open("rb") as file:
                file.seek(at)
                data = file.read()
                at += len(data)
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    tell(line.decode(errors="replace"))
            if is_last:
                return

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
