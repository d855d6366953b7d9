"""The store of Kafka's LocalTieredStorage: a directory with a directory for each partition, and in it the objects.

    DIR/kafka-tiered-storage/<topic>-<partition>-<topic id>/<offset>-<segment id>.log and so on

LocalStore opens the tier by DIR or by DIR/kafka-tiered-storage. Names come from a disk that anybody may have written
to: only regular files two levels deep are objects, and a symbolic link at either level is not followed. Source:
LocalTieredStorage.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from kcli.errors import UnreadableInput
from kcli.log.disk import Disk, DiskFile
from kcli.log.source import FileSource, Source, read_range
from kcli.tier.address import INSIDE
from kcli.tier.store import FilePart, ObjectMissing, ObjectPart, StoredObject, checked_key, checked_name

DEPTH_MAX = 32
"""How many directories deep `list_keys` looks."""
_KINDS = (
    (stat.S_ISLNK, "a symbolic link, which is not followed"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISREG, "a file beside the directories of partitions"),
)


class LocalStore:
    """A directory as a store. may_be_away: whether the directory may not exist yet. Raises UnreadableInput if the path
    is no directory."""

    def __init__(self, directory: Path, disk: Disk | None = None, *, may_be_away: bool = False) -> None:
        self._disk = Disk() if disk is None else disk
        self._directory = self._root = directory
        if not self.find_root() and may_be_away and not os.path.lexists(directory):
            return
        try:
            os.close(os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        except OSError as error:
            raise UnreadableInput.of(self._root, error) from None

    def find_root(self) -> bool:
        """Look again which of the two directories has the partitions' directories: its disk may be mounted only now.
        Return whether it exists."""
        inside = self._directory / INSIDE
        self._root = inside if inside.is_dir() and not inside.is_symlink() else self._directory
        return self._root.is_dir()

    @property
    def address(self) -> str:
        """The path of the directory that has the partitions' directories."""
        return str(self._root)

    @property
    def is_remote(self) -> bool:
        """False: the objects are files of this machine."""
        return False

    @property
    def is_plugin(self) -> bool:
        """False: each object is a file of the same name."""
        return False

    @property
    def options(self) -> Sequence[str]:
        """No options: the objects are read as they are."""
        return ()

    def place(self, name: str) -> str:
        """Return the path of an object."""
        return f"{self._root}/{name}"

    def list_objects(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield the objects, and all other files and directories (with `odd` set), by name."""
        whose, slash, _ = prefix.partition("/")
        if slash:
            if whose in ("", ".", "..") or not stat.S_ISDIR(_mode(self._root / whose)):
                return
            yield from self._inside(whose, prefix)
            return
        for entry in self._entries(self._root):
            if not entry.name.startswith(prefix):
                continue
            if entry.is_dir(follow_symlinks=False):
                yield from self._inside(entry.name, "")
            else:
                yield StoredObject(entry.name, 0, _odd(entry, "neither a file nor a directory"))

    def _inside(self, directory: str, prefix: str) -> Iterator[StoredObject]:
        for each in self._entries_left(self._root / directory):
            name = f"{directory}/{each.name}"
            if name.startswith(prefix):
                yield from _stored(each, name)

    def _entries(self, directory: Path) -> list[os.DirEntry[str]]:
        try:
            with os.scandir(directory) as entries:
                return sorted(entries, key=lambda each: each.name)
        except OSError as error:
            raise UnreadableInput.of(directory, error) from None

    def _entries_left(self, directory: Path) -> list[os.DirEntry[str]]:
        """Return the entries of a directory; none if it was deleted since it was listed."""
        try:
            return self._entries(directory)
        except UnreadableInput as error:
            if error.errno == errno.ENOENT:
                return []
            raise

    def list_keys(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield the files, at any depth, whose paths in the directory begin with `prefix`, by path; also, with `odd`
        set, what is neither a file nor a directory. No link is followed."""
        home, slash, begin = prefix.rpartition("/")
        if any(part in ("", ".", "..") for part in home.split("/")) and slash:
            return
        place = self._root
        for part in home.split("/") if slash else ():
            place /= part
            if not stat.S_ISDIR(_mode(place)):
                return
        yield from self._below(place, home + slash, begin)

    def _below(self, directory: Path, home: str, begin: str = "") -> Iterator[StoredObject]:
        if home.count("/") > DEPTH_MAX:
            yield StoredObject(home.rstrip("/"), 0, f"a directory below {DEPTH_MAX} others, which is not read")
            return
        for each in self._entries_left(directory):
            if not each.name.startswith(begin):
                continue
            if each.is_dir(follow_symlinks=False):
                yield from self._below(directory / each.name, f"{home}{each.name}/")
            else:
                yield from _stored(each, f"{home}{each.name}")

    def open_key(self, key: str) -> Source:
        """Return the bytes of a file at any depth as a Source. Raises as `open` does."""
        *parents, last = checked_key(key).split("/")
        path = self._root / key
        with ExitStack() as opened:
            directory = opened.enter_context(self._opened_parent(path, self._root))
            for part in parents:
                directory = opened.enter_context(self._opened_parent(path, part, directory))
            return _opened(path, last, directory)

    def size(self, name: str) -> int:
        """Return the size of an object in bytes."""
        source = self.open(name)
        try:
            return source.size()
        finally:
            source.close()

    def open(self, name: str) -> Source:
        """Return an object's bytes as a Source."""
        path, parent, last = self._path(name)
        with self._opened_parent(path, parent) as directory:
            return _opened(path, last, directory)

    def read(self, name: str, start: int, stop: int) -> memoryview:
        """Return the bytes [start, stop) of an object."""
        return read_range(self.open(name), start, stop)

    @contextmanager
    def as_file(self, name: str) -> Iterator[Path]:
        """Yield the path of the object itself."""
        self.open(name).close()
        yield self._path(name)[0]

    def write(self, name: str, parts: Iterable[ObjectPart]) -> None:
        """Write a new object: first a file of another name, which is renamed when it is complete. The directory of the
        store is never created: if its file system is no longer mounted, nothing is written."""
        path, parent, _ = self._path(name)
        with self._opened_parent(path, self._root):
            self._disk.make_directory(parent)
        with self._opened_parent(path, parent):  # raises if `parent` is a link
            partial = _partial(path)
            self._disk.remove(partial)
            try:
                with self._disk.open(partial, create=True, truncate=True) as file:
                    done = 0
                    for part in parts:
                        done += _put(file, part, done)
                    file.sync()
                self._disk.rename(partial, path)
            except BaseException:
                with suppress(OSError):
                    self._disk.remove(partial)
                raise
            self._disk.sync_directory(parent)

    def delete(self, name: str) -> None:
        """Remove an object, and the partial file that a crash during `write` has left. Raises UnreadableInput if the
        directory of the store is missing: its file system may be unmounted, and still have the object."""
        path, parent, _ = self._path(name)
        if parent.is_dir():
            with self._opened_parent(path, parent):
                self._disk.remove(path)
                self._disk.remove(_partial(path))
                self._disk.sync_directory(parent)
        elif not self._root.is_dir():
            raise UnreadableInput(str(self._root), "no directory: the store is not there", errno.ENOENT)

    def forget(self, directory: str) -> None:
        """Remove the directory of a partition, if nothing is in it."""
        path = self._path(f"{directory}/none")[1]
        if stat.S_ISDIR(_mode(path)) and not any(path.iterdir()):
            self._disk.remove_directory(path)
            self._disk.sync_directory(self._root)

    def _path(self, name: str) -> tuple[Path, Path, str]:
        """Return the path of an object, the path of its directory, and the last part of its name. Raises UsageError for
        a name that could lead out of the store."""
        directory, last = checked_name(name).split("/")
        parent = self._root / directory
        return parent / last, parent, last

    @contextmanager
    def _opened_parent(self, path: Path, parent: Path | str, within: int | None = None) -> Iterator[int]:
        """Yield a descriptor of the directory `parent` of the object `path`. within: the descriptor of the directory
        that contains `parent`, if `parent` is relative. Raises as `open` does."""
        try:
            fd = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=within)
        except OSError as error:
            raise _not_opened(path, error) from None
        try:
            yield fd
        finally:
            os.close(fd)


