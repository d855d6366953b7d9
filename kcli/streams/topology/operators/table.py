"""The base of all tables: how later operators read a table's values and get its old values.

A table is a `TableOperator`: the supplier of the processor that sends its changes, which also says
    - how to look a key's value up: `view` names the stores, and `getter` reads them for a processor;
    - whether the changes have old values. An operator that needs them asks with `send_old_values`; a table without a
      store passes the question on to the table before it, or gets a store if it is forced to.
A versioned table takes changes out of their order and sends them on, marked as not the latest; operators that need the
last value of each key leave those out (KIP-914). What is made of it without a store of its own is versioned, too.
Source: KTableProcessorSupplier, KTableValueGetterSupplier, TimestampedTupleForwarder, KTableImpl.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kcli.streams.records import Change, Record, ValueAndTimestamp
from kcli.streams.topology.processor import Processor, ProcessorContext
from kcli.streams.topology.stores.versioned import NOT_PUT, VALID_TO_UNDEFINED

Getter = Callable[..., ValueAndTimestamp | None]
"""Returns the value of a key in a table; of a versioned table, the value at the time that is given after the key."""

AnyContext = ProcessorContext[Any, Any]


@dataclass(frozen=True)
class View:
    """How a processor looks up values of a table: the names of the stores that it needs, and the function that makes a
    getter of them."""

    stores: tuple[str, ...]
    getter: Callable[[AnyContext], Getter]


class TableOperator(ABC):
    """The operator of a table. sends_old: whether its changes have old values."""

    sends_old = False

    @abstractmethod
    def __call__(self) -> Processor[Any, Any, Any, Any]:
        """Return a new processor."""

    @abstractmethod
    def view(self) -> View:
        """Return the view by which other operators look up values of the table. A call may give the table a store."""

    def send_old_values(self, *, force: bool) -> bool:  # noqa: ARG002 - an operator without a store decides by it
        """Send old values from now on. force: even if the table has to get a store for this. Return whether old values
        will be sent."""
        self.sends_old = True
        return True

    def change(self, new: Any, old: Any, *, is_latest: bool = True) -> Change:
        """Return a change, without the old value if the table does not send old values."""
        return Change(new, old if self.sends_old else None, is_latest)


def store_view(store: str) -> View:
    """Return the view of a table that is in a timestamped key-value store."""

    def getter(context: AnyContext) -> Getter:
        get: Getter = context.get_state_store(store).get
        return get

    return View((store,), getter)


def value_or_none(found: ValueAndTimestamp | None) -> Any:
    """Return the value that a getter has found, None if there is none."""
    return None if found is None else found.value


def is_versioned(context: AnyContext, view: View) -> bool:
    """Whether the values of a view can be looked up as of a time."""
    return all(context.get_state_store(store).is_versioned for store in view.stores)


def put(store: Any, record: Record[Any, Any], value: Any) -> bool | None:
    """Set the value of the record's key in a table's store, None to delete it. Return whether this is the key's last
    value; None if a versioned store does not take it, as it is too old: then no change is sent."""
    if store.is_versioned:
        valid_to = store.put(record.key, value, record.timestamp)
        return None if valid_to == NOT_PUT else valid_to == VALID_TO_UNDEFINED
    store.put(record.key, None if value is None else ValueAndTimestamp(value, record.timestamp))
    return True
