"""The atomic commit of an export: after a kill at any time either all files of a run are in the table, or none.

    .NAME.kcli/             beside the directory NAME of the table, so that a reader of NAME finds finished files only
      lock                  held (flock) by the one job that may write to the table
      RUN/*.parquet         the staged files of one run, under names that only this run uses
    NAME/_kcli_intent.json  during a commit: all its renames, and the text of manifest and STATE

    1  files are written to RUN and synced
    2  the intent is written and synced: from here on the commit will be finished
    3  each file is renamed to its place; a rename that is done already is skipped
    4  the manifest, and the STATE of incremental runs, are replaced
    5  the intent is removed, then RUN

After a kill before step 2 the table is unchanged, and the next run removes RUN. After a later kill the next run
continues at step 3. The intent fixes the place of each file, so no reader of the directory ever finds a record twice.
Workers that outlive their driver write only to their own RUN.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.export.interrupts import held
from kcli.log.disk import Disk

INTENT = "_kcli_intent.json"
TABLE_INTENT = "intent.json"
"""The intent of a commit to a table, in the staging directory."""
DENIED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
NO_PLACE = DENIED | {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
"""The errors of writing, and of making a directory, that another try has too."""
COLORED = re.compile(r"\x1b\[[0-9;]*m|\N{DOWNWARDS ARROW WITH TIP RIGHTWARDS}")
"""What deltalake has between the lines of an error."""


class Busy(KcliError):
    """Another job holds the lock of the table."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A commit that is to be finished. run: the name of its staging directory; renames: staged file -> final path;
    writes: file -> its new text.

    All paths are absolute.
    """

    run: str
    renames: Mapping[str, str]
    writes: Mapping[str, str]

    def to_json(self) -> bytes:
        """Return the content of the intent file."""
        return json.dumps({"run": self.run, "renames": self.renames, "writes": self.writes}).encode()


class Staging:
    """The locked staging directory of one table: a context manager that releases the lock.

    Entering it finishes an interrupted commit of an earlier run (`finished_earlier`) and removes other runs' files.
    Raises Busy, OSError, UnreadableInput, UsageError (no directory can be made beside the table's, or it is on another
    file system).
    """

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        self.directory = directory.resolve()
        self.root = staging_of(self.directory)
        self.intent = self.directory / INTENT
        self.finished_earlier = False
        self._disk = disk or Disk()
        self._lock = -1
        self._run = uuid.uuid4().hex[:12]

    @property
    def run(self) -> Path:
        """The directory of this run's staged files."""
        return self.root / self._run

    def __enter__(self) -> Self:
        self._lock = self._locked()
        try:
            self._refuse_mount()
            self.finished_earlier = self._recover()
            self._disk.make_directory(self.run)
        except BaseException:
            self._leave()
            raise
        return self

    def _locked(self) -> int:
        """Return the descriptor of the locked lock file. A job removes the lock file when it ends. If the file that
        this method has locked is therefore no longer the one at the path, the method locks the file that is there now.
        Raises Busy."""
        path = self.root / "lock"
        while True:
            self._make_root()
            try:
                lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            except FileNotFoundError:
                continue
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if os.path.samestat(os.fstat(lock), path.stat()):
                    return lock
            except BlockingIOError:
                os.close(lock)
                raise Busy(f"{self.directory}: another export is writing to it") from None
            except FileNotFoundError:
                pass
            os.close(lock)

    def _make_root(self) -> None:
        try:
            self._disk.make_directory(self.root)
        except OSError as error:
            if error.errno is None or error.errno not in NO_PLACE:
                raise
            raise no_place(self.directory, error.errno) from error

    def _refuse_mount(self) -> None:
        if self.directory.is_dir() and self.directory.stat().st_dev != self.root.stat().st_dev:
            raise _top(self.directory)

    def __exit__(self, *_: object) -> None:
        with held():
            self._leave()

    def _leave(self) -> None:
        """Remove this run's files and the staging directory, unless the commit is unfinished; release the lock."""
        if not self.intent.exists():
            self._drop(self.run)
            self._drop(self.root)
        os.close(self._lock)

    def _drop(self, directory: Path) -> None:
        """Remove a directory. If a worker that outlives its driver still writes files there, the directory is left to
        the next run, which removes it."""
        with suppress(OSError):
            self._disk.remove_tree(directory)

    def _recover(self) -> bool:
        intent = None
        if self.intent.exists():
            intent = _read_intent(self.intent)
            self._finish(intent)
        self._drop_runs()
        return intent is not None

    def _drop_runs(self) -> None:
        for each in self.root.iterdir():
            if each.is_dir():
                self._drop(each)

    def commit(self, renames: Mapping[Path, Path], writes: Mapping[Path, bytes]) -> None:
        """Rename files (staged path -> final path) and replace other files (path -> content), all or none.

        Raises OSError. If it is raised before the intent is written, the table is unchanged; if later, the next run
        finishes the commit.
        """
        intent = Intent(
            self._run,
            {str(staged): str(place) for staged, place in renames.items()},
            {str(path): data.decode() for path, data in writes.items()},
        )
        with held():  # the first Ctrl-C is ignored: after the commit the export ends anyway
            self._disk.make_directory(self.directory)
            self._disk.sync_directory(self.directory.parent)
            self._disk.write_file(self.intent, intent.to_json())
            self._finish(intent)

    def _finish(self, intent: Intent) -> None:
        places = [Path(place) for place in intent.renames.values()]
        for parent in sorted({place.parent for place in places}):
            self._disk.make_directory(parent)
        for staged, place in zip(map(Path, intent.renames), places, strict=True):
            if staged.exists():
                self._disk.rename(staged, place)
            elif not place.exists():
                raise UnreadableInput(str(place), f"an interrupted export cannot be finished: {staged} is gone")
        for parent in parents(places, self.directory):
            self._disk.sync_directory(parent)
        for path, text in intent.writes.items():
            self._disk.write_file(Path(path), text.encode())
        self._disk.remove(self.intent)
        self._disk.sync_directory(self.directory)


