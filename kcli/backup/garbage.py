"""Objects of a backup that no manifest names: their run was killed, or its manifest was removed.

Only names that a run gives to objects are looked at: the store may lie around a tier, a backup of another node or
somebody's files, of which no manifest knows anything either.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from kcli.backup import runs
from kcli.backup.manifest import DIRECTORY, Manifest, time_of
from kcli.errors import UnreadableInput
from kcli.tier.store import Store, StoredObject

_OBJECT = re.compile(
    r"files/[0-9a-f]{32}\.checkpoint"
    r"|[^/]+-\d+-[\w-]{22}/\d{20}-(\d{10,}-[0-9a-f]{32}\.log|(\d{10,}-)?[0-9a-f]{32}\.(txnindex|snapshot|checkpoint))",
    re.ASCII,
)
"""A name that a run gives to an object: see kcli.backup.backup and kcli.backup.manifest."""
_PARTIAL = re.compile(r"(?P<home>(.*/)?)\.(?P<name>[^/]+)\.part")
"""The name of a file that a killed run has left in a directory: see kcli.tier.local."""


class Unnamed(NamedTuple):
    """The objects of a store that no manifest names. orphans: those of runs; the objects of a run that is still in
    progress are among them. others: those that no run has written."""

    orphans: list[StoredObject]
    others: list[StoredObject]


def orphans(store: Store) -> Unnamed:
    """Return the objects that no manifest names.

    Raises UnreadableInput: for a manifest that cannot be read, as it may name any object; and if the store has neither
    a manifest nor an object of a run.
    """
    manifests = []
    for run, manifest in runs.read_each(store, runs.runs(store)):
        if isinstance(manifest, UnreadableInput):
            raise manifest
        manifests.append((run, manifest))
    found = unnamed(store, manifests)
    if not manifests and not found.orphans:
        raise runs.no_runs(store)
    return found


def unnamed(store: Store, manifests: Iterable[tuple[runs.Run, Manifest]]) -> Unnamed:
    """Return the objects that none of `manifests`, which are all of the store's, names. Raises UnreadableInput."""
    named: set[str] = set()
    for run, manifest in manifests:
        named |= {run.name, *(each.name for each in manifest.pieces)}
    found = Unnamed([], [])
    for each in store.list_objects():
        if each.name not in named:
            (found.orphans if _is_of_run(each.name) else found.others).append(each)
    return found


def _is_of_run(name: str) -> bool:
    partial = _PARTIAL.fullmatch(name)
    if partial is not None:
        name = f"{partial['home']}{partial['name']}"
    return _OBJECT.fullmatch(name) is not None or (name.startswith(f"{DIRECTORY}/") and time_of(name) is not None)
