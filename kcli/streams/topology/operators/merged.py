"""The table of several aggregates that share a store: their changes, one after the other.

Source: KTablePassThrough.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kcli.streams.topology.operators.stateless import pass_through
from kcli.streams.topology.operators.table import TableOperator, View
from kcli.streams.topology.processor import Processor


class MergedTable(TableOperator):
    """The table of the changes of `parts`, which have one store."""

    def __init__(self, parts: Sequence[TableOperator]) -> None:
        self._parts = parts
        self._supplier = pass_through()

    def __call__(self) -> Processor[Any, Any, Any, Any]:
        return self._supplier()

    def view(self) -> View:
        return self._parts[0].view()

    def send_old_values(self, *, force: bool) -> bool:
        for part in self._parts:
            part.send_old_values(force=force)
        return super().send_old_values(force=force)
