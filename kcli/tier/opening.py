"""Opens the store (a directory or a bucket) whose address is the value of `--tier`, or of `--to` of a backup; and tells
what else the address of a tier may be."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from formats.file_name import FileKind, parse_directory
from kcli.errors import UnreadableInput
from kcli.tier.address import INSIDE, parse_address
from kcli.tier.local import LocalStore
from kcli.tier.segment import TieredPartition

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


def whose_directory(address: str) -> tuple[str, TieredPartition | None]:
    """Return the address of a store, and the partition if `address` is that of a partition's directory in it."""
    head, slash, last = address.rstrip("/").rpartition("/")
    whose = parse_directory(last)
    if whose is None or whose.state != "remote" or whose.unique is None:
        return address, None
    return head if slash else ".", TieredPartition(whose.topic, whose.partition, whose.unique)


def is_tier_directory(path: Path) -> bool:
    """Whether a directory is that of a tier, or of a partition in one: by names, and it is no log directory."""
    if whose_directory(str(path))[1] is not None:
        return path.is_dir()
    try:
        names = [each.name for each in path.iterdir() if each.is_dir()]
    except OSError:
        return False
    if (path / FileKind.META_PROPERTIES).exists():
        return False
    found = [None if each is None else each.state for each in map(parse_directory, names)]
    return INSIDE in names or ("remote" in found and "" not in found)


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
