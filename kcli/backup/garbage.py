"""Objects that no manifest in a store names: their run was killed, or its manifest was removed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kcli.backup import runs
from kcli.backup.manifest import Manifest
from kcli.errors import UnreadableInput
from kcli.tier.store import Store, StoredObject


def orphans(store: Store) -> Iterator[StoredObject]:
    """Yield the objects that no manifest names. The objects of a run that is still in progress are among them.

    Raises UnreadableInput, also for a manifest that cannot be read: it may name any object.
    """
    manifests = []
    for run, manifest in runs.read_each(store, runs.runs(store)):
        if isinstance(manifest, UnreadableInput):
            raise manifest
        manifests.append((run, manifest))
    yield from unnamed(store, manifests)


def unnamed(store: Store, manifests: Iterable[tuple[runs.Run, Manifest]]) -> Iterator[StoredObject]:
    """Yield the objects of a store that none of `manifests`, all the manifests in it, names. Raises UnreadableInput."""
    named: set[str] = set()
    for run, manifest in manifests:
        named |= {run.name, *(each.name for each in manifest.pieces)}
    yield from (each for each in store.list_objects() if each.name not in named)
