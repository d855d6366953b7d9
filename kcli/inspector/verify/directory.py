"""Checks directories: finds the type of each file, groups files by segment and partition, and reports files that belong
to neither."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from formats.checkpoint import parse_leader_epochs
from formats.errors import FormatError
from formats.file_name import (
    INTERNAL_TOPICS,
    METADATA_DIRECTORY,
    METADATA_TOPIC,
    DirectoryName,
    FileKind,
    FileName,
    build,
    parse,
    parse_directory,
)
from kcli.errors import KcliError, UnreadableInput
from kcli.inspector.verify import misplaced_logs, next_steps, renamed_logs
from kcli.inspector.verify.across_directories import (
    across_directories,
    entries_of_others,
    exchanged_checkpoints,
    exchanged_properties,
    metadata_log_elsewhere,
    second_metadata_log,
)
from kcli.inspector.verify.broker_directory import (
    WRITE_ANEW,
    BrokerDirectory,
    StoredPartition,
    broken_link,
    contradicting_record,
    duplicates,
    exchanged_directories,
    foreign_metadata_log,
    has_no_directory,
    is_nested,
    left_aside,
    linked,
    metadata_topic_id,
    odd_name,
    old_marker,
    old_metadata_log,
    or_exchanged,
    others_quorum_state,
    partition_metadata_command,
    shared_directories,
    shared_files,
    stored_partition,
    transaction_findings,
    with_known_properties,
    without_topic_id,
    wrong_checkpoints,
)
from kcli.inspector.verify.causes import Causes
from kcli.inspector.verify.copied_directories import copied_directories
from kcli.inspector.verify.copied_strays import with_copies
from kcli.inspector.verify.file_names import OddFiles, apple_doubles, foreign_link, odd_files, odd_type
from kcli.inspector.verify.findings import Finding, Severity
from kcli.inspector.verify.future_logs import copied_anew, only_copy, unknown_current
from kcli.inspector.verify.gaps import Gaps
from kcli.inspector.verify.half_copies import half_copies, upper_layer, without_logs
from kcli.inspector.verify.index_files import MISSING_INDEX, REBUILT
from kcli.inspector.verify.log_starts import forgotten_starts, or_forgotten_starts, wrong_starts
from kcli.inspector.verify.lost_offsets import (
    Known,
    appended,
    deleted_log,
    left_over,
    shorter_log,
    with_own_log,
)
from kcli.inspector.verify.misplaced_logs import MisplacedLogs
from kcli.inspector.verify.missing_snapshots import forgotten_producers
from kcli.inspector.verify.next_start import UNREAD, NextStart
from kcli.inspector.verify.others_checkpoints import checkpoints_of_others
from kcli.inspector.verify.padded_files import is_of_padding
from kcli.inspector.verify.partition import LogBounds, LogVerifier, is_about_segments
from kcli.inspector.verify.removed_files import removed_files
from kcli.inspector.verify.renamed_logs import RenamedLog
from kcli.inspector.verify.sealed_files import many_sealed, sealed_finding
from kcli.inspector.verify.segment_names import INDEX_KINDS, SegmentFiles, end_of, file_beside, log_name
from kcli.inspector.verify.small_files import REBUILD_EPOCHS
from kcli.inspector.verify.start_outcomes import salvage_first, with_outcomes, with_refusals
from kcli.inspector.verify.surroundings import Surroundings
from kcli.inspector.verify.swap_file import harmful, in_its_place, index_alone, of_swap, without_indexes
from kcli.inspector.verify.tier_objects import of_object
from kcli.inspector.verify.unserved_records import unserved_records
from kcli.inspector.verify.verification import (
    KRAFT,
    KRAFT_SNAPSHOTS,
    MARKERS,
    Logs,
    LogsFound,
    may_follow_from_metadata,
    status_of,
)
from kcli.log.attributes import sealed_in
from kcli.log.log_directory import REMOTE_INDEX_CACHE, LogDirectory, PartitionDirectory, is_log_directory
from kcli.log.partition_view import PartitionView
from kcli.log.recovery.deleted import MissedLog, first_cleaned, missed_logs
from kcli.log.recovery.node_directories import same_path
from kcli.log.source import read_whole
from kcli.log.whiteouts import is_whiteout
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.inspector.transaction_state import Unfit
    from kcli.inspector.verify.verification import Verification
    from kcli.log.recovery.misdirected import Home
    from kcli.metadata_log.promotion import Compared

SEGMENT_KINDS = (FileKind.LOG, *INDEX_KINDS)
MAX_DEPTH = 32
OFFSET_MAX = 2**63 - 1
GAPS_TRIED = 8
OF_NAME = ("log-end", "partition-metadata-content")
"""The kinds of findings in a partition's directory that may follow from an exchange of names."""
"""The largest number of gaps in a .log file after which batches of another partition's log are looked for."""
SEVERAL = 2
"""If the owner of at least this number of files may not read or write them, one finding is made for all of them."""

Entry = tuple[Path, FileName]
Key = tuple[int, str]  # base offset; segment id in tiered storage or ""


