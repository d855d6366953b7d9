"""Compares a log directory with the other log directories of its broker.

    another has no meta.properties      Kafka does not start (the disk is lost or not mounted); a lost+found in that
                                        directory keeps Kafka from starting, too
    one directory.id, and partitions    one is a copy, or a disk is mounted at both places: Kafka does not start; one
                                        is to leave log.dirs, and its partitions are no second ones
    cluster.id, node.id, directory.id   Kafka does not start if the first two differ between directories, or if two
                                        have the same directory.id
    a second __cluster_metadata-0       Kafka does not start: it belongs in metadata.log.dir, else the first of log.dirs
    a directory that is not given       the metadata log places partitions in it: nothing tells whether they are there
    no directory with a registered id   a disk is lost, even if another was formatted in its place: Kafka starts
    its partitions in another   as where one log directory was copied over another: Kafka starts, and has no leader for
                                        those without other replicas, unless the metadata log has one, as after a crash
    exchanged meta.properties           two have each other's directory.id: Kafka starts, and serves all partitions
    checkpoints of another directory    Kafka ignores their entries, and forgets log start offsets
    an entry of another directory       in cleaner-offset-checkpoint: Kafka's log cleaner ends if two files have it
    a partition in another directory    than the one in which the metadata log places it: Kafka serves it there

A partition in two directories is in copied_directories.py. Source: kcli.log.recovery.node_directories.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from formats.checkpoint import OffsetEntry, build_offsets
from formats.file_name import METADATA_DIRECTORY, FileKind
from formats.properties import MetaProperties
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.broker_directory import odd_name
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.promoted_logs import PROMOTED
from kcli.inspector.verify.surroundings import Surroundings
from kcli.log.log_directory import LogDirectory, is_log_directory, partition_named
from kcli.log.recovery.entries_elsewhere import EntriesElsewhere, entries_elsewhere
from kcli.log.recovery.exchanged_checkpoints import ForeignCheckpoints, foreign_checkpoints
from kcli.log.recovery.node_directories import misplaced_metadata_log, same_path, without_leader_text
from kcli.metadata_log.known_properties import text_of
from kcli.printable import names_text

COPY = "one is a copy of the other, or a disk is mounted at both places"
MERGED_LEAST = 3
"""The least number of partitions of another log directory that make it probable that all its files were copied here."""
ENTRIES_WRITTEN = 100
"""The maximum number of entries of a checkpoint that a command writes; else recovery writes them."""
NAMES_SHOWN = 4
"""The maximum number of partitions that a finding names."""
SERVED_HERE = (
    "Kafka serves them from here, and recovers those that the checkpoints lack from their beginning: look for the "
    "other log directory, or leave them here"
)
SERVED_IF_LED = (
    "if log.dirs names no directory with this id, those without other replicas have no leader after an orderly stop: "
    "verify with --config FILE"
)


def metadata_log_elsewhere(around: Surroundings) -> Iterator[Finding]:
    """Yield the finding of a metadata log that is missing: it has another name, it is in another log directory of the
    node, or it is nowhere though server.properties makes the node a controller with its metadata log in this log
    directory."""
    path, other = around.path / METADATA_DIRECTORY, around.renamed_metadata_log
    home = around.node.metadata_home
    is_home = home is not None and same_path(home, around.path)
    misplaced = misplaced_metadata_log(home, around.node.others) if is_home else None
    finding = Finding(
        path=str(path),
        kind="partition-missing",
        severity="error",
        expected="the metadata log",
        found="no such directory: Kafka starts, knows no topic, and renames all partitions to -stray",
        action="do not start the broker: look for the directory, also in backups; salvage makes a new one from the "
        "directories of the partitions, without configurations, ACLs and users",
        command=next_steps.salvage_log_directory(around.path),
    )
    if other is not None:
        refuses = partition_named(other.name) is None
        outcome = "does not start" if refuses else "starts, knows no topic, and renames all partitions to -stray"
        yield replace(
            finding,
            found=f"no such directory: it has the name {other.name}, with which Kafka {outcome}",
            action="stop the broker, and give the directory its name back: without it Kafka knows no topic",
            command=next_steps.move([(other, path)]),
            refuses_start=refuses,
        )
    elif misplaced is not None:
        if not around.is_given(misplaced.parent):  # else across_directories() reports it for that directory
            yield replace(
                finding,
                found=f"no such directory: it is in {misplaced.parent}, and Kafka does not start (Found unexpected "
                "metadata location)",
                action="stop the broker, and move it back: without it Kafka knows no topic; if the two directories "
                "have each other's disks or names, exchange them",
                command=next_steps.move([(misplaced, path)]),
                refuses_start=True,
            )
    elif around.lacks_metadata_log:
        yield finding


def across_directories(around: Surroundings) -> Iterator[Finding]:
    """Yield the findings of the comparison of a log directory with the others of its broker. If two directories are
    verified, a finding about both is yielded for one of them only. around: the log directory, with what is known of the
    others."""
    if not around.is_broker:
        return
    for each in around.node.unformatted:
        # if that directory is verified too, its own checks report the missing meta.properties
        if not (around.is_given(each) and each.is_dir() and is_log_directory(each)):
            yield _unformatted(around, each)
            yield from _odd_names(each)
    if around.node.same:
        yield _same(around)
    for each in around.copies_given:
        if _is_first(around.path, each):
            yield _copy_given(around.path, each)
    yield from _absent(around)
    yield from _merged(around)
    yield from _meta_properties(around)
    yield from _moved(around)


def second_metadata_log(around: Surroundings) -> tuple[Finding, Callable[[Finding], bool]] | None:
    """Return the finding of a metadata log in another log directory than the broker's, with a predicate for the
    findings in its files, which no broker reads if the broker has its own metadata log; None if there is none."""
    home = around.node.metadata_home
    if not around.is_broker or not around.node.has_second_metadata_log or home is None:
        return None
    path = around.path / METADATA_DIRECTORY
    action, command = "move it out of the log directory", next_steps.move([(path, next_steps.beside(path))])
    is_only = not (home / METADATA_DIRECTORY).exists()
    if is_only:
        action = f"keep it: it is the only one, without which Kafka knows no topic; if {home} and {around.path} "
        action += "have each other's disks or names, exchange them; else set metadata.log.dir, or move it there"
        command = next_steps.move([(path, home / METADATA_DIRECTORY)])
    elif not around.is_configured:
        action += f", unless server.properties (--config) says that it is the broker's: that in {home} ends no earlier"
    finding = Finding(
        path=str(path),
        kind="directory-name",
        severity="error",
        expected="the metadata log in the directory that metadata.log.dir names, else in the first of log.dirs",
        found="a metadata log in another one: Kafka does not start with it (Found unexpected metadata location)",
        action=action,
        command=command,
        refuses_start=True,
    )
    return finding, lambda other: not is_only and Path(other.path).is_relative_to(path)


def _unformatted(around: Surroundings, directory: Path) -> Finding:
    """Return the finding of another log directory without meta.properties: lost, not mounted or not formatted."""
    path = directory / FileKind.META_PROPERTIES
    state = "it has none" if directory.is_dir() else "no such directory"
    state = "it is empty" if directory.is_dir() and not any(directory.iterdir()) else state
    placed = [partition for each in around.in_absent_directories.values() for partition in each]
    lost = (
        f"; the metadata log places {names_text(placed, NAMES_SHOWN)} in a log directory that is not here"
        if placed
        else ""
    )
    action = "mount its disk, or restore it from a backup; or take it out of log.dirs"
    known, command = around.properties_of_unknown(), next_steps.look(directory)
    merged = around.of_absent_here.get(str(known and known.directory_id), ())
    if merged and known is not None and len(around.node.unformatted) == 1:
        lost = f"; {len(merged):,} partitions that the metadata log places in it lie in {around.path}"
        action += "; or write the file with the id that the metadata log has: Kafka serves the partitions from there"
        command = next_steps.make_and_write(path, text_of(known))
    elif known is not None and len(around.node.unformatted) == 1:
        action += (
            "; where it is lost, write the file with the id that the metadata log has: Kafka makes its partitions "
        )
        action += "empty (with a new id, as kafka-storage format gives it, they would stay offline)"
        command = next_steps.make_and_write(path, text_of(known))
    if not directory.exists() and (directory.parent / FileKind.META_PROPERTIES).exists():
        action = "put the place of the directory into log.dirs: Kafka does not start with one within another"
        moved = next_steps.beside(directory)
        command = next_steps.look(moved if moved.exists() else directory.parent)
    return Finding(
        path=str(path),
        kind="meta-properties-missing",
        severity="error",
        expected="a file, as log.dirs names the directory" if around.is_configured else "a file, as in a log directory",
        found=f"{state}: Kafka does not start{lost}",
        action=action,
        command=command,
        refuses_start=True,
    )


def _same(around: Surroundings) -> Finding:
    """Return the finding that two entries of log.dirs, or two verified paths, are one directory."""
    node = around.node
    link = node.link or node.same[1]
    action = (
        "give each entry of log.dirs a directory of its own: mount the disk that belongs in its place, or take it out"
    )
    if node.link is not None:
        action = (
            "stop the broker, and remove the link; then mount the disk that belongs there, or take it out of log.dirs"
        )
    return Finding(
        path=str(link),
        kind="meta-properties-node",
        severity="error",
        expected="a log directory of its own",
        found=f"{node.same_text}: Kafka does not start with both (Duplicate directory ID)",
        action=action,
        command=next_steps.look(link) if node.link is None else f"rm -- {next_steps.quoted(link)}",
        refuses_start=True,
    )


def _odd_names(directory: Path) -> Iterator[Finding]:
    """Yield a finding for each directory, in a log directory without meta.properties, whose name also keeps Kafka from
    starting: lost+found on a new disk, for example."""
    with suppress(UnreadableInput):
        for each in LogDirectory(directory).misnamed() if directory.is_dir() else ():
            yield from odd_name(each)


def _absent(around: Surroundings) -> Iterator[Finding]:
    """Yield a finding for each log directory that is lost: the metadata log places partitions in it, and no log
    directory of the node has its directory.id. If several directories of the node are verified, the findings are
    yielded for the first of them only."""
    homes = [around.path, *around.node.others]
    is_here = not any(around.is_given(each) and _is_first(each, around.path) for each in homes[1:])
    is_known = around.has_all_directories and not around.has_foreign_metadata_log
    if not is_here or not around.in_absent_directories:
        return
    if not is_known:
        yield from _not_given(around)
        return
    anew = next((each for each in homes if not LogDirectory(each).partitions()), None)
    instead = "" if anew is None else f"; {anew}, which has no partition, was formatted in its place"
    for directory_id, partitions in around.in_absent_directories.items():
        if directory_id in around.mended_ids.values():  # reported by the finding of the directory with a wrong id
            continue
        is_lost = not all(around.is_replicated(each) for each in partitions)
        outcome = "those without other replicas have no leader" if is_lost else "fetches them from other replicas"
        names = names_text(partitions, NAMES_SHOWN)
        yield Finding(
            path=str(anew or around.path),
            kind="log-directory-missing",
            severity="error" if is_lost else "warning",
            expected=f"directory.id {directory_id}, in which the metadata log places {len(partitions):,} "
            f"partition{'s' if len(partitions) > 1 else ''}",
            found=f"none of the node's log directories has this id: {names} are not here{instead}"
            + ("" if around.node.same else f"; Kafka starts, makes empty directories of them, and {outcome}"),
            action="do not start the broker: mount the disk, or restore it from a backup",
            command=next_steps.search_log_directory(directory_id),
        )


def _merged(around: Surroundings) -> Iterator[Finding]:
    """Yield a finding for each log directory of the node whose partitions lie in this one: the files of one were copied
    over those of the other. It is an error if Kafka has no leader for them, and then a single partition is enough."""
    properties = around.properties
    for directory_id in {**around.of_absent_here, **around.without_leader}:
        leaderless = around.without_leader.get(directory_id, ())
        partitions = around.of_absent_here.get(directory_id, ()) or leaderless
        if directory_id in around.mended_ids.values() or (len(partitions) < MERGED_LEAST and not leaderless):
            continue
        found = (
            f"{len(partitions):,} partition{'s' if len(partitions) > 1 else ''} of another log directory of the node "
        )
        found += f"{'are' if len(partitions) > 1 else 'is'} here, such as {names_text(partitions, 2)}"
        if len(partitions) >= MERGED_LEAST:
            found += ": the files of one were copied over those of the other"
            found += f"; {FileKind.META_PROPERTIES}, and so the checkpoints, are of one of both" if properties else ""
        finding = Finding(
            path=str(around.path),
            kind="log-directory-missing",
            severity="warning",
            expected=f"a log directory with directory.id {directory_id}, in which the metadata log places these",
            found=found,
            action=SERVED_HERE if around.has_all_directories else SERVED_IF_LED,
            command=next_steps.search_log_directory(directory_id),
        )
        yield _without_leader(around, finding, directory_id) if leaderless else finding


def _without_leader(around: Surroundings, finding: Finding, directory_id: str) -> Finding:
    """Return the finding of partitions of a lost log directory that are here, as the error that Kafka has no leader for
    them. An empty log directory with the lost id makes Kafka serve them, unless others of its partitions are missing:
    then the lost directory is to be found."""
    found = f"{finding.found}; {without_leader_text(around.without_leader[directory_id])}"
    finding = replace(finding, severity="error", found=found)
    meta, home = around.properties, around.path.absolute()
    if around.in_absent_directories.get(directory_id) or meta is None:
        return replace(finding, action="do not start the broker: look for the other log directory")
    new = home.with_name(f"{home.name}-{directory_id}")
    text = text_of(MetaProperties(1, meta.cluster_id, meta.node_id, directory_id))
    return replace(
        finding,
        action=f"stop the broker, make an empty log directory with this id, and add {new} to log.dirs: Kafka then "
        "serves the partitions from here, and tells the controller their new place; after that start the empty one may "
        "leave log.dirs again",
        command=next_steps.make_and_write(new / FileKind.META_PROPERTIES, text),
    )


def _not_given(around: Surroundings) -> Iterator[Finding]:
    """Yield a note if the metadata log places partitions in other log directories of the node, and it is not known
    where these are."""
    count = around.count_of_unknown
    right_ids = {*around.mended_ids.values()}
    placed = [each for home, found in around.in_absent_directories.items() if home not in right_ids for each in found]
    if not count or not placed or around.node.unformatted or around.has_foreign_metadata_log:
        return
    are = "partition is" if len(placed) == 1 else "partitions are"
    yield Finding(
        path=str(around.path),
        kind="log-directory-elsewhere",
        severity="info",
        expected=f"all {count + 1 + len(around.node.others):,} log directories that the node has registered",
        found=f"{len(placed):,} {are} placed in another log directory, which is not given: "
        f"{names_text(placed, NAMES_SHOWN)}",
        action="give all log directories, or --config FILE with log.dirs: without these nothing tells whether the "
        "partitions are there",
    )


def _is_first(one: Path, other: Path) -> bool:
    """Whether the path of `one` sorts before that of `other`, so that a finding about both is yielded for `one`."""
    return str(one.resolve()) < str(other.resolve())


def _meta_properties(around: Surroundings) -> Iterator[Finding]:
    path = around.path / FileKind.META_PROPERTIES
    for other, each in around.node.owners_beside():
        if around.is_given(other) and around.of(other).known_properties is not None:
            continue  # the other file is wrong: the verification of its directory reports it
        yield Finding(
            path=str(path),
            kind="meta-properties-node",
            severity="error",
            expected="the ids of one node in all its log directories",
            found=f"{each}: Kafka does not start with both",
            action="take the directory of the other node out of log.dirs, or mend the file that is wrong",
            command=next_steps.show(path),
            refuses_start=True,
        )
    own = None if around.properties is None else around.properties.directory_id
    twin = None if own is None else around.node.with_id(own) or next(iter(around.node.twins), None)
    if own is None or twin is None or twin.absolute().parent == around.path.absolute():
        return  # one lies inside the other: the finding about a directory's odd name reports this
    if around.path.absolute().parent == twin.absolute():
        return
    if twin in around.node.doubles:
        yield from _doubled(around, own, twin)
        return
    right = around.registered_directory_id
    its_right = None if right is not None else around.mended_ids.get(twin)
    is_copy = around.directory_ids.get(around.path) != own and _is_first(twin, around.path)
    is_here = right is not None or (its_right is None and (is_copy or around.directory_ids.get(twin) == own))
    if not is_here and around.is_given(twin):
        return
    wrong, other = (path, twin / FileKind.META_PROPERTIES) if is_here else (twin / FileKind.META_PROPERTIES, path)
    known = right or its_right
    action, command = "one is a copy of the other: restore it from a backup", next_steps.show(wrong)
    if known is not None:
        action = "stop the broker, and write the id that the metadata log has"
        command = next_steps.change(wrong, f"directory.id={own}", f"directory.id={known}")
    elif not around.is_given(twin):
        action = "take one of the two out of log.dirs; if both belong there, one has the other's file: verify both, as "
        action += "the metadata log may have the right id"
        command = next_steps.verify(around.path, twin)
    yield Finding(
        path=str(wrong),
        kind="meta-properties-node",
        severity="error",
        expected="a directory.id of its own" + ("" if known is None else f", {known} by the metadata log"),
        found=f"directory.id {own}, which {other} has, too: Kafka does not start with both (Duplicate directory ID)",
        action=action,
        command=command,
        refuses_start=True,
    )


def _doubled(around: Surroundings, directory_id: str, double: Path) -> Iterator[Finding]:
    """Yield the finding that another log directory is a copy of this one; for the directory that the broker is to keep,
    if both are verified."""
    kept = around.node.original(double)
    second = double if kept == around.path else around.path
    if kept != around.path and around.is_given(kept):
        return
    path = second / FileKind.META_PROPERTIES
    yield Finding(
        path=str(path),
        kind="meta-properties-node",
        severity="error",
        expected="a log directory of its own",
        found=f"directory.id {directory_id}, which {kept / FileKind.META_PROPERTIES} has, too, and its partitions: "
        f"{COPY}; Kafka does not start with both (Duplicate directory ID)",
        action=f"take {second} out of log.dirs, and change nothing in {kept}; if another disk belongs there, mount it",
        command=next_steps.verify(kept),
        refuses_start=True,
    )


def _copy_given(directory: Path, copy: Path) -> Finding:
    return Finding(
        path=str(copy / FileKind.META_PROPERTIES),
        kind="meta-properties-node",
        severity="warning",
        expected="a directory.id of its own, if log.dirs names both: the metadata log places partitions in another one",
        found=f"that of {directory}, with its partitions: {COPY}; Kafka does not start with both (Duplicate directory "
        "ID)",
        action="nothing to do if it is a backup; else take one out of log.dirs, and change nothing in the other",
    )


def _moved(around: Surroundings) -> Iterator[Finding]:
    """Yield the findings of partitions that lie in another log directory than the metadata log says."""
    if around.exchanged_with is not None:
        return
    for partition, path in around.moved.items():
        yield Finding(
            path=str(around.path / f"{partition}"),
            kind="partition-elsewhere",
            severity="info",
            expected="a directory: the metadata log places the partition here",
            found=f"it lies in {path.parent}",
            action="nothing to do: Kafka serves it there, and tells the controller its new place",
        )


def exchanged_properties(around: Surroundings) -> tuple[Finding | None, Callable[[Finding], bool]] | None:
    """Return the finding that two log directories of the broker have exchanged their meta.properties, with a predicate
    for its consequences in this log directory: Kafka's start takes a future log for the current one where, by the wrong
    directory.id, the metadata log places the partition. The finding is None if it is returned for the other directory.
    Return None if no files are exchanged."""
    other = around.exchanged_with if around.is_broker else None
    if other is None:
        return None

    def follows(finding: Finding) -> bool:
        return finding.kind == PROMOTED and finding.severity == "error"

    if around.is_given(other) and not _is_first(around.path, other):
        return None, follows
    one, two = around.path / FileKind.META_PROPERTIES, other / FileKind.META_PROPERTIES
    aside = one.with_name(f"{one.name}.moved")
    promotions = (*around.promotions.values(), *around.of(other).promotions.values())
    lost = next((each.promotion for each in promotions if each.lost), None)
    found = f"that of {other}, whose file has the one of this directory: the files are exchanged"
    action = "nothing is lost: Kafka serves all partitions, and tells the controller their new places; or stop the "
    action += "broker, and exchange the files again"
    if lost is not None:
        found += f"; Kafka's start therefore makes {lost.future} the log of {lost.name}, and deletes {lost.current}"
        action = "do not start the broker before the files are exchanged again: records would be lost"
    finding = Finding(
        path=str(one),
        kind="meta-properties-node",
        severity="warning" if lost is None else "error",
        expected="the directory.id in which the metadata log places the partitions here",
        found=found,
        action=action,
        command=next_steps.move([(one, aside), (two, one), (aside, two)]),
    )
    return finding, follows


def exchanged_checkpoints(around: Surroundings) -> tuple[list[Finding], set[str]]:
    """Return the finding that checkpoints in this log directory belong to another one, and the paths of these
    checkpoints. If two verified log directories have each other's checkpoints, only the one whose path sorts first gets
    the finding; for the other, only the paths are returned. Raises UnreadableInput."""
    if not around.is_broker:
        return [], set()
    image = around.image
    foreign = foreign_checkpoints(
        around.path, around.node.of_one_node[1:], lambda each: image is None or image.topic(each.topic) is not None
    )
    if foreign is None:
        return [], set()
    paths = {str(around.path / each) for each in foreign.kinds}
    other = foreign.owner
    if foreign.is_exchanged and other is not None and around.is_given(other) and not _is_first(around.path, other):
        return [], paths
    return [_of_foreign(around.path, foreign)], paths


def _of_foreign(home: Path, foreign: ForeignCheckpoints) -> Finding:
    path, other = home / foreign.kinds[0], foreign.owner
    action, command = "look for the files of this directory, also in backups", next_steps.show(path)
    if foreign.is_exchanged and other is not None:
        pairs = []
        for one, two in ((home / kind, other / kind) for kind in foreign.kinds):
            aside = one.with_name(f"{one.name}.moved")
            pairs += [(each, to) for each, to in ((one, aside), (two, one), (aside, two))]
            if not two.exists() or not one.exists():
                pairs = [*pairs[:-3], (one, two) if one.exists() else (two, one)]
        action, command = "do not start the broker before the files are exchanged again", next_steps.move(pairs)
    return Finding(
        path=str(path),
        kind="checkpoint-exchanged",
        severity="error" if foreign.forgets_start else "warning",
        expected="partitions of this directory",
        found=foreign.reason,
        action=action,
        command=command,
    )


def entries_of_others(around: Surroundings, exchanged: Collection[str]) -> Iterator[Finding]:
    """Yield a finding for each cleaner-offset-checkpoint with entries that belong in another log directory of the
    broker: that of this directory, and those of directories that are not verified, if this is the first that is.
    exchanged: the paths of the checkpoints that `exchanged_checkpoints` reports."""
    if not around.is_broker or str(around.path / FileKind.CLEANER_OFFSETS) in exchanged:
        return
    homes = [each for each in around.node.of_one_node if each not in around.node.doubles]
    is_first = not any(around.is_given(each) and _is_first(each, around.path) for each in homes[1:])
    for home in homes:
        is_told = home == around.path or (is_first and not around.is_given(home))
        found = entries_elsewhere(home, [each for each in homes if each != home]) if is_told else None
        if found is not None:
            yield _of_entries(home / FileKind.CLEANER_OFFSETS, found)


def _of_entries(path: Path, found: EntriesElsewhere) -> Finding:
    command = next_steps.recover_log_directory(path.parent)
    if len(found.kept) <= ENTRIES_WRITTEN:
        entries = [OffsetEntry(*name, offset) for name, offset in sorted(found.kept.items())]
        command = next_steps.write(path, build_offsets(entries).decode())
    return Finding(
        path=str(path),
        kind="checkpoint-elsewhere",
        severity="warning",
        position=0,
        expected="partitions of this directory",
        found=found.reason,
        action="stop the broker, and write the file without what belongs in another directory",
        command=command,
    )
