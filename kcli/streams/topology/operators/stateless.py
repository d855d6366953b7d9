"""Operators on a stream without a store. Each is a function from a record to the records that it forwards.

Source: KStreamFilter, KStreamMap, KStreamFlatMap, KStreamFlatMapValues, KStreamPeek, KStreamBranch, PassThrough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kcli.streams.records import Change, Record
from kcli.streams.topology.processor import Processor, ProcessorSupplier

Forward = Callable[..., None]
Step = Callable[[Record[Any, Any], Forward], None]
AnySupplier = ProcessorSupplier[Any, Any, Any, Any]


class Stateless(Processor[Any, Any, Any, Any]):
    """A processor of one step."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def process(self, record: Record[Any, Any]) -> None:
        self._step(record, self.context.forward)


def stateless(step: Step) -> AnySupplier:
    """Return the supplier of processors of this step."""
    return lambda: Stateless(step)


def pass_through() -> AnySupplier:
    """Forward every record."""
    return stateless(lambda record, forward: forward(record))


def filtered(predicate: Callable[[Any, Any], bool], *, keep: bool) -> AnySupplier:
    """Forward the records for which the predicate is true, or with keep=False the others."""

    def step(record: Record[Any, Any], forward: Forward) -> None:
        if bool(predicate(record.key, record.value)) is keep:
            forward(record)

    return stateless(step)


def mapped(mapper: Callable[[Any, Any], tuple[Any, Any]]) -> AnySupplier:
    """Forward the mapper's key and value for each record."""

    def step(record: Record[Any, Any], forward: Forward) -> None:
        key, value = mapper(record.key, record.value)
        forward(record.with_key(key).with_value(value))

    return stateless(step)


def flat_mapped(mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]) -> AnySupplier:
    """Forward all keys and values of the mapper for each record."""

    def step(record: Record[Any, Any], forward: Forward) -> None:
        for key, value in mapper(record.key, record.value):
            forward(record.with_key(key).with_value(value))

    return stateless(step)


def values_mapped(mapper: Callable[[Any], Any]) -> AnySupplier:
    """Forward each record with the mapper's value."""
    return stateless(lambda record, forward: forward(record.with_value(mapper(record.value))))


def values_flat_mapped(mapper: Callable[[Any], Iterable[Any]]) -> AnySupplier:
    """Forward each record with all of the mapper's values, one after the other."""

    def step(record: Record[Any, Any], forward: Forward) -> None:
        for value in mapper(record.value):
            forward(record.with_value(value))

    return stateless(step)


def peeked(action: Callable[[Any, Any], object], *, is_last: bool = False) -> AnySupplier:
    """Call the action for each record, and forward it unless the action is the last step."""

    def step(record: Record[Any, Any], forward: Forward) -> None:
        action(record.key, record.value)
        if not is_last:
            forward(record)

    return stateless(step)


def branched(predicates: list[Callable[[Any, Any], bool]], children: list[str]) -> AnySupplier:
    """Forward each record to the child of the first predicate that is true; if none is true, to the last child, if
    there is one child more than predicates."""

    def step(record: Record[Any, Any], forward: Forward) -> None:
        chosen = next((i for i, each in enumerate(predicates) if each(record.key, record.value)), len(predicates))
        if chosen < len(children):
            forward(record, children[chosen])

    return stateless(step)


def new_values() -> AnySupplier:
    """Forward the new values of a table's changes: the table as a stream."""

    def step(record: Record[Any, Change], forward: Forward) -> None:
        forward(record.with_value(record.value.new))

    return stateless(step)