class DirectoryVerifier:
    """Checks directories for a verification, to which it adds what it finds besides findings: `files`, `bytes`,
    `unclean`, `unknown`, `is_partial`, `unreadable` and `logs_found`."""

    def __init__(self, verification: Verification) -> None:
        self._all = verification
        self._advance, self._tell = verification.advance, verification.tell
        self._visited: set[tuple[int, int]] = set()
        self._unfit_of: dict[tuple[Path, ...], list[Unfit]] = {}

    def findings(self, path: Path) -> Iterator[Finding]:
        """Yield the findings in a directory that the user has named."""
        self._visited.clear()
        inside = _Inside(self._around_partition(path), Causes(self._tell), is_alone=True)
        yield from self._directory(path, 0, inside)
        found = [*inside.metadata_damage, *inside.short, *inside.of_copy]
        if inside.around is not None:
            found += forgotten_producers(inside.around, path)
        yield from with_refusals(found, inside.around)

    def _around_partition(self, path: Path) -> Surroundings | None:
        """For a partition's directory that is verified alone, return the Surroundings of its log directory: the
        information in other files about the partitions. Returns None for another path, and if the directory lies in no
        log directory."""
        absolute = path.absolute()
        if parse_directory(absolute.name) is None:
            return None
        return self._around(absolute.parent)

    def _around(self, path: Path) -> Surroundings | None:
        """Return the Surroundings of a log directory: the information in its files about its partitions; None if the
        path is no log directory."""
        try:
            is_one = is_log_directory(path) or (path / METADATA_DIRECTORY).is_dir()
        except (UnreadableInput, OSError):
            return None
        return Surroundings(path, self._all.server, self._all.paths) if is_one else None

    def _unfit(self, homes: Sequence[Path]) -> Sequence[Unfit]:
        """Return the contradictions between __transaction_state and the partitions in a broker's log directories. They
        are computed once for each set of log directories."""
        from kcli.inspector.transaction_state import unfit  # imported only if there are transactions

        key = tuple(homes)
        if key not in self._unfit_of:
            self._unfit_of[key] = list(unfit(homes))
        return self._unfit_of[key]

    def _run(self, path: Path, verifier: LogVerifier) -> Iterator[Finding]:
        yield from self._all.guarded(path, lambda _: verifier.findings())
        self._all.unreadable += verifier.unreadable

    # directories, with the files and directories in them

    def _directory(self, path: Path, depth: int, inside: _Inside) -> Iterator[Finding]:
        """Yield the findings in a directory and in the directories below it. inside: collects facts about this
        directory, for the checks of its parent directory."""
        try:
            with os.scandir(path) as entries:
                listed = sorted(self._listed(entries))
            status = path.stat()
        except OSError as error:
            self._all.unreadable.append(UnreadableInput.of(path, error))
            return
        if (status.st_dev, status.st_ino) in self._visited:
            return  # reached again through a symbolic link
        self._visited.add((status.st_dev, status.st_ino))
        mine: list[Entry] = []
        unknown: list[Path] = []
        around = self._around(path)
        below = _Inside(around, self._causes(around))
        found = list(_of_home(around, [name for name, is_directory, _ in listed if is_directory]))
        parsed_name = parse_directory(path.absolute().name)
        is_kafkas = parsed_name is not None and parsed_name.state != "remote"
        odd = odd_files(path, [name for name, _, _ in listed]) if is_kafkas else OddFiles()
        found += [*odd.findings, *map(sealed_finding, sealed_in(path) if is_kafkas or around is not None else ())]
        mine += ((path / name, right) for name, right in odd.right_names.items())
        listed = [each for each in listed if each[0] not in odd.names | odd.outdated]
        # The metadata log comes first: the checks of other partitions need its topics, and its damage. Links come last,
        # so that the files in a linked directory are reported under the directory's own name.
        for name, is_directory, is_link in sorted(listed, key=lambda each: (each[0] != METADATA_DIRECTORY, each[2])):
            parsed = parse(name)
            if is_directory and not (is_kafkas and parsed is not None):
                if depth < MAX_DEPTH:
                    is_left = is_kafkas and around is None and inside.around is not None
                    yield from self._below(path / name, depth, below, is_left=is_left)
                found += _odd_name(path / name, around)
            elif parsed is not None:
                mine.append((path / name, parsed))
            elif is_link and parse_directory(name) is not None:
                found.append(broken_link(path / name))
            else:
                unknown.append(path / name)
        inside.apple_doubles += [*(path / name for name in sorted(odd.apple_doubles)), *below.apple_doubles]
        if depth == 0 and inside.apple_doubles:
            found.append(apple_doubles(path, inside.apple_doubles))
        is_missed = inside.around is not None and _is_of_missing(path, inside.around)
        if parsed_name is not None and parsed_name.state in ("delete", "future", "stray") and not is_missed:
            found += _leftover_directory(path, parsed_name, inside.around)
        if mine or parsed_name is not None:
            found += map(_unknown, unknown)
        found += self._logs(path, parsed_name, mine, below, inside)
        logs_found = self._all.logs_found.get(path, LogsFound())
        self._all.logs_found[path] = logs_found._replace(right_names=odd.right_names, outdated=odd.outdated)
        found = _without_renamed(found, logs_found.renamed)
        # Kafka's start does not read a metadata log under another name.
        found = inside.keep_damage(found) if path.absolute().name == METADATA_DIRECTORY else found
        found = self._with_promoted(path, found, inside.around)
        whole, near = (found, inside.around) if around is None else (self._as_broker(around, below, found), around)
        back = with_refusals((_once_back(each, inside.around if is_missed else None) for each in whole), near)
        told = (copied_anew(each, path, near) for each in with_copies(back, path, near))
        yield from salvage_first(told, near, self._with_renamed(path))

    def _with_promoted(self, path: Path, found: list[Finding], around: Surroundings | None) -> list[Finding]:
        """Return the findings in a directory. If it has a future log with which Kafka replaces the current log, the
        findings that follow from the replacement are left out, and the finding about the future log counts them."""
        promoted = None if around is None else _promoted(path, around)
        if promoted is None:
            return found
        from kcli.inspector.verify.promoted_logs import PROMOTED, follows  # imported only if it is needed

        causes = Causes(self._tell)
        # is_of_many: the cause names the lost offsets itself, and takes none from its consequences
        for cause in (each for each in found if each.kind == PROMOTED):
            causes.add(cause, partial(follows, compared=promoted), is_of_many=True)
        return causes.settle(each for each in found if each.kind != PROMOTED)

    def _with_renamed(self, home: Path) -> set[str]:
        """Return the names of the partitions' directories in a log directory for which .log files were found under
        other names."""
        return {path.name for path, logs in self._all.logs_found.items() if path.parent == home and logs.renamed}

    def _below(self, path: Path, depth: int, below: _Inside, *, is_left: bool) -> Iterator[Finding]:
        """Yield the findings in a subdirectory. below: collects the facts about the subdirectories of its parent.
        is_left: whether the parent is a partition's directory, in which Kafka reads no subdirectories."""
        found = (each for each in self._directory(path, depth + 1, below) if not below.causes.takes(each))
        yield from (left_over(each, path.parent) for each in found) if is_left else found

    def _listed(self, entries: Iterable[os.DirEntry[str]]) -> Iterator[tuple[str, bool, bool]]:
        """Yield each entry's name, whether it is a directory, and whether it is a link. Circular links are added to
        `unreadable` instead."""
        for entry in entries:
            try:
                yield entry.name, entry.is_dir(), entry.is_symlink()
            except OSError as error:
                self._all.unreadable.append(UnreadableInput.of(entry.path, error))

    def _causes(self, around: Surroundings | None) -> Causes:
        """Return the causes of findings in many files of a log directory: no .log files at all, whiteouts, files that
        one act has removed, files that the system lets no user change or that their owner may not read or write,
        partitions that have a directory in another log directory, files that are hard links of each other."""
        causes = Causes(self._tell)
        if around is not None:
            try:
                for each in (
                    without_logs(around),
                    upper_layer(around),
                    *removed_files(around),
                    many_sealed(around.path),
                    _closed_files(around.path),
                    second_metadata_log(around),
                    shared_files(around.path),
                ):
                    if each is not None:
                        causes.add(*each, is_of_many=True)
                exchanged = exchanged_properties(around)
                for finding, follows in (*copied_directories(around), *([] if exchanged is None else [exchanged])):
                    if finding is None:
                        causes.leave_out(follows)
                    else:
                        causes.add(finding, follows, is_of_many=True)
            except (UnreadableInput, OSError):  # another check reports this error
                pass
        return causes

    def _as_broker(self, around: Surroundings, below: _Inside, found: list[Finding]) -> Iterator[Finding]:
        """Yield the findings about a log directory as a whole, and those in its files (`found`), both matched with
        their causes."""
        causes = below.causes
        damage = below.metadata_damage
        self._note_metadata_log(around, damage)
        if not damage:
            damage = list(foreign_metadata_log(around))
            damage = damage or list(old_metadata_log(around, below.partitions, below.logs))
        broker = BrokerDirectory(around, below.partitions, below.logs, is_metadata_sound=not damage)
        exchanged = list(exchanged_directories(around))
        whole = [with_known_properties(each, around) for each in (*damage[1:], *broker.findings(), *found)]
        whole = [_or_of_copy(or_forgotten_starts(each, around), around, below.misplaced.twins) for each in whole]
        whole += forgotten_starts(around)
        whole += forgotten_producers(around)
        exchanged += broker.exchanged
        names = {name for _, both in exchanged for name in both}
        for finding, partitions in wrong_checkpoints(around, below.logs):
            whole.append(finding)
            names |= partitions
        whole += below.of_copy
        whole += (or_exchanged(each, around) for each in below.short if Path(each.path).parent.name not in names)
        of_transactions = transaction_findings(around, below.logs, below.harmed, self._unfit)
        whole += (each for each in of_transactions if Path(each.path).name not in names)
        whole += unserved_records(around, _topics_of({*names, *map(str, below.harmed), *_with_errors(whole)}))
        self._all.unclean += any(each.kind == "unclean-shutdown" for each in whole)
        self._all.unknown += any(each.kind == "metadata-log-absent" for each in whole)
        self._all.is_partial |= any(each.kind == "log-directory-elsewhere" for each in whole)
        missing = [each for each in whole if each.kind == "partition-missing"]
        try:
            for cause, takes in half_copies(around):
                causes.add(cause, takes, is_of_many=True)
        except (UnreadableInput, OSError):  # another check reports this error
            pass
        if damage:
            whole = [without_topic_id(each) for each in whole]
            causes.add(damage[0], may_follow_from_metadata)
        try:
            for cause, takes in (
                *checkpoints_of_others(around),
                *wrong_starts(around),
                *old_marker(around),
            ):
                causes.add(cause, takes, is_of_many=True)
            whole = _of_other_directories(around, whole, causes)
        except (UnreadableInput, OSError):  # another check reports this error
            pass
        for cause, directories in exchanged:
            causes.add(cause, partial(_is_entry_of, directories))
        for cause in whole:
            if cause.kind == "meta-properties-node":
                causes.add(cause, lambda other: other.kind == "partition-stray")
            elif cause.kind == "partition-metadata-topic":
                causes.add(cause, partial(_is_of_id, cause))
        _add_missing(causes, missing, around)
        alone = ("partition-missing", "partition-swapped", "meta-properties-node", "partition-metadata-topic")
        yield from causes.settle(each for each in whole if each.kind not in alone)

    def _note_metadata_log(self, around: Surroundings, damage: Sequence[Finding]) -> None:
        """Note for the node's other log directories where its metadata log lies. damage: the damage in the metadata log
        of this log directory."""
        if damage:
            self._all.metadata_damage[around.path] = damage[0].path, damage[0].position
        elif around.metadata is not None and around.metadata.home != around.path:
            self._all.metadata_homes[around.path] = around.metadata.home

    def _logs(
        self, path: Path, parsed_name: DirectoryName | None, mine: list[Entry], below: _Inside, inside: _Inside
    ) -> Iterator[Finding]:
        """Yield the findings in the files of one directory.

        below: the facts about its subdirectories. inside: collects the facts about the log in the directory itself.
        """
        is_tier = parsed_name is not None and parsed_name.state == "remote"
        contents, own = self._sorted_out(
            mine, _recovered_from(parsed_name, inside.around), is_partition=parsed_name is not None and not is_tier
        )
        misplaced: list[Finding] = []
        longer: list[RenamedLog] = []
        logs = LogsFound()
        if parsed_name is not None and parsed_name.state == "":
            directory = path.absolute().name
            logs = _misplaced(inside.misplaced, directory)
            contents.put(inside.misplaced.segments.get(directory, {}), logs.foreign)
            misplaced = inside.misplaced.take(directory, is_alone=inside.is_alone)
        known = self._known(path, parsed_name, contents, inside.around)
        known = replace(
            known, foreign=[base for base in map(_log_base, (*logs.foreign, *logs.moved)) if base is not None]
        )
        if parsed_name is not None and parsed_name.state == "":
            missed, superseded = self._missed(path, contents, known)
            known = replace(known, superseded=superseded)
            misplaced += [deleted_log(path, each) for each in missed]
            restored = {str(path / name) for each in missed for name in each.names}
            own = [each for each in own if each.path not in restored]
            longer = _longer(contents, known)
            misplaced += [shorter_log(path / log_name(each.base_offset), each) for each in longer]
        completed = contents.complete_swaps()
        orphans = [] if path.name == REMOTE_INDEX_CACHE else contents.orphans()
        segments = contents.local_segments()
        in_log = Causes(self._tell)
        for finding in misplaced:
            in_log.add(finding, partial(is_about_segments, {Path(finding.path).stem}))
        verifier = LogVerifier(
            segments, contents.local_snapshots(), self._advance, orphans=orphans, known=known, causes=in_log
        )
        swapped = {file_beside(each.files[FileKind.LOG], FileKind.LOG).stem for each in completed}
        of_log = [
            with_own_log(each, verifier.renamed)
            for each in self._run(path, verifier)
            if each.kind not in MISSING_INDEX or Path(each.path).stem not in swapped
        ]
        of_log = _with_appended(_without_replaced(path, of_log, longer, {each.found for each in misplaced}))
        if parsed_name is not None and parsed_name.state == "":
            self._all.logs_found[path] = logs._replace(
                renamed=[*longer, *verifier.renamed],
                lost=verifier.lost,
                replaced=verifier.replaced,
                appended=_appended(of_log),
                last_epoch=verifier.last_epoch,
            )
        swaps = contents.swaps()
        of_log += self._swaps([each for each in swaps if each not in completed], segments, known.gaps)
        own += inside.foretold(path, of_log, completed) if _is_foretold(path, inside.around) else of_log
        if parsed_name is not None and parsed_name.state == "":
            lacking = (without_indexes(each, segments, known) for each in swaps)
            own += [each for each in lacking if each is not None]
        for one in contents.remote(self._advance):
            own += self._run(path, one)
        # Kafka empties the leader-epoch-checkpoint of a directory that it renames to -delete or -stray: missing entries
        # are no finding there.
        is_emptied = parsed_name is not None and parsed_name.state in ("delete", "stray")
        for entry, name in contents.rest:
            if name.kind in KRAFT_SNAPSHOTS:
                own += self._all.guarded(entry, self._all.kraft_snapshot)
            elif name.kind not in MARKERS:
                bounds = verifier.bounds
                epochs = [] if is_emptied else verifier.epochs
                small = partial(self._all.small_file, kind=name.kind, logs=below.logs, bounds=bounds, epochs=epochs)
                own += self._all.guarded(entry, small)
        if parsed_name is not None:
            own = self._as_partition(path, parsed_name, own, verifier, contents, inside)
        yield from self._settled(map(of_object, own) if is_tier else own)

    def _settled(self, own: Iterable[Finding]) -> list[Finding]:
        """Return the findings in a directory's files, without those that follow from another finding, which counts
        them."""
        causes = Causes(self._tell)
        alone = []
        for cause in own:
            if cause.kind == "leader-epoch" or (
                cause.kind == "records-foreign" and cause.consequences.get("leader-epoch")
            ):
                causes.add(cause, lambda other: other.kind == "checkpoint-epoch")
            elif cause.kind in ("file-type", "log-link"):
                causes.add(cause, partial(_is_about, Path(cause.path)))
            elif cause.kind in ("swap-log", "swap-index"):
                causes.add(cause, partial(_is_swap, Path(cause.path)))
            else:
                alone.append(cause)
        return causes.settle(alone)

    def _missed(
        self, path: Path, contents: _Contents, known: Known
    ) -> tuple[Sequence[MissedLog], Sequence[tuple[int, int]]]:
        """Find the .log files that Kafka's next start deletes because of their suffix.

        Return the .log files whose offsets the partition's log lacks, and add these files and the indexes beside them
        to `contents`. Also return the first and last offset of each other such .log file, without which no record is
        lost.
        """
        reached, is_compacted = max(known.ends.values(), default=0), known.gaps is Gaps.NORMAL
        try:
            names = contents.names() | {FileKind.LEADER_EPOCHS}
            files = {name: content for name, content in PartitionView(path).original.items() if name in names}
            found = missed_logs(
                files,
                reached=reached,
                is_compacted=is_compacted,
                is_tiered=known.is_tiered is True,
                retention=known.retention,
            )
        except UnreadableInput:  # the check of the log reports this error
            return [], []
        missed = [each for each in found if each.is_lost]
        contents.restore(path, missed)
        return missed, [(each.base_offset, each.last_offset) for each in found if not each.is_lost]

    def _swaps(self, swaps: Sequence[SegmentFiles], segments: Sequence[SegmentFiles], gaps: Gaps) -> Iterator[Finding]:
        """Yield findings for `.swap` segments that lack records of the segments that they replace."""
        for swap in swaps:
            try:
                finding = harmful(swap, swaps, segments, gaps, self._advance)
            except UnreadableInput as error:
                self._all.unreadable.append(error)
                continue
            if finding is not None:
                yield finding

    def _sorted_out(
        self, mine: list[Entry], recovered_from: int, *, is_partition: bool
    ) -> tuple[_Contents, list[Finding]]:
        """Return the files by type, and the findings for which no file has to be read: wrong file types, permissions,
        leftovers. recovered_from: the offset from which on a start recovers segments."""
        contents = _Contents()
        logs = [(entry, name) for entry, name in mine if name.kind is FileKind.LOG and not name.state]
        bases = [name.base_offset or 0 for entry, name in logs if entry.is_file()]
        found: list[Finding] = []
        for entry, name in mine:
            is_typed = is_partition or is_whiteout(entry)
            if is_typed and (odd := odd_type(entry, name, bases, recovered_from)) is not None:
                found.append(odd)
                continue
            try:
                status = status_of(entry)
            except UnreadableInput as error:
                self._all.unreadable.append(error)
                continue
            self._all.count(status.st_size)
            contents.add(entry, name)
            if is_partition and name.kind is FileKind.LOG and (link := foreign_link(entry)) is not None:
                found.append(link)
            if is_partition and (lacks := _lacking(status, name)):
                found.append(_mode(entry, status, lacks))
        deleted_from = first_cleaned(name for _, name in contents.leftovers)
        found += (_leftover(entry, name, deleted_from) for entry, name in contents.leftovers)
        return contents, found

    def _as_partition(
        self,
        path: Path,
        name: DirectoryName,
        own: list[Finding],
        verifier: LogVerifier,
        contents: _Contents,
        inside: _Inside,
    ) -> list[Finding]:
        """Return the findings of a partition's directory. Add the facts about the partition to `inside`, for the checks
        of the log directory, and move to `inside` those findings that may have a cause in the log directory. own: the
        findings in the directory's files."""
        if name.state in ("", "future") and verifier.bounds is not None and not _is_behind(path, name, inside.around):
            inside.logs.setdefault(TopicPartition(name.topic, name.partition), verifier.bounds)
        if name.state != "":
            return own
        if inside.around is not None:
            own += _absent_files(path, name, contents, verifier)
            own = [_with_topic_id(each, inside.around, name) for each in own]
        try:
            inside.partitions.setdefault(TopicPartition(name.topic, name.partition), stored_partition(path))
        except UnreadableInput as error:
            self._all.unreadable.append(error)
        if any(each.severity == "error" for each in own):
            inside.harmed.add(TopicPartition(name.topic, name.partition))
        own = inside.keep_of_copy(own)
        if name.topic != METADATA_TOPIC:
            return inside.keep_short(own)
        if not any(each.severity == "error" for each in own):
            own += contradicting_record(path)
        if verifier.bounds is not None and not any(each.severity == "error" for each in own):
            own += _behind_snapshot(path, contents, verifier.bounds)
        return inside.keep_damage(own)

    def _known(self, path: Path, name: DirectoryName | None, contents: _Contents, around: Surroundings | None) -> Known:
        """Return the information in other files about a partition's log."""
        if name is None or name.state == "remote":
            return Known(is_tiered=True)
        partition = TopicPartition(name.topic, name.partition)
        epochs = contents.leader_epochs()
        is_metadata = name.topic == METADATA_TOPIC
        if around is None:
            gaps = Gaps.LOSS if is_metadata else Gaps.UNKNOWN
            return Known(gaps, epochs=epochs, is_tiered=True if is_metadata else None)
        is_emptied = any(each.emptied is not None and each.emptied.path == path for each in around.missing)
        is_served = _is_served(path, name, around)
        promoted = around.promotions.get(path.absolute())
        counted_from = promoted.end if promoted is not None and not is_served else -1
        if name.state and _is_resumed(path, around):
            counted_from = OFFSET_MAX  # no checkpoint counts: Kafka copies the rest of the current log to here
        ends = {
            kind: offsets[partition]
            for kind, offsets in (
                (FileKind.RECOVERY_POINTS, around.start_points),
                (FileKind.REPLICATION_OFFSETS, around.high_watermarks),
            )
            if offsets.get(partition, -1) > counted_from and (is_served or not name.state)
            if _is_own(path, name, around) and not is_emptied
        }
        recovery_point = ends.get(FileKind.RECOVERY_POINTS, 0)
        ends = {kind: offset for kind, offset in ends.items() if kind not in around.of_others}
        is_tiered = True if is_metadata else around.is_tiered(name.topic)
        directory = path if is_served or path.absolute() in around.only_copies else None
        return Known(
            around.gaps(partition),
            ends,
            epochs,
            is_tiered,
            around.path,
            directory,
            around.is_clean and not is_metadata,  # a node recovers the metadata log at each start
            around.is_replicated(partition),
            keys=_keys(name, around),
            beside=around.node.others,
            recovery_point=recovery_point,
            retention=None if is_metadata else around.retention(name.topic),
            leader_epoch=around.leader_epoch(partition),
            strays=() if name.state else around.strays.get(partition, ()),
            preallocated_bytes=0 if is_metadata else around.preallocated_bytes(name.topic),
            cleaned=around.cleaned.get(partition, 0),
        )


