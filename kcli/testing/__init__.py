"""Kafka for tests: a pytest plugin around the broker of `kcli serve`, and the `Kafka` object that it passes to a test.

The names of `__all__` are imported at their first use, since pytest imports this package in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kcli.testing.faults import Fault as Fault
    from kcli.testing.kafka import Kafka as Kafka
    from kcli.testing.records import Record as Record
    from kcli.testing.requests import Request as Request

__all__ = ["Fault", "Kafka", "Record", "Request"]
_HOMES = {"Fault": "faults", "Kafka": "kafka", "Record": "records", "Request": "requests"}


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` at its first use. Raises AttributeError for any other name."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
