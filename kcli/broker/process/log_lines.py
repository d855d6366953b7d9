"""Log lines on stderr: as text, or as one JSON object a line."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

from kcli.printable import printable


class TextLines(logging.Formatter):
    """Formats a log record as a line of text: time, level and message, with hidden characters escaped; the traceback of
    an error follows."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s.%(msecs)03d %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 (logging's name)
        return printable(super().formatMessage(record))

    def formatException(self, ei: Any) -> str:  # noqa: N802 (logging's name)
        return "\n".join(map(printable, super().formatException(ei).split("\n")))


class JsonLines(logging.Formatter):
    """Formats a log record as one JSON object a line: time (UTC), level, logger, message, the items of the dict
    `members` that a caller may have added to the record, and the traceback of an error."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "members", {}),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up_logging(*, json_lines: bool, verbose: bool) -> None:
    """Log to stderr. json_lines: as JSON instead of text. verbose: log debug messages too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if json_lines else TextLines())
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if verbose else logging.INFO)