def _behind_snapshot(path: Path, contents: _Contents, bounds: LogBounds) -> Iterator[Finding]:
    """Yield a note if the metadata log ends below its latest snapshot: a start deletes the log, and begins a new one at
    the snapshot's end offset. Either the end of the log is lost, or the snapshot has come from the leader."""
    snapshots = [(name.epoch or 0, name.base_offset or 0, entry) for entry, name in contents.rest if name.kind is KRAFT]
    epoch, offset, snapshot = max(snapshots, default=(-1, -1, path))
    if (epoch, offset) > (bounds.leader_epoch, bounds.end) and offset > bounds.end:
        yield Finding(
            path=str(snapshot),
            kind="log-behind-snapshot",
            severity="info",
            offset=bounds.end,
            expected=f"a log up to {offset:,}, where the snapshot ends, or beyond",
            found=f"the log ends at {bounds.end:,}",
            action=f"nothing to do: the snapshot has the metadata, and a start begins the log anew at {offset:,}",
        )


def _recovered_from(name: DirectoryName | None, around: Surroundings | None) -> int:
    """Return the offset from which on a start recovers the segments of a partition; OFFSET_MAX if it recovers none, or
    if that is not known."""
    if name is None or around is None:
        return OFFSET_MAX
    if name.topic == METADATA_TOPIC:
        return 0
    return OFFSET_MAX if around.is_clean else around.start_points.get(TopicPartition(name.topic, name.partition), 0)


