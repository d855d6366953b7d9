"""Loggers and their levels, for DescribeConfigs and IncrementalAlterConfigs of the broker-logger resource.

The names are those of Python's loggers, and `root` for the root logger; the levels are Kafka's. Source:
LoggingController, LogLevelConfig; KIP-412.
"""

from __future__ import annotations

import logging
from typing import Final

BROKER_LOGGER_RESOURCE: Final = 8
ROOT: Final = "root"
LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": logging.DEBUG // 2,
    "WARN": logging.WARNING,
}


def loggers() -> dict[str, str]:
    """Return logger -> its level, which is set or inherited."""
    named = (each for each in logging.root.manager.loggerDict.values() if isinstance(each, logging.Logger))
    return {ROOT: _level(logging.root), **{each.name: _level(each) for each in named}}


def exists(name: str) -> bool:
    """Whether there is a logger of that name."""
    return name == ROOT or isinstance(logging.root.manager.loggerDict.get(name), logging.Logger)


def set_level(name: str, level: str | None) -> None:
    """Set a logger's level; None to let it inherit its level."""
    logger = logging.root if name == ROOT else logging.getLogger(name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level])


def _level(logger: logging.Logger) -> str:
    effective = logger.getEffectiveLevel()
    known = {number: name for name, number in LEVELS.items()}
    return known[max((number for number in known if number <= effective), default=min(known))]
