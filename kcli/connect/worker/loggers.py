"""Levels of loggers that the REST API sets: KIP-495, KIP-976. The level of a name holds for all names below it."""

from __future__ import annotations

import logging
from typing import Any, Final, NamedTuple

LEVELS: Final = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": logging.DEBUG - 5,
    "ALL": logging.NOTSET + 1,
}
"""Kafka's levels, as Python's."""
ROOT: Final = "root"


class Level(NamedTuple):
    """A logger's level. set_ms: when it was set, in ms since 1970; None at the worker's start."""

    level: str
    set_ms: int | None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the REST API."""
        return {"level": self.level, "last_modified": self.set_ms}


class Loggers:
    """The levels of a worker's loggers."""

    def __init__(self) -> None:
        self._levels = {ROOT: Level("INFO", None)}

    def all(self) -> dict[str, Level]:
        """Return the levels that are set, by the loggers' names."""
        return dict(sorted(self._levels.items()))

    def level(self, name: str) -> Level | None:
        """Return the level that holds for a logger; None for one that nobody has named."""
        if name in self._levels:
            return self._levels[name]
        if name not in logging.Logger.manager.loggerDict:
            return None
        parent = name
        while parent := parent.rpartition(".")[0]:
            if parent in self._levels:
                return Level(self._levels[parent].level, None)
        return Level(self._levels[ROOT].level, None)

    def set(self, name: str, level: str, now_ms: int) -> list[str]:
        """Set the level of a logger and of those below it, and return their names. level: one of LEVELS."""
        below = [each for each in self._levels if name == ROOT or each.startswith(f"{name}.")]
        names = sorted({name, *below})
        for each in names:
            self._levels[each] = Level(level, now_ms)
            logging.getLogger(None if each == ROOT else each).setLevel(LEVELS[level])
        return names