def _keys(name: DirectoryName, around: Surroundings) -> Home | None:
    """Return the partition whose directory has this name, if its topic is that of a coordinator, so that the keys of
    its records show whether they belong to it. Return None for any other directory, and if the topic's number of
    partitions is not known."""
    if name.topic not in INTERNAL_TOPICS or name.state not in {"", "future"}:
        return None
    count = around.partition_count(name.topic)
    if not count:
        return None
    from kcli.log.recovery.misdirected import Home  # imported only for a coordinator's topic

    return Home(name.topic, name.partition, count)


def _misplaced(found: MisplacedLogs, directory: str) -> LogsFound:
    """Return the part of `found` about the .log files that are in the directory of this name, or belong in it."""
    copies, moved = (each.get(directory, {}) for each in (found.copies, found.moved))
    twins = found.twins.get(directory, {})
    return LogsFound(foreign=copies, moved=moved, twins=twins, elsewhere=found.found.get(directory, {}))


class _Inside:
    """The facts about the partitions in one directory, collected while the partitions are verified.

    around: what the files of the log directory say about its partitions; None if the directory is no log directory.
    metadata_damage, short, of_copy: findings of damage in the metadata log, those of OF_NAME, and those of files that a
    copy has left empty or padded; none of these is yielded before every partition is verified. is_alone: whether the
    directory is a partition's that is verified alone. misplaced: the .log files in directories of other partitions.
    apple_doubles: AppleDouble files (macOS). harmed: the partitions with errors in their own files. causes: the causes
    of findings in several partitions.
    """

    def __init__(self, around: Surroundings | None, causes: Causes, *, is_alone: bool = False) -> None:
        self.around = around
        self.causes = causes
        self.is_alone = is_alone
        self.misplaced = MisplacedLogs()
        if around is not None:
            self.misplaced = misplaced_logs.find_around(around)
        self.logs: Logs = {}
        self.partitions: dict[TopicPartition, StoredPartition] = {}
        self.metadata_damage: list[Finding] = []
        self.short: list[Finding] = []
        self.of_copy: list[Finding] = []
        self._emptied = _emptied(around)
        self.apple_doubles: list[Path] = []
        self.harmed: set[TopicPartition] = set()

    def foretold(
        self, partition: Path, findings: list[Finding], completed: Sequence[SegmentFiles]
    ) -> Sequence[Finding]:
        """Return the findings of a partition's directory, each with what Kafka's next start does about it. If the
        directory has .log files of other partitions, findings of records that a coordinator cannot load are left out,
        because those files cause them.

        completed: the `.swap` segments that the start renames into place.
        """
        found = _foretold(partition, findings, completed, self.around)
        has_foreign = bool(self.misplaced.segments.get(partition.absolute().name))
        return [each for each in found if not (has_foreign and each.kind == "not-loaded")]

    def keep_damage(self, findings: list[Finding]) -> list[Finding]:
        """Move the errors in the metadata log's files from the findings to `metadata_damage`, since the first of them
        is a cause of later findings. Return the other findings; commands after which Kafka would lose metadata are
        taken out of these.

        Returns all findings as they are if there is no such damage, or if the directory is not a broker's log
        directory.
        """
        errors = [each for each in findings if each.severity == "error"]
        damage = [each for each in errors if each.kind == "log-missing" or each.path.endswith((".log", ".checkpoint"))]
        if self.around is None or not self.around.is_broker or not damage:
            return findings
        self.metadata_damage = sorted(
            [*self.metadata_damage, *damage], key=lambda each: (each.path, each.position or 0)
        )
        return [_after_damage(each, self.around.path) for each in findings if each not in damage]

    def keep_of_copy(self, findings: list[Finding]) -> list[Finding]:
        """Move the findings of files that a copy to a full disk has left empty, or that a copy in blocks has padded, to
        `of_copy`, because the copy is the one cause of all of them. Return the other findings."""
        block = 0 if self.around is None else self.around.padded_to
        kept = [each for each in findings if each.path in self._emptied or is_of_padding(block, each)]
        self.of_copy += kept
        return [each for each in findings if each not in kept] if kept else findings

    def keep_short(self, findings: list[Finding]) -> list[Finding]:
        """Move to `short` the findings which say that a log ends too early, or that partition.metadata is damaged: two
        directories may have exchanged their names, which shows only when all directories are verified. Return the other
        findings; all findings if the directory is not a broker's log directory."""
        if self.around is None or not self.around.is_broker:
            return findings
        self.short += (each for each in findings if each.kind in OF_NAME)
        return [each for each in findings if each.kind not in OF_NAME]


