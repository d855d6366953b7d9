"""The commit of an export to a table whose format has a commit of its own: after a kill at any time, all rows of a run
are in the table, or none of them.

    .NAME.kcli/          beside the table's directory NAME
      lock               held (flock) by the one job on this machine that may write to the table
      RUN/*.parquet      the staged files of one run
      intent.json        during a commit: the final paths of the files, and the offsets that the commit carries

    1  files are written to RUN and synced
    2  the intent is written and synced
    3  each file is renamed to its place in NAME, where no reader takes it for a part of the table
    4  the table's own commit: from here on the rows are in the table
    5  the intent is removed, then RUN

A run that finds an intent compares its offsets with the table's. If the table has reached them, step 4 was done;
otherwise the files of the intent are removed. Readers of the table notice neither. A compaction commits no offsets: its
step 4 was done if the table names its files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from kcli.errors import UnreadableInput
from kcli.export.commit import TABLE_INTENT, Staging, parents, reason_of, unchanged
from kcli.export.interrupts import held
from kcli.log.disk import Disk
from kcli.pipelines.tables.table import NotCommitted
from kcli.protocol.topic_partition import TopicPartition

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Intent:
    """A commit that has begun. places: the absolute paths of its files. offsets: the table's offsets after the commit.
    run: a part of the names of all files that the run writes, also of those that are not in `places`. creates: whether
    there was no table before the commit."""

    places: Collection[str]
    offsets: Offsets
    run: str
    creates: bool = False

    def to_json(self) -> bytes:
        """Return the content of the intent file."""
        offsets = [[*partition, offset] for partition, offset in self.offsets.items()]
        value = {"places": [*self.places], "offsets": offsets, "run": self.run, "creates": self.creates}
        return json.dumps(value).encode()

    @classmethod
    def read(cls, path: Path) -> Intent:
        """Read an intent file. Raises UnreadableInput."""
        try:
            value = json.loads(path.read_bytes())
            offsets = {TopicPartition(topic, partition): offset for topic, partition, offset in value["offsets"]}
            places = [str(place) for place in value["places"]]
            return cls(places, offsets, str(value["run"]), creates=value.get("creates") is True)
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise UnreadableInput(str(path), f"not the intent of an export: {error}") from error


class TableStaging(Staging):
    """The locked staging directory of a table: a context manager that releases the lock.

    is_committed: returns whether the table has the commit of an intent. Entering the context finishes or undoes the
    interrupted commit of an earlier run; `finished_earlier` is True if that run had committed to the table. Raises
    Busy, OSError, UnreadableInput, UsageError, and what is_committed raises.
    """

    def __init__(self, directory: Path, is_committed: Callable[[Intent], bool], disk: Disk | None = None) -> None:
        super().__init__(directory, disk)
        self.intent = self.root / TABLE_INTENT
        self._is_committed = is_committed

    def _recover(self) -> bool:
        is_done = False
        if self.intent.exists():
            intent = Intent.read(self.intent)
            is_done = self._is_committed(intent)
            if not is_done:
                self._undo(intent)
            self._disk.remove(self.intent)
        self._drop_runs()
        return is_done

    def commit_to(
        self,
        renames: Mapping[Path, Path],
        offsets: Offsets,
        append: Callable[[], None],
        *,
        run: str | None = None,
        creates: bool = False,
    ) -> None:
        """Rename files (staged path -> final path), then `append`, which commits to the table, all or nothing. run,
        creates: as in the intent; run is None for the name of `run`.

        Raises NotCommitted and OSError if the table is unchanged. After any other error of `append` it is not known
        whether the table has the rows; the next run checks it.
        """
        places = [str(place) for place in renames.values()]
        intent = Intent(places, offsets, run or self.run.name, creates=creates)
        with held():  # the first Ctrl-C is ignored: after the commit the export ends anyway
            self._disk.write_file(self.intent, intent.to_json())
            try:
                self._place(renames)
                append()
            except NotCommitted:
                self._give_up(intent)
                raise
            except OSError as error:  # of the table's own commit, as on a full disk
                if self._is_committed(intent):
                    raise
                self._give_up(intent)
                raise NotCommitted(str(unchanged(self.directory, reason_of(error), error.errno))) from error
            self._disk.remove(self.intent)

    def _give_up(self, intent: Intent) -> None:
        self._undo(intent)
        self._disk.remove(self.intent)

    def _place(self, renames: Mapping[Path, Path]) -> None:
        try:
            for parent in sorted({place.parent for place in renames.values()}):
                self._disk.make_directory(parent)
            for staged, place in renames.items():
                self._disk.rename(staged, place)
            for parent in parents([*renames.values()], self.directory.parent):
                self._disk.sync_directory(parent)
        except OSError as error:
            raise NotCommitted(str(unchanged(self.directory, reason_of(error), error.errno))) from error

    def _undo(self, intent: Intent) -> None:
        """Remove the files that a failed commit has put in place, and the directories that were made for them. The
        metadata of a table that a commit was to create is of no table, nor is a log without a version."""
        metadata = self.directory.glob("metadata/*") if intent.creates else ()
        if intent.creates:
            with suppress(OSError):
                self._disk.remove_directory(self.directory / "_delta_log")
        written = self.directory.rglob(f"part-{intent.run}-*.parquet")
        for place in (*map(Path, intent.places), *written, *metadata):
            with suppress(FileNotFoundError):
                self._disk.remove(place)
            for above in place.parents:
                if above == self.directory.parent:
                    break
                try:
                    self._disk.remove_directory(above)
                except OSError:
                    break
