"""Checks whether a store still has the objects that its runs have written.

An object that several runs name is read once. Objects that no run names are not reported: see kcli.backup.garbage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from kcli.backup import runs
from kcli.backup.manifest import Manifest, Piece
from kcli.backup.pieces import read_piece
from kcli.errors import UnreadableInput
from kcli.tier.store import Store

Advance = Callable[[int], None]


class Damaged(NamedTuple):
    """An object that is missing or does not have the bytes that were written. url: that of the object. runs: the
    manifests of the runs that cannot be restored without it."""

    url: str
    reason: str
    runs: tuple[str, ...]


class Sound(NamedTuple):
    """The runs of a store whose manifests can be read, the oldest first; and the damaged manifests of the other
    runs."""

    manifests: list[tuple[runs.Run, Manifest]]
    damaged: list[Damaged]


def sound_runs(store: Store) -> Sound:
    """Read all manifests of a store. Raises UnreadableInput if they cannot be listed."""
    found = Sound([], [])
    for run, manifest in runs.read_each(store, runs.runs(store)):
        if isinstance(manifest, UnreadableInput):
            found.damaged.append(Damaged(manifest.path, manifest.reason, (run.name,)))
        else:
            found.manifests.append((run, manifest))
    return found


def check(store: Store, sound: Sound, advance: Advance = lambda _: None) -> Iterator[Damaged]:
    """Read every object of the runs in `sound`. Yield the damaged manifests, then the objects that are missing or do
    not have the bytes that were written. advance: called with the number of bytes that were read."""
    yield from sound.damaged
    needed: dict[Piece, list[str]] = {}
    for run, manifest in sound.manifests:
        for piece in manifest.pieces:
            needed.setdefault(piece, []).append(run.name)
    for piece, names in sorted(needed.items()):
        try:
            for chunk in read_piece(store, piece):
                advance(len(chunk))
        except UnreadableInput as error:
            yield Damaged(error.path, error.reason, tuple(dict.fromkeys(names)))