def _emptied(around: Surroundings | None) -> Collection[str]:
    """Return the paths of the files that a copy to a full disk has left empty; none if files cannot be read."""
    try:
        return set() if around is None or not around.is_broker else set(map(str, around.emptied_files))
    except (UnreadableInput, OSError):  # another check reports this error
        return set()


def _after_damage(finding: Finding, log_directory: Path) -> Finding:
    """Return the finding, which is in a log directory whose metadata log is damaged. If it is about a damaged
    quorum-state, its next step becomes salvage: if only that file were removed, Kafka would start and lose metadata."""
    if finding.kind != "quorum-state-content":
        return finding
    action = "salvage leaves the file out, and keeps the metadata: without the file alone Kafka starts, and loses some"
    return replace(finding, action=action, command=next_steps.salvage_log_directory(log_directory))


class _Contents:
    """The files of one directory by type: files of segments, producer snapshots, leftovers (.deleted, .swap and so on),
    and other files."""

    def __init__(self) -> None:
        self.leftovers: list[Entry] = []
        self.rest: list[Entry] = []
        self._segments: dict[Key, SegmentFiles] = {}
        self._snapshots: dict[Key, Path] = {}

    def add(self, path: Path, name: FileName) -> None:
        key = name.base_offset or 0, name.remote_id or ""
        if name.state:
            self.leftovers.append((path, name))
        elif name.kind in SEGMENT_KINDS:
            self._segments.setdefault(key, SegmentFiles(key[0])).files[name.kind] = path
        elif name.kind is FileKind.PRODUCER_SNAPSHOT:
            self._snapshots[key] = path
        else:
            self.rest.append((path, name))

    def put(self, segments: Mapping[int, SegmentFiles | None], copies: Container[str]) -> None:
        """Set the segment at each of these base offsets; a value of None removes the segment there and its producer
        snapshot.

        copies: the names of files that were copied from another partition; producer snapshots among them are removed.
        """
        for base, segment in segments.items():
            if segment is not None:
                self._segments[base, ""] = segment
                if build(FileName(FileKind.PRODUCER_SNAPSHOT, base)) in copies:
                    self._snapshots.pop((base, ""), None)
            else:
                self._segments.pop((base, ""), None)
                self._snapshots.pop((base, ""), None)

    def names(self) -> frozenset[str]:
        """The names of the segments' files, of the producer snapshots and of the leftovers."""
        paths = [path for segment in self._segments.values() for path in segment.files.values()]
        return frozenset(
            path.name for path in (*paths, *self._snapshots.values(), *(path for path, _ in self.leftovers))
        )

    def restore(self, directory: Path, missed: Iterable[MissedLog]) -> None:
        """Add the files of `missed`, which have a suffix such as .swap, as if their names had no such suffix, and drop
        the files that they replace."""
        for each in missed:
            if each.replaced:
                self._segments.pop((each.base_offset, ""), None)
            for name in each.names:
                parsed = parse(name)
                if parsed is not None:
                    self.add(directory / name, parsed._replace(state=""))

    def orphans(self) -> list[SegmentFiles]:
        """The segments that have index files but no .log file."""
        return [segment for segment in self._segments.values() if FileKind.LOG not in segment.files]

    def complete_swaps(self) -> list[SegmentFiles]:
        """Add to the directory's segments the `.swap` segments in whose range of offsets no .log file begins, because
        Kafka's start renames them into place. Returns the added segments."""
        logs = [segment.base for segment in self.local_segments()]
        completed = []
        for swap in self.swaps():
            end = max(end_of(swap.files[FileKind.LOG]), swap.base + 1)
            if not any(swap.base <= base < end for base in logs):
                completed.append(swap)
                self._segments[swap.base, ""] = swap
        return completed

    def swaps(self) -> list[SegmentFiles]:
        """Return the `.swap` segments that have a .log file, and that Kafka's start renames into place.

        If the directory has `.cleaned` files, which an unfinished cleaning has left, the start deletes the `.swap`
        segments whose base offset is at or above the lowest base offset of a `.cleaned` file: these are left out.
        """
        swaps: dict[int, SegmentFiles] = {}
        deleted_from = first_cleaned(name for _, name in self.leftovers)
        for path, name in self.leftovers:
            if name.state == "swap" and name.kind in SEGMENT_KINDS and (name.base_offset or 0) < deleted_from:
                base = name.base_offset or 0
                swaps.setdefault(base, SegmentFiles(base)).files[name.kind] = path
        return [swap for swap in swaps.values() if FileKind.LOG in swap.files]

    def leader_epochs(self) -> Sequence[tuple[int, int]]:
        """Return the entries of the leader-epoch-checkpoint; none if the file is missing or damaged, which another
        check reports."""
        for path, name in self.rest:
            if name.kind is FileKind.LEADER_EPOCHS:
                try:
                    return parse_leader_epochs(read_whole(path))
                except (FormatError, UnreadableInput):
                    break
        return ()

    def local_segments(self) -> list[SegmentFiles]:
        """The local segments (not in tiered storage) with a .log file, by base offset."""
        return [segment for (_, remote), segment in self._with_log() if not remote]

    def local_snapshots(self) -> list[tuple[int, Path]]:
        """The local producer snapshots, by offset."""
        return sorted((offset, path) for (offset, remote), path in self._snapshots.items() if not remote)

    def remote(self, advance: Callable[[int], None]) -> Iterator[LogVerifier]:
        """Yield a verifier for each segment and each snapshot in tiered storage; these are independent and may
        overlap."""
        for key, segment in self._with_log():
            if key[1]:
                yield LogVerifier([segment], [], advance)
        for (offset, remote), path in sorted(self._snapshots.items()):
            if remote:
                yield LogVerifier([], [(offset, path)], advance)

    def _with_log(self) -> list[tuple[Key, SegmentFiles]]:
        return sorted(
            (item for item in self._segments.items() if FileKind.LOG in item[1].files), key=lambda item: item[0]
        )


