"""Hashes of UUIDs that clients cannot foresee.

A client chooses the topic ids in its requests. Python hashes a UUID as its number modulo 2^61 - 1, so that one request
with thousands of ids of one hash would make every dict and set of them quadratic: a request of 400 KB blocked the event
loop for 27 s. Bytes are hashed by SipHash under the process's random key.
"""

from __future__ import annotations

from uuid import UUID


def guard_uuid_hashes() -> None:
    """Make this process hash UUIDs by their bytes. Call this only before any UUID is in a dict or set, and only in a
    process that runs nothing but the broker: a broker on a thread of another program must not change that program's
    UUIDs."""
    UUID.__hash__ = _hash  # type: ignore[assignment, method-assign]


def _hash(uuid: UUID) -> int:
    return hash(uuid.bytes)
