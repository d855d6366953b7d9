"""Reads the objects of a backup run, and compares their sizes and digests with those in the run's manifest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from kcli.backup.manifest import Piece
from kcli.errors import UnreadableInput
from kcli.tier.store import ObjectMissing, Store

CHUNK_BYTES = 4 << 20


def read_piece(store: Store, piece: Piece) -> Iterator[memoryview]:
    """Yield an object's bytes; each chunk is valid until the next one. Raises UnreadableInput if the object is missing,
    cannot be read, or, after its last chunk, if its bytes are not those of the manifest."""
    url = f"{store.address}/{piece.name}"
    try:
        source = store.open(piece.name)
    except ObjectMissing:
        raise UnreadableInput(url, "no such object, which the run's manifest names") from None
    digest, done = hashlib.sha256(), 0
    try:
        if source.size() != piece.size:
            raise UnreadableInput(url, f"{source.size():,} bytes, and {piece.size:,} were written")
        buffer = memoryview(bytearray(min(CHUNK_BYTES, max(1, piece.size))))
        while got := source.read_at(done, buffer):
            digest.update(buffer[:got])
            yield buffer[:got]
            done += got
    finally:
        source.close()
    if digest.hexdigest() != piece.sha256:
        raise UnreadableInput(url, f"its SHA-256 is {digest.hexdigest()}, and {piece.sha256} was written")