def _of_other_directories(around: Surroundings, found: Sequence[Finding], causes: Causes) -> list[Finding]:
    """Add to `causes` the findings of checkpoints, and of entries in them, that belong in another log directory of the
    broker, and return the findings of `found` that do not follow from these. Raises UnreadableInput."""
    foreign, paths = exchanged_checkpoints(around)
    follows = ("checkpoint-absent", "log-start-offset", "checkpoint-empty")
    notes = [each for each in found if each.kind == "checkpoint-absent" and each.path in paths]
    rest = [each for each in found if each.kind not in follows or each.path not in paths]
    for cause in foreign:
        causes.add(replace(cause, consequences={"checkpoint-absent": len(notes)}), lambda _: False)
    for cause in entries_of_others(around, paths):
        causes.add(cause, lambda _: False)
        rest = [each for each in rest if each.kind != "checkpoint-absent" or each.path != cause.path]
    return rest


def _of_home(around: Surroundings | None, directories: Iterable[str]) -> Iterator[Finding]:
    """Yield the findings about a log directory for which no file has to be read; none if `around` is None. directories:
    the names of the directories in it."""
    if around is not None and around.is_broker:
        yield from duplicates(around.path, directories)
        yield from across_directories(around)
        yield from metadata_log_elsewhere(around)
        yield from _promoted_to_elsewhere(around)
    if around is not None:
        yield from metadata_topic_id(around)
        yield from others_quorum_state(around)
        yield from shared_directories(around.path)
        yield from linked(around.path)


def _foretold(
    path: Path, found: Sequence[Finding], completed: Sequence[SegmentFiles], around: Surroundings | None
) -> list[Finding]:
    """Return the findings in the .log files of a partition's directory, each with the outcome of Kafka's next start.
    completed: the `.swap` segments that the start renames into place."""
    in_place = [in_its_place(each, completed) for each in found]
    return [of_swap(each, completed) for each in with_outcomes(path, in_place, around)]


def _longer(contents: _Contents, known: Known) -> list[RenamedLog]:
    """Return the longer versions of .log files that lie beside them under other names. In `contents`, each longer
    version that is in one file, and not compressed (as .gz), replaces the .log file."""
    found: list[RenamedLog] = []
    segments = contents.local_segments()
    for number, segment in enumerate(segments, 1):
        until = segments[number].base if number < len(segments) else None
        reached = max(known.ends.values(), default=0) if until is None else 0
        is_compacted = known.gaps is Gaps.NORMAL
        each = renamed_logs.longer(segment, until, is_compacted=is_compacted, reached=reached, keys=known.keys)
        if each is not None:
            found.append(each)
            if each.is_as_stored:
                segment.files[FileKind.LOG] = each.path
    return found


def _without_replaced(
    path: Path, found: Sequence[Finding], longer: Sequence[RenamedLog], told: Collection[object]
) -> list[Finding]:
    """Return the findings without those in a .log file that has a longer version (`longer`) which is compressed or cut
    into parts: `_longer` could not check such a version in place of the file. told: the texts of the findings that name
    the longer versions; these findings are kept."""
    replaced = {str(path / log_name(each.base_offset)) for each in longer if not each.is_as_stored}
    return [each for each in found if each.path not in replaced or each.found in told]


def _log_base(file: str) -> int | None:
    """The base offset in the name of a .log file; None for another file."""
    name = parse(file)
    return name.base_offset if name is not None and name.kind is FileKind.LOG else None


def _is_about(path: Path, finding: Finding) -> bool:
    """Return whether the finding is about the file at `path`, or about another file of the same segment."""
    other = Path(finding.path)
    return other.parent == path.parent and (other.name == path.name or other.stem == path.stem)


def _is_entry_of(directories: set[str], finding: Finding) -> bool:
    """Whether the finding is about the entry of one of these partitions in a checkpoint. directories: the names of the
    partitions' directories."""
    return any(f"{name}: " in f"{finding.expected}" for name in directories)


def _odd_name(path: Path, around: Surroundings | None) -> Iterator[Finding]:
    """Yield a finding if the name of a directory in a broker's log directory keeps Kafka from starting."""
    if around is None or not (around.is_broker or is_nested(path)) or _is_of_missing(path, around):
        return
    for finding in odd_name(path):
        action = f"{finding.action}, and put its new place into log.dirs" if around.is_listed(path) else finding.action
        yield replace(finding, action=action)


def _without_renamed(findings: Sequence[Finding], renamed: Sequence[RenamedLog]) -> list[Finding]:
    """Return the findings but those of odd names of files that another finding gives their names back."""
    named = {str(path) for each in renamed for path in each.files}
    return [each for each in findings if each.kind != "file-name" or each.path not in named]


def _add_missing(causes: Causes, missing: Sequence[Finding], around: Surroundings) -> None:
    """Add the findings of missing partitions, and what they have in common, to the causes in a log directory."""
    aside = left_aside(around, missing)
    if aside is not None:
        causes.add(*aside, is_of_many=True)
    for cause in missing:
        causes.add(cause, partial(_is_entry_of, {Path(cause.path).name}))