def _stored(entry: os.DirEntry[str], name: str) -> Iterator[StoredObject]:
    """Yield the directory entry as a StoredObject of this name; nothing if it was deleted after it was listed."""
    try:
        is_file = entry.is_file(follow_symlinks=False)
        size = entry.stat(follow_symlinks=False).st_size if is_file else 0
    except FileNotFoundError:
        return
    except OSError as error:
        raise UnreadableInput.of(entry.path, error) from None
    yield StoredObject(name, size, None if is_file else _odd(entry, "no regular file"))


def _opened(path: Path, name: str, directory: int) -> FileSource:
    """Open the file `name` of a directory, without following a link. directory: the directory's descriptor. Raises
    ObjectMissing, UnreadableInput."""
    try:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=directory)
    except OSError as error:
        raise _not_opened(path, error) from None
    try:
        return FileSource(path, fd=fd)
    finally:
        os.close(fd)


def _put(file: DiskFile, part: ObjectPart, position: int) -> int:
    """Write a part of an object. Returns its length. Raises OSError if the file of a FilePart ends before the part."""
    if not isinstance(part, FilePart):
        return file.write([part], position)
    done = 0
    while done < part.length:
        got = file.copy_from(part.fd, part.start + done, part.length - done, position + done)
        if not got:
            raise OSError(errno.EIO, f"the file that is copied ends at byte {part.start + done:,}", str(file.path))
        done += got
    return done


def _partial(path: Path) -> Path:
    """Return the path under which an object is written before it is renamed to `path`."""
    return path.with_name(f".{path.name}.part")


def _not_opened(path: Path, error: OSError) -> ObjectMissing | UnreadableInput:
    if error.errno == errno.ENOENT:
        return ObjectMissing(f"{path}: no such object")
    if error.errno in (errno.ELOOP, errno.ENOTDIR):
        return UnreadableInput(str(path), "a symbolic link or no directory on its path: not followed", error.errno)
    return UnreadableInput.of(path, error)


def _mode(path: Path) -> int:
    """The file mode of the path itself, without following a symbolic link; 0 if the path does not exist."""
    try:
        return path.lstat().st_mode
    except OSError:
        return 0


def _odd(entry: os.DirEntry[str], otherwise: str) -> str:
    try:
        mode = entry.stat(follow_symlinks=False).st_mode
    except OSError as error:
        return error.strerror or otherwise
    return next((text for test, text in _KINDS if test(mode)), otherwise)
