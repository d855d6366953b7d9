"""Opens the store (a directory or a bucket) whose address is the value of `--tier`, or of `--to` of a backup; also
recognises an address that is that of a partition's directory in a store."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from formats.file_name import FileKind, parse_directory
from kcli.errors import UnreadableInput
from kcli.tier.address import INSIDE, Bucket, parse_address
from kcli.tier.key_pairs import KeyPairs
from kcli.tier.local import LocalStore
from kcli.tier.plugin_store import PluginStore, plugin_prefix
from kcli.tier.segment import TieredPartition

if TYPE_CHECKING:
    from kcli.tier.bucket import BucketStore
    from kcli.tier.store import Store


def is_bucket(address: str) -> bool:
    """Whether an address is that of a bucket. Raises UsageError."""
    return not isinstance(parse_address(address), str)


def open_tier(address: str, spool: Path | None = None, key_pairs: KeyPairs | None = None) -> Store:
    """Return the store with a tier at a path or a URL, for reading. The objects' names show whether its layout is that
    of LocalTieredStorage or of Aiven's plugin. key_pairs: for encrypted segments; None: those of the environment.

    The last part of the address may be the beginning of the objects' keys (key.prefix of the plugin), rather than a
    directory. Raises as `open_store` does.
    """
    parsed = parse_address(address)
    pairs = KeyPairs.given(None) if key_pairs is None else key_pairs
    if isinstance(parsed, str):
        return _open_directory(Path(parsed), spool, pairs)
    return _open_bucket(parsed, spool, pairs)


def _open_directory(path: Path, spool: Path | None, key_pairs: KeyPairs) -> Store:
    if path.is_dir() or not path.parent.is_dir():
        store, begin = LocalStore(path), ""
    else:
        store, begin = LocalStore(path.parent), path.name
    prefix = plugin_prefix(store, begin)
    if prefix is None:
        return LocalStore(path) if begin else store
    return PluginStore(store, prefix, store.place(begin) if begin else store.address, key_pairs, spool)


def _open_bucket(bucket: Bucket, spool: Path | None, key_pairs: KeyPairs) -> Store:
    from kcli.tier.bucket import BucketStore  # imported late: obstore is an extra

    store = BucketStore(bucket, spool=spool)
    if (prefix := plugin_prefix(store)) is not None:
        return PluginStore(store, prefix, store.address, key_pairs, spool)
    if not store.is_empty:
        return store
    if bucket.prefix:
        home, _, begin = bucket.prefix.rpartition("/")
        above = BucketStore(bucket._replace(prefix=home), spool=spool)
        if (prefix := plugin_prefix(above, begin)) is not None:
            return PluginStore(above, prefix, above.place(begin), key_pairs, spool)
    raise _nothing_at(store, bucket)


def needs_copies(address: str) -> bool:
    """Whether `as_file` of the store at an address makes temporary copies. Raises UsageError, UnreadableInput."""
    parsed = parse_address(address)
    return not isinstance(parsed, str) or _open_directory(Path(parsed), None, KeyPairs()).is_plugin


def _nothing_at(store: BucketStore, bucket: Bucket) -> UnreadableInput:
    what = "no object's name begins with this prefix" if bucket.prefix else "the bucket is empty"
    return UnreadableInput(store.address, what)


def open_store(address: str, spool: Path | None = None, option: str = "--tier") -> Store:
    """Return the store at a path or a URL, for reading. spool: the directory for copies of a bucket's objects; None for
    the system's. option: the command-line option with the address, for errors.

    Raises UsageError, NotInstalled; UnreadableInput if there is none, which for a bucket is a prefix without objects.
    """
    parsed = parse_address(address, option)
    if isinstance(parsed, str):
        return LocalStore(Path(parsed))
    from kcli.tier.bucket import BucketStore  # imported late: obstore is an extra

    store = BucketStore(parsed, spool=spool)
    if store.is_empty:
        raise _nothing_at(store, parsed)
    return store


def whose_directory(address: str) -> tuple[str, TieredPartition | None]:
    """Return the address of the store and the partition, if `address` is that of a partition's directory in a store;
    otherwise `address` and None."""
    head, slash, last = address.rstrip("/").rpartition("/")
    whose = parse_directory(last)
    if whose is None or whose.state != "remote" or whose.unique is None:
        return address, None
    return head if slash else ".", TieredPartition(whose.topic, whose.partition, whose.unique)


def is_tier_directory(path: Path) -> bool:
    """Whether a directory is, by the names in it, a tier or a partition's directory of one, and is no log directory.
    The .log objects of Aiven's plugin do not count as segments."""
    if whose_directory(str(path))[1] is not None:
        return path.is_dir()
    try:
        names = [each.name for each in path.iterdir() if each.is_dir()]
    except OSError:
        return False
    if (path / FileKind.META_PROPERTIES).exists():
        return False
    with suppress(UnreadableInput):
        if needs_copies(str(path)):
            return True
    found = [None if each is None else each.state for each in map(parse_directory, names)]
    return INSIDE in names or ("remote" in found and "" not in found)


def make_store(address: str, option: str) -> Store:
    """Return the store at a path or a URL, for writing. A directory is made if it does not exist. option: the
    command-line option with the address, for errors.

    Raises UsageError, NotInstalled, UnreadableInput.
    """
    parsed = parse_address(address, option)
    if isinstance(parsed, str):
        _make(Path(parsed))
        return LocalStore(Path(parsed))
    from kcli.tier.bucket import BucketStore  # imported late: obstore is an extra

    return BucketStore(parsed)


def _make(directory: Path) -> None:
    """Make a directory if it does not exist. Raises UnreadableInput."""
    try:
        directory.mkdir(exist_ok=True)
    except OSError as error:
        raise UnreadableInput.of(directory, error) from None