def _once_back(finding: Finding, around: Surroundings | None) -> Finding:
    """Return a finding in a directory that is to get the name of a missing partition back, with what follows then.
    around: the log directory; None for any other directory."""
    leaves = NextStart.LEAVES.value
    if around is None or not finding.action.startswith(leaves):
        return finding
    action = f"{UNREAD}, and consumers meet it once the directory has its name back{finding.action[len(leaves) :]}"
    return replace(finding, action=action, command=next_steps.salvage_log_directory(around.path))


def _is_of_missing(path: Path, around: Surroundings) -> bool:
    """Return whether the directory is that of a missing partition, or the metadata log, under another name. Then the
    finding of the missing partition or metadata log names the directory already."""
    if path == around.renamed_metadata_log:
        return True
    return any(each.renamed is not None and each.renamed.path == path for each in around.missing)


def _is_of_id(cause: Finding, finding: Finding) -> bool:
    """Return whether the finding is a consequence of a wrong topic id (`cause`): a finding about the directory's entry
    in a checkpoint, or about the missing partition of the topic that has the id."""
    if finding.kind == "partition-missing":
        return has_no_directory(Path(finding.path).name) in f"{cause.found}"
    return _is_entry_of({Path(cause.path).parent.name}, finding)


def _or_of_copy(finding: Finding, around: Surroundings, copies: Collection[str]) -> Finding:
    """Return the finding. That of a wrong topic id in a directory that is a copy of another partition's gets another
    command: with the right id alone Kafka would serve the other partition's records there. copies: the names of these
    directories."""
    if finding.kind != "partition-metadata-topic" or Path(finding.path).parent.name not in copies:
        return finding
    action = "do not write the file anew alone: Kafka would then serve the other partition's records under this name; "
    action += "salvage leaves the copied files out, too"
    return replace(finding, action=action, command=next_steps.salvage_log_directory(around.path))


def _is_swap(path: Path, finding: Finding) -> bool:
    """Return whether the finding is about a leftover file, or a missing index, of the same `.swap` segment as
    `path`."""
    other = Path(finding.path)
    is_of_swap = finding.kind in ("leftover-file", "swap-index")
    return is_of_swap and other.suffix == path.suffix and other.name[:20] == path.name[:20]


def _lacking(status: os.stat_result, name: FileName) -> int:
    """The permission bits that Kafka needs and the file's owner lacks. KRaft snapshots are read-only."""
    needed = stat.S_IRUSR if name.kind is FileKind.KRAFT_SNAPSHOT else stat.S_IRUSR | stat.S_IWUSR
    return needed & ~status.st_mode


def _mode(path: Path, status: os.stat_result, lacks: int) -> Finding:
    verbs = [verb for bit, verb in ((stat.S_IRUSR, "read"), (stat.S_IWUSR, "write")) if lacks & bit]
    return Finding(
        path=str(path),
        kind="file-mode",
        severity="warning",
        expected="a file that its owner may read and write",
        found=f"mode {stat.S_IMODE(status.st_mode):04o}: the owner may not {' or '.join(verbs)} it",
        action="give the permission back: Kafka does not start without it, but as root",
        command=next_steps.permit(path),
    )


def _closed_files(home: Path) -> tuple[Finding, Callable[[Finding], bool]] | None:
    """Return one finding for all files in the partitions of a log directory that their owner may not read or write, and
    a predicate for the findings of the single files. Returns None if there are fewer than SEVERAL such files. Raises
    UnreadableInput."""
    closed = []
    for each in LogDirectory(home).partitions():
        for path in each.path.iterdir():
            name = parse(path.name)
            if name is None or name.kind in MARKERS or not path.is_file():
                continue
            status = path.stat()
            if lacks := _lacking(status, name):
                closed.append((path, status, lacks))
    if len(closed) < SEVERAL:
        return None
    first = _mode(*min(closed))
    finding = replace(
        first,
        path=str(home),
        expected="files that their owner may read and write",
        found=f"{len(closed):,} files are closed to their owner, such as {Path(first.path).relative_to(home)}, "
        f"{first.found}",
        command=next_steps.permit_files(home),
    )
    return finding, lambda other: other.kind == "file-mode"


def _absent_file(path: Path, found: str, severity: Severity, action: str, command: str | None) -> Finding:
    """Return the finding of a missing small file."""
    kind = "quorum-state-missing" if path.name == FileKind.QUORUM_STATE else "checkpoint-missing"
    return Finding(
        path=str(path),
        kind=kind,
        severity=severity,
        expected="a file",
        found=f"no such file: {found}",
        action=action,
        command=command,
    )


def _is_own(path: Path, name: DirectoryName, around: Surroundings) -> bool:
    """Return whether a directory has the topic id of the topic in its name; True if one of the two ids is not known."""
    try:
        topic_id = stored_partition(path).topic_id
    except UnreadableInput:
        return True
    return topic_id is None or around.topic_id(name.topic) in (None, topic_id)


def _absent_files(path: Path, name: DirectoryName, contents: _Contents, verifier: LogVerifier) -> Iterator[Finding]:
    """Yield findings for missing small files that Kafka keeps beside every log."""
    kinds = {each.kind for _, each in contents.rest}
    if any(epoch >= 0 for epoch, _ in verifier.epochs) and FileKind.LEADER_EPOCHS not in kinds:
        found = "the leaders of the batches here are not known, and replicas may be cut at the wrong offsets"
        is_metadata = name.topic == METADATA_TOPIC
        action, command = (REBUILT, None) if is_metadata else (REBUILD_EPOCHS, next_steps.salvage(path))
        yield _absent_file(path / FileKind.LEADER_EPOCHS, found, "warning", action, command)
    if name.topic == METADATA_TOPIC and verifier.bounds is not None and FileKind.QUORUM_STATE not in kinds:
        found = "the node does not know whom it has voted for, and may vote again in the same epoch"
        action = "start the node only when no election is under way; it writes the file anew"
        yield _absent_file(path / FileKind.QUORUM_STATE, found, "warning", action, None)


def _with_errors(findings: Iterable[Finding]) -> set[str]:
    """Return the names of the directories with errors, and of the directories that have files with errors."""
    paths = (Path(each.path) for each in findings if each.severity == "error")
    return {name for path in paths for name in (path.name, path.parent.name)}


def _topics_of(names: Iterable[str]) -> set[str]:
    """Return the topics of the partitions whose directories have these names; other names are passed over."""
    return {parsed.topic for name in names if (parsed := parse_directory(name)) is not None}


def _with_topic_id(finding: Finding, around: Surroundings, name: DirectoryName) -> Finding:
    """Return the finding. If it is about partition.metadata, it gets the command that writes the file again with the
    topic id in the metadata log; no command if the metadata log may lack its last records."""
    if not finding.kind.startswith("partition-metadata-") or around.metadata is None:
        return finding
    if not around.has_topic_ids:
        return without_topic_id(finding)
    command = partition_metadata_command(Path(finding.path), around.topic_id(name.topic))
    return finding if command is None else replace(finding, command=command, action=WRITE_ANEW)


def _is_served(path: Path, name: DirectoryName, around: Surroundings | None) -> bool:
    """Whether a partition's directory has a log that Kafka serves after its next start, or after the move that this
    start resumes: the current log, unless a future log replaces it; or the future log that replaces it. A current log
    that the operator should keep, because the future log lacks some of its offsets, counts as served, too."""
    promoted = None if around is None or name.state not in ("", "future") else around.promotions.get(path.absolute())
    if promoted is None:
        return not name.state
    if promoted.promotion.is_resumed:
        return True
    is_kept = promoted.is_current_better and (bool(promoted.lost) or promoted.promotion.is_refused)
    if promoted.promotion.is_refused:  # Kafka starts only once one of the two logs is moved away
        return is_kept is (not name.state)
    return is_kept or bool(name.state)


