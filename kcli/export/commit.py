"""Putting a finished export in place, all of it or nothing, whatever is killed when.

    .NAME.kcli/             beside the directory NAME of the table, never in it: what readers find there is complete
      lock                  held (flock) by the one job that may write
      RUN/*.parquet         the files of one run, under names that only this run uses
    NAME/_kcli_intent.json  while a commit is under way: all its renames, and the files written whole at its end

    1  files are written to RUN and synced
    2  the intent is written and synced: from here on the commit is going to happen
    3  each file is renamed to its place; a rename that has been done already is passed over
    4  the files written whole (the manifest, the STATE of incremental runs) are replaced
    5  the intent is removed, then RUN

Killed before 2, nothing has happened: the next run drops RUN. Killed later, the next run goes on at 3. Each file has
one place from the start, so nothing that reads the directory ever meets a record twice. A run whose workers outlive
its driver only ever writes to its own RUN.
"""

from __future__ import annotations

import fcntl
import json
import os
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


class Busy(KcliError):
    """Another job writes to the directory now."""


@dataclass(frozen=True, slots=True)
class Intent:
    """renames: staged file -> its place; writes: file -> the text it is to hold. Absolute paths."""

    run: str
    renames: Mapping[str, str]
    writes: Mapping[str, str]

    def to_json(self) -> bytes:
        """The file."""
        return json.dumps({"run": self.run, "renames": self.renames, "writes": self.writes}).encode()


class Staging:
    """The staging directory of one table, locked; a context manager that gives the lock back.

    Entering it finishes or drops what an earlier run left. Raises Busy, OSError, UnreadableInput,
    UsageError (nothing can be renamed into the directory).
    """

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        self.directory = directory.resolve()
        self.root = self.directory.with_name(f".{self.directory.name}.kcli")
        self.finished_earlier = False
        self._disk = disk or Disk()
        self._lock = -1
        self._run = uuid.uuid4().hex[:12]

    @property
    def run(self) -> Path:
        """Where this run's files go."""
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
        """The lock file, locked. A job that ends removes it, so what was locked may be there no more."""
        path = self.root / "lock"
        while True:
            self._disk.make_directory(self.root)
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

    def _refuse_mount(self) -> None:
        if self.directory.is_dir() and self.directory.stat().st_dev != self.root.stat().st_dev:
            raise UsageError(f"{self.directory} is the top of a file system: give a directory in it")

    def __exit__(self, *_: object) -> None:
        with held():
            self._leave()

    def _leave(self) -> None:
        """Nothing of this run is needed any more, unless its intent stands."""
        if not (self.directory / INTENT).exists():
            self._drop(self.run)
            self._drop(self.root)
        os.close(self._lock)

    def _drop(self, directory: Path) -> None:
        """Remove what is of no use; what a worker that outlived its driver still writes there, the next run drops."""
        with suppress(OSError):
            self._disk.remove_tree(directory)

    def _recover(self) -> bool:
        path = self.directory / INTENT
        intent = None
        if path.exists():
            intent = _read_intent(path)
            self._finish(intent)
        for each in self.root.iterdir():
            if each.is_dir():
                self._drop(each)
        return intent is not None

    def commit(self, renames: Mapping[Path, Path], writes: Mapping[Path, bytes]) -> None:
        """Put files in place (staged path -> place) and write others whole, as one. Raises OSError: before the intent
        stands nothing has changed; later the next run finishes it."""
        intent = Intent(
            self._run,
            {str(staged): str(place) for staged, place in renames.items()},
            {str(path): data.decode() for path, data in writes.items()},
        )
        with held():  # Ctrl-C comes too late, by the moment that this takes
            self._disk.make_directory(self.directory)
            self._disk.sync_directory(self.directory.parent)
            self._disk.write_file(self.directory / INTENT, intent.to_json())
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
        for parent in _parents(places, self.directory):
            self._disk.sync_directory(parent)
        for path, text in intent.writes.items():
            self._disk.write_file(Path(path), text.encode())
        self._disk.remove(self.directory / INTENT)
        self._disk.sync_directory(self.directory)


def is_interrupted(directory: Path) -> bool:
    """A commit to the directory was interrupted, and the next run is going to finish it."""
    return (directory / INTENT).exists()


def _parents(places: Sequence[Path], top: Path) -> list[Path]:
    """The directories of the files, and those above them up to `top` where they are below it."""
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
