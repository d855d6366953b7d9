"""The runs that a store has: their manifests, by time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kcli.backup.manifest import DIRECTORY, Manifest, parse, time_of
from kcli.errors import UnreadableInput
from kcli.log.source import whole
from kcli.tier.store import ObjectMissing, Store, StoreFailed

MANIFEST_BYTES_MAX = 1 << 30


class Run(NamedTuple):
    """A run, by its manifest's object. name, size: those of the object. at_ms: the time in its name (epoch ms)."""

    name: str
    at_ms: int
    size: int


def runs(store: Store) -> list[Run]:
    """Return the runs in a store, the oldest first. Raises UnreadableInput."""
    named = ((each, time_of(each.name)) for each in store.list_objects(f"{DIRECTORY}/") if each.odd is None)
    found = [Run(each.name, at_ms, each.size) for each, at_ms in named if at_ms is not None]
    return sorted(found, key=lambda each: (each.at_ms, each.name))


def no_runs(store: Store) -> UnreadableInput:
    """Return the error for a store without a run."""
    return UnreadableInput(store.address, "no manifest of a backup is in it")


def read_each(store: Store, found: Iterable[Run]) -> Iterator[tuple[Run, Manifest | UnreadableInput]]:
    """Yield each run with its manifest, or with the error for one that cannot be read. A run that was removed since it
    was listed is left out. Raises StoreFailed."""
    for run in found:
        try:
            yield run, read(store, run)
        except ObjectMissing:
            continue
        except StoreFailed:
            raise
        except UnreadableInput as error:
            yield run, error


def read(store: Store, run: Run) -> Manifest:
    """Return the manifest of a run. Raises UnreadableInput, ObjectMissing."""
    return parse(run.name, whole(store.open(run.name), MANIFEST_BYTES_MAX, "an object"), f"{store.address}/{run.name}")