def _is_resumed(path: Path, around: Surroundings | None) -> bool:
    """Whether a directory has the current or the future log of a move that Kafka's start resumes."""
    promoted = None if around is None else around.promotions.get(path.absolute())
    return promoted is not None and promoted.promotion.is_resumed


def _is_foretold(path: Path, around: Surroundings | None) -> bool:
    """Whether the findings in a directory are to say what Kafka's next start does with the log in it. True only for a
    log that is served after the start; False for a future log that the operator should move away, and for one whose
    move Kafka resumes, since Kafka then copies again what the start cuts off."""
    name = parse_directory(path.absolute().name)
    if name is None or not _is_served(path, name, around):
        return False
    promoted = None if around is None or not name.state else around.promotions[path.absolute()]
    if promoted is None:
        return True
    is_aside = bool(promoted.lost) and promoted.is_current_better
    return not promoted.promotion.is_resumed and not is_aside


def _is_behind(path: Path, name: DirectoryName, around: Surroundings | None) -> bool:
    """Whether a directory has the current log of a partition, and Kafka's start replaces that log with a longer future
    log: the partition's entries in the checkpoints are then compared with the future log."""
    if around is None or name.state or _is_served(path, name, around):
        return False
    promoted = around.promotions[path.absolute()]
    return promoted.current_end < promoted.end


def _promoted(path: Path, around: Surroundings) -> Compared | None:
    """Return the comparison of the future log in a directory with the current log that Kafka's start replaces with it;
    None if the directory has no such future log, or if Kafka resumes the move of that log and loses no offsets."""
    compared = around.promotions.get(path.absolute())
    if compared is None or (compared.promotion.is_resumed and not compared.lost):
        return None
    return compared if compared.promotion.future.absolute() == path.absolute() else None


def _promoted_to_elsewhere(around: Surroundings) -> Iterator[Finding]:
    """Yield a finding for each current log in this log directory that Kafka's start replaces with a future log, if the
    future log lies in a log directory that is not verified."""
    if around.promotions:
        from kcli.inspector.verify.promoted_logs import promoted_log

        for compared in around.promotions.values():
            home = compared.promotion.future.parent
            is_quiet = compared.promotion.is_resumed and not compared.lost
            if not is_quiet and not around.is_given(home) and not same_path(home, around.path):
                yield promoted_log(around, compared)


def _leftover_directory(path: Path, name: DirectoryName, around: Surroundings | None) -> Iterator[Finding]:
    """Yield the finding of a directory with -delete, -future or -stray. A directory with the records of a partition
    that another log directory lacks has none here if that one is verified, too, since its finding names the directory
    already."""
    promoted = None if around is None or name.state != "future" else _promoted(path, around)
    if around is None:
        yield _suffixed(path, name)
    elif name.state != "future":
        yield from _set_aside(path, name, around)
    elif promoted is None:
        alone = only_copy(path, name, around)
        partition = TopicPartition(name.topic, name.partition)
        note = _suffixed(path, name)
        if around.may_be_alone(partition):
            note = replace(note, action=unknown_current(f"{partition}"))
        yield note if alone is None else alone
    else:
        from kcli.inspector.verify.promoted_logs import promoted_log

        yield promoted_log(around, promoted)


def _set_aside(path: Path, name: DirectoryName, around: Surroundings) -> Iterator[Finding]:
    """Yield the finding of a directory with -delete or -stray in a log directory."""
    finding, missed = _suffixed(path, name), around.missed_elsewhere.get(path)
    if missed is not None:
        if not around.is_given(missed.parent):  # else the finding of the missing partition names the directory
            yield replace(
                finding,
                severity="error",
                found=f"{missed.name}, which the metadata log places in {missed.parent}, where it is missing",
                action="a start makes an empty one there; stop the broker, and move the directory back, under its name",
                command=next_steps.move([(path, missed)]),
            )
        return
    served = None if name.state != "stray" else _served_beside(PartitionDirectory(path, name), around)
    if served is not None:
        found = f"{served.name}, as an earlier start left it aside: Kafka serves {served}"
        finding = replace(finding, found=found, action="keep it until you know that that one has all its records")
    yield finding


def _served_beside(directory: PartitionDirectory, around: Surroundings) -> Path | None:
    """As `Surroundings.served_beside`; None if a file cannot be read, which another check reports."""
    try:
        return around.served_beside(directory)
    except (KcliError, OSError):
        return None


def _suffixed(path: Path, name: DirectoryName) -> Finding:
    partition = f"{name.topic}-{name.partition}"
    severity: Severity = "warning" if name.state == "stray" else "info"
    found, action = {
        "delete": (f"{partition}, deleted", "nothing to do: a broker deletes it file.delete.delay.ms after its start"),
        "future": (f"{partition}, being moved here", "nothing to do: the broker goes on with the move, or drops it"),
        "stray": (
            f"{partition}, which the metadata did not place on this broker",
            "keep it until you know that its topic was deleted, or that other replicas have its records",
        ),
    }[name.state]
    return Finding(path=str(path), kind="leftover-directory", severity=severity, found=found, action=action)


def _with_appended(found: Iterable[Finding]) -> list[Finding]:
    """Return the findings. If another partition's log was appended to a .log file, one finding says so, and replaces
    the finding of the gap between the offsets and all findings behind the gap."""
    told: list[Finding] = []
    ends: dict[str, int] = {}
    gaps: Counter[str] = Counter()
    for each in found:
        if (each.position or 0) >= ends.get(each.path, OFFSET_MAX):
            continue
        is_gap = each.kind == "offset-gap" and each.severity != "info"
        gaps[each.path] += is_gap
        foreign = appended(each) if is_gap and gaps[each.path] <= GAPS_TRIED else None
        if foreign is not None:
            ends[each.path] = foreign.position or 0
        told.append(foreign or each)
    return told


def _appended(found: Iterable[Finding]) -> dict[str, Finding]:
    return {Path(each.path).name: each for each in found if each.kind == "log-foreign" and each.position}


def _leftover(path: Path, name: FileName, deleted_from: int) -> Finding:
    """Return the finding about a file that a crash has left. deleted_from: Kafka's start deletes the `.swap` files with
    this base offset or a higher one."""
    alone = index_alone(path, name) if name.state == "swap" and (name.base_offset or 0) < deleted_from else None
    if alone is not None:
        return alone
    severity: Severity = "info" if name.state in ("deleted", "tmp", "part") else "warning"
    found, action = {
        "deleted": ("a file that is to be deleted", "nothing to do: a broker deletes it at its start"),
        "cleaned": ("output of a cleaning that was interrupted", "nothing to do: a broker deletes it at its start"),
        "swap": (
            "output of a cleaning that was to replace segments",
            "nothing to do: a broker puts it in their place at its start",
        ),
        "dropped": (
            "output of a cleaning that was interrupted before it could replace segments",
            "nothing to do: a broker deletes it at its start, as a .cleaned file is at or below it",
        ),
        "tmp": ("a file that was being written", "nothing to do: it is written anew"),
        "part": ("a snapshot that was being written", "nothing to do: a node deletes it at its start"),
    }["dropped" if name.state == "swap" and (name.base_offset or 0) >= deleted_from else name.state]
    return Finding(path=str(path), kind="leftover-file", severity=severity, found=found, action=action)


def _unknown(path: Path) -> Finding:
    action = "nothing to do: Kafka leaves it alone"
    return Finding(
        path=str(path),
        kind="unknown-file",
        severity="info",
        found="not named like any file that Kafka writes",
        action=action,
    )
