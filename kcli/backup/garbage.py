"""Objects that no run of a store names: a run was killed, or its manifest was removed."""

from __future__ import annotations

from collections.abc import Iterator

from kcli.backup import runs
from kcli.tier.store import Store, StoredObject


def orphans(store: Store) -> Iterator[StoredObject]:
    """Yield the objects that no manifest names. Those of a run that has not ended are among them.

    Raises UnreadableInput, also for a manifest that cannot be read: it may name any object.
    """
    found = runs.runs(store)
    named = {each.name for each in found}
    for run in found:
        named |= {each.name for each in runs.read(store, run).pieces}
    yield from (each for each in store.list_objects() if each.name not in named)
