"""A store by its address, as `--tier` has it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kcli.errors import UnreadableInput
from kcli.tier.address import parse_address
from kcli.tier.local import LocalStore

if TYPE_CHECKING:
    from kcli.tier.store import Store


def is_bucket(address: str) -> bool:
    """Whether an address is that of a bucket. Raises UsageError."""
    return not isinstance(parse_address(address), str)


def open_store(address: str, spool: Path | None = None) -> Store:
    """Return the store at a path or a URL, for reading. spool: the directory for copies of a bucket's objects.

    Raises UsageError, NotInstalled; UnreadableInput if there is none, which for a bucket is a prefix without objects.
    """
    parsed = parse_address(address)
    if isinstance(parsed, str):
        return LocalStore(Path(parsed))
    from kcli.tier.bucket import BucketStore  # imported late: obstore is an extra

    store = BucketStore(parsed, spool=spool)
    if store.is_empty:
        what = "no object's name begins with this prefix" if parsed.prefix else "the bucket is empty"
        raise UnreadableInput(store.address, what)
    return store