def staging_of(directory: Path) -> Path:
    """Return the staging directory of a table's directory."""
    return directory.with_name(f".{directory.name}.kcli")


def no_place(directory: Path, code: int) -> UsageError:
    """Return the error of a table beside which no directory can be made, for the staged files. directory: the table's.
    code: the operating system's error number, such as ENOENT in /proc."""
    return UsageError(
        f"{directory}: no table can be written there, as no directory can be made in {_above(directory)}: "
        f"{os.strerror(code)}"
    )


def refuse_no_place(directory: Path) -> None:
    """Raise UsageError if no table can be written to a directory, as far as it is known without a try."""
    if not directory.name:
        raise _top(directory)
    try:
        directory.lstat()
    except FileNotFoundError:
        pass
    except OSError as error:
        raise no_place(directory, error.errno or errno.EINVAL) from error
    above = _above(directory)
    if os.statvfs(above).f_flag & os.ST_RDONLY:
        raise no_place(directory, errno.EROFS)
    if not os.access(above, os.W_OK | os.X_OK):
        raise no_place(directory, errno.EACCES)


def _top(directory: Path) -> UsageError:
    return UsageError(f"{directory} is the top of a file system: give a directory in it")


def _above(directory: Path) -> Path:
    """Return the nearest directory above, or the file in its place, that exists."""
    return next(each for each in directory.parents if os.path.exists(each))  # noqa: PTH110 (False without permission)


def reason_of(error: OSError) -> str:
    """Return the operating system's reason of an error in one line, without the words that libraries put around it."""
    if error.errno:
        return os.strerror(error.errno)
    if (full := os.strerror(errno.ENOSPC)) in str(error):
        return full
    return " ".join(COLORED.sub("", str(error)).split())


def unchanged(directory: Path, reason: str, code: int | None = None) -> KcliError:
    """Return the error of a run that has failed before its commit. directory: the table's. code: the operating system's
    error number, if it is known."""
    if code in DENIED:
        return KcliError(f"{directory}: {reason}: the table has nothing of this run")
    return KcliError(f"{directory}: {reason}: the table has nothing of this run, the same command tries again")


def not_written(directory: Path, error: OSError) -> KcliError:
    """Return the error of a run whose write the operating system has refused, as on a full disk. It names the table's
    directory, not a file of the staging directory, which the run removes; but the file if the commit has begun."""
    place, root = Path(error.filename or directory), staging_of(directory)
    if place != directory and root not in (place, *place.parents):
        return KcliError(f"{place}: {reason_of(error)}")
    if (root / TABLE_INTENT).exists() or is_interrupted(directory):
        return KcliError(f"{place}: {reason_of(error)}: the same command finishes the commit, or undoes it")
    return unchanged(directory, reason_of(error), error.errno)


def is_interrupted(directory: Path) -> bool:
    """Whether a commit to the directory was interrupted, so that the next run will finish it."""
    return (directory / INTENT).exists()


def parents(places: Sequence[Path], top: Path) -> list[Path]:
    """Return the directories that contain these files and, for files below `top`, also the directories between them and
    `top`, and `top` itself; deepest first."""
    found: set[Path] = set()
    for place in places:
        parent = place.parent
        while parent not in found:
            found.add(parent)
            if not parent.is_relative_to(top) or parent == top:
                break
            parent = parent.parent
    return sorted(found, reverse=True)


def _read_intent(path: Path) -> Intent:
    try:
        value = json.loads(path.read_bytes())
        return Intent(value["run"], dict(value["renames"]), dict(value["writes"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise UnreadableInput(str(path), f"not the intent of an export: {error}") from error
