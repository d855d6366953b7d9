"""The objects that a run adds to a store: each is written once, and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kcli.backup.manifest import Manifest, Piece
from kcli.tier.store import ObjectMissing, ObjectPart, Store


class Uploads:
    """The objects that a run adds to a store. copied, objects: the bytes and the number of the new objects."""

    def __init__(self, store: Store, previous: Manifest | None, wrote: Callable[[int], None] = lambda _: None) -> None:
        """previous: the previous run, whose objects are not written again if the store still has them. wrote: called
        with the size of each new object. Raises UnreadableInput."""
        self.copied = self.objects = 0
        self._store, self._wrote = store, wrote
        self._stored = set() if previous is None else _still_there(store, previous)

    def are_known(self, pieces: Iterable[Piece]) -> bool:
        """Whether the store had all these objects when the run began, or has them because this run wrote them."""
        return all(each.name in self._stored for each in pieces)

    def put(self, piece: Piece, data: Iterable[ObjectPart]) -> None:
        """Write an object, unless the store has it. Raises UnreadableInput, OSError, and what `data` raises."""
        if self._has(piece):
            return
        self._store.write(piece.name, data)
        self._stored.add(piece.name)
        self.copied += piece.size
        self.objects += 1
        self._wrote(piece.size)

    def _has(self, piece: Piece) -> bool:
        if piece.name in self._stored:
            return True
        try:
            return self._store.size(piece.name) == piece.size
        except ObjectMissing:
            return False


def _still_there(store: Store, previous: Manifest) -> set[str]:
    """Return the names of the previous run's objects that the store still has, in their right sizes. The other objects,
    which were deleted or cut, are copied again. Raises UnreadableInput."""
    sizes = {each.name: each.size for each in store.list_objects() if each.odd is None}
    return {each.name for each in previous.pieces if sizes.get(each.name) == each.size}
