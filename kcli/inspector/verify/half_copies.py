"""A log directory that a copy or an archive has left incomplete: one finding, which names the cause of many others.

    ended early     partitions that the metadata log places in the log directory have no directory, and several files
                    that each log directory has are missing
    no space        many files that Kafka never leaves empty are empty: a copy creates a file, and cannot fill it
    no logs         no partition has a .log file, though there are indexes: the copy left out *.log
    padded          all text files end in NULs (see padded_files)
    upper layer     there are whiteouts (see kcli.log.whiteouts), and files of the lower layer may be missing

When a broker starts, it writes the files in WRITTEN. So a log directory that has only lost a partition's directory
still has all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from formats.file_name import METADATA_TOPIC, FileKind
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.index_files import MISSING_INDEX
from kcli.inspector.verify.padded_files import is_of_padding
from kcli.inspector.verify.removed_files import KIND as REMOVED
from kcli.inspector.verify.surroundings import Surroundings
from kcli.log.log_directory import PARTITION_FILES, LogDirectory
from kcli.log.whiteouts import PREFIX, whiteouts_in

WRITTEN = (
    FileKind.META_PROPERTIES,
    FileKind.RECOVERY_POINTS,
    FileKind.REPLICATION_OFFSETS,
    FileKind.LOG_START_OFFSETS,
)
"""The files that each broker has in each log directory."""
REFUSED = (FileKind.META_PROPERTIES, FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE)
"""The files that keep Kafka from starting if they are empty."""
FILES_MISSING_LEAST = 2
NAMES_SHOWN = 4
AGAIN = "restore the directory again, from a whole copy; if there is none, salvage makes what is there start, in a copy"
UNDER_IT = (
    "copy the files of the lower layer, that of the image, under these, where the directory has none; if there is "
    "none, salvage makes what is there start, in a copy"
)
TO_EMPTY = "restore the directory again, from a whole copy; else Kafka makes these partitions empty"


def half_copies(around: Surroundings) -> Iterator[tuple[Finding, Callable[[Finding], bool]]]:
    """Yield the findings that the log directory is incomplete, each with a predicate for its consequences among the
    other findings. Raises UnreadableInput."""
    if not around.is_broker:
        return
    if around.padded_to:
        yield _padded(around), partial(is_of_padding, around.padded_to)
    ended = _ended_early(around)
    if ended is not None:
        yield ended
    empty = around.emptied_files
    if empty:
        paths = {str(path) for path in empty}
        refuses = any(path.name in REFUSED for path in empty)
        names = [str(path.relative_to(around.path)) for path in empty]
        outcome = ": Kafka does not start" if refuses else ""
        yield (
            _finding(
                around.path,
                "files with a content",
                f"{len(empty):,} files of no bytes, such as {_some(names)}, as a copy to a full disk leaves them"
                + outcome,
                f"free space on the disk, and {AGAIN}",
                refuses_start=refuses,
            ),
            lambda other: other.path in paths,
        )


def without_logs(around: Surroundings) -> tuple[Finding, Callable[[Finding], bool]] | None:
    """Return the finding of a log directory in which no partition has a .log file though some have offset indexes, with
    a predicate for its consequences among the other findings. Returns None if there is a .log file, if there is no
    offset index, or if there are fewer than FILES_MISSING_LEAST partitions. Raises UnreadableInput."""
    partitions = [each.path for each in LogDirectory(around.path).partitions() if not each.name.state]
    if len(partitions) < FILES_MISSING_LEAST or any(next(each.glob(f"*{FileKind.LOG}*"), None) for each in partitions):
        return None
    if not any(next(each.glob(f"*{FileKind.OFFSET_INDEX}"), None) for each in partitions):
        return None
    found = (
        f"none of {len(partitions):,} partitions has a log, as where a copy or an archive leaves out *{FileKind.LOG}"
    )
    finding = _finding(around.path, "the logs of the partitions", found, TO_EMPTY, refuses_start=False)
    return (
        replace(finding, command=next_steps.search(around.path.parent, partitions[0].name)),
        lambda other: other.kind in ("log-missing", "orphan-file", "partition-stray"),
    )


def upper_layer(around: Surroundings) -> tuple[Finding, Callable[[Finding], bool]] | None:
    """Return the finding of a log directory with whiteouts, and a predicate for its consequences among the other
    findings: the whiteouts themselves, and missing files that a start needs. Returns None if there is no whiteout.
    Raises UnreadableInput, OSError."""
    found = whiteouts_in(around.path)
    if not found:
        return None
    needed = [around.path / FileKind.META_PROPERTIES]
    needed += (each.path / FileKind.PARTITION_METADATA for each in LogDirectory(around.path).partitions())
    missing = [path for path in needed if path in found or not path.exists()]
    is_parsed = any(path.name.startswith(PREFIX) and path.suffix in PARTITION_FILES for path in found)
    refuses = is_parsed or needed[0] in missing
    is_marked = around.path / FileKind.CLEAN_SHUTDOWN in found
    names = _some([str(path.relative_to(around.path)) for path in found])
    count = f"{len(found):,} whiteout{'s' if len(found) > 1 else ''}"
    text = f"{count} of an overlay (the file was removed), such as {names}"
    if missing:
        names = _some([str(path.relative_to(around.path)) for path in missing])
        text += f"; {len(missing):,} files that a start needs are missing, such as {names}: only the upper layer was "
        text += "copied, which lacks what had not changed since the image was made"
    elif is_marked:
        text += f"; Kafka takes {FileKind.CLEAN_SHUTDOWN} for the marker of a clean stop, and recovers no log"
    text += ": Kafka does not start" if refuses else ""
    finding = _finding(around.path, "a directory as the overlay shows it", text, UNDER_IT, refuses_start=refuses)
    if is_marked and not missing and around.harmed_without_marker:
        finding = replace(finding, action="salvage what is sound: a start without the marker would lose sound batches")
    elif not missing:
        action = "remove them, and look for the files of the lower layer, that of the image, if some are missing"
        finding = replace(finding, action=action, command=next_steps.remove_whiteouts(around.path))
        finding = finding if refuses else replace(finding, severity="warning")
    paths = {str(path) for path in (*found, *missing)}
    rebuilt = (*MISSING_INDEX, REMOVED) if missing else ()

    def follows(other: Finding) -> bool:
        return (other.path in paths or other.kind in rebuilt) and (refuses or not other.refuses_start)

    return finding, follows


def _ended_early(around: Surroundings) -> tuple[Finding, Callable[[Finding], bool]] | None:
    gone = [
        each
        for each in around.missing
        if each.renamed is None and not each.adrift and each.future is None and not each.flat
    ]
    files = [name for name in WRITTEN if not (around.path / name).exists()]
    has_any = any(each.name.topic != METADATA_TOPIC for each in LogDirectory(around.path).partitions())
    if not gone or not has_any or len(files) < FILES_MISSING_LEAST:  # without partitions the directory is new
        return None
    paths = {str(around.path / each.directory_name) for each in gone} | {str(around.path / name) for name in files}
    partitions = "partition has" if len(gone) == 1 else "partitions have"
    refuses = FileKind.META_PROPERTIES in files
    outcome = ": Kafka does not start" if refuses else ""
    found = (
        f"{len(gone):,} {partitions} no directory, such as {_some([each.directory_name for each in gone])}, and "
        f"{', '.join(files)} are missing, as where a copy or an archive ended early{outcome}"
    )
    expected = "the directories of all partitions that the metadata log places here, and the files beside them"
    finding = _finding(around.path, expected, found, AGAIN, refuses_start=refuses)
    if not refuses:  # Kafka starts with the directory as it is: no salvage is needed
        command = next_steps.search(around.path.parent, gone[0].directory_name)
        finding = replace(finding, action=TO_EMPTY, command=command)
    return finding, lambda other: other.path in paths


def _padded(around: Surroundings) -> Finding:
    return Finding(
        path=str(around.path),
        kind="copy-padded",
        severity="error",
        expected="files without NULs behind their content",
        found=f"all text files, and others, end in NULs up to a multiple of {around.padded_to:,} bytes, as a copy in "
        "blocks leaves them (dd with conv=sync, a tape): Kafka does not start",
        action="copy the files again, each with its size; if there is no other copy, salvage leaves the NULs out, in a "
        "copy",
        command=next_steps.salvage_log_directory(around.path),
        refuses_start=True,
    )


def _some(names: list[str]) -> str:
    return ", ".join(names[:NAMES_SHOWN])


def _finding(path: Path, expected: str, found: str, action: str, *, refuses_start: bool) -> Finding:
    return Finding(
        path=str(path),
        kind="copy-incomplete",
        severity="error",
        expected=expected,
        found=found,
        action=action,
        command=next_steps.salvage_log_directory(path),
        refuses_start=refuses_start,
    )
