"""Opens the store (a directory or a bucket) whose address is the value of `--tier`, or of `--to` of a backup."""

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


def open_store(address: str, spool: Path | None = None, option: str = "--tier") -> Store:
    """Return the store at a path or a URL, for reading. spool: the directory for copies of a bucket's objects. option:
    that which has the address, for errors.

    Raises UsageError, NotInstalled; UnreadableInput if there is none, which for a bucket is a prefix without objects.
    """
    parsed = parse_address(address, option)
    if isinstance(parsed, str):
        return LocalStore(Path(parsed))
    from kcli.tier.bucket import BucketStore  # imported late: obstore is an extra

    store = BucketStore(parsed, spool=spool)
    if store.is_empty:
        what = "no object's name begins with this prefix" if parsed.prefix else "the bucket is empty"
        raise UnreadableInput(store.address, what)
    return store


def make_store(address: str, option: str) -> Store:
    """Return the store at a path or a URL, for writing. A directory is made if it does not exist. option: that which
    has the address, for errors.

    Raises UsageError, NotInstalled, UnreadableInput.
    """
    parsed = parse_address(address, option)
    if isinstance(parsed, str):
        _make(Path(parsed))
        return LocalStore(Path(parsed))
    from kcli.tier.bucket import BucketStore  # imported late: obstore is an extra

    return BucketStore(parsed)


def _make(directory: Path) -> None:
    """Make a directory that may be there already. Raises UnreadableInput."""
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise UnreadableInput.of(directory, error) from None
