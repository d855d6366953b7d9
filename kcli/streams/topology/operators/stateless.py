"""Operators on a stream without a store. Each is a function that forwards records for a record.

Source: KStreamFilter, KStreamMap, KStreamFlatMap, KStreamFlatMapValues, KStreamPeek, KStreamBranch, PassThrough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kcli.streams.records import Change, Record
from kcli.streams.topology.processor import Processor, ProcessorContext, ProcessorSupplier

Forward = Callable[..., None]
Step = Callable[[Forward, Record[Any, Any]], None]
AnySupplier = ProcessorSupplier[Any, Any, Any, Any]


class Stateless(Processor[Any, Any, Any, Any]):
    """A processor of one step, which is called without a call of Python between."""

    def __init__(self, step: Step) -> None:
        self._step = step

    def init(self, context: ProcessorContext[Any, Any]) -> None:
        super().init(context)
        self.process = partial(self._step, context.forward)  # type: ignore[method-assign]

    def process(self, record: Record[Any, Any]) -> None:
        self._step(self.context.forward, record)


def stateless(step: Step) -> AnySupplier:
    """Return the supplier of processors of this step."""
    return lambda: Stateless(step)


def pass_through() -> AnySupplier:
    """Forward every record."""
    return stateless(lambda forward, record: forward(record))


def filtered(predicate: Callable[[Any, Any], bool], *, keep: bool) -> AnySupplier:
    """Forward the records for which the predicate is true, or with keep=False the others."""

    def step(forward: Forward, record: Record[Any, Any]) -> None:
        if bool(predicate(record.key, record.value)) is keep:
            forward(record)

    return stateless(step)


def mapped(mapper: Callable[[Any, Any], tuple[Any, Any]]) -> AnySupplier:
    """Forward the mapper's key and value for each record."""

    def step(forward: Forward, record: Record[Any, Any]) -> None:
        key, value = mapper(record.key, record.value)
        forward(record.with_key(key).with_value(value))

    return stateless(step)


def flat_mapped(mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]) -> AnySupplier:
    """Forward all keys and values of the mapper for each record."""

    def step(forward: Forward, record: Record[Any, Any]) -> None:
        for key, value in mapper(record.key, record.value):
            forward(record.with_key(key).with_value(value))

    return stateless(step)


def values_mapped(mapper: Callable[[Any], Any]) -> AnySupplier:
    """Forward each record with the mapper's value."""
    return stateless(lambda forward, record: forward(record.with_value(mapper(record.value))))


def values_flat_mapped(mapper: Callable[[Any], Iterable[Any]]) -> AnySupplier:
    """Forward each record with all of the mapper's values, one after the other."""

    def step(forward: Forward, record: Record[Any, Any]) -> None:
        for value in mapper(record.value):
            forward(record.with_value(value))

    return stateless(step)


def peeked(action: Callable[[Any, Any], object], *, is_last: bool = False) -> AnySupplier:
    """Call the action for each record, and forward it unless the action is the last step."""

    def step(forward: Forward, record: Record[Any, Any]) -> None:
        action(record.key, record.value)
        if not is_last:
            forward(record)

    return stateless(step)


def branched(predicates: list[Callable[[Any, Any], bool]], children: list[str]) -> AnySupplier:
    """Forward each record to the child of the first predicate that is true; if none is true, to the last child, if
    there is one child more than predicates."""

    def step(forward: Forward, record: Record[Any, Any]) -> None:
        chosen = next((i for i, each in enumerate(predicates) if each(record.key, record.value)), len(predicates))
        if chosen < len(children):
            forward(record, children[chosen])

    return stateless(step)


def new_values() -> AnySupplier:
    """Forward the new values of a table's changes: the table as a stream."""

    def step(forward: Forward, record: Record[Any, Change]) -> None:
        forward(record.with_value(record.value.new))

    return stateless(step)
