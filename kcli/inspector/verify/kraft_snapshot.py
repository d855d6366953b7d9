"""Checks a KRaft snapshot (`.checkpoint`): batches between a snapshot header and a snapshot footer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from formats.control_record import ControlType
from formats.file_name import METADATA_DIRECTORY, FileKind, FileName, build
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.partition import LogVerifier
from kcli.inspector.verify.segment_names import SegmentFiles
from kcli.inspector.verify.zeros import zeros_in
from kcli.log.partition_view import Content, PartitionView
from kcli.log.producer_state import check_control
from kcli.log.source import FileSource

if TYPE_CHECKING:
    from kcli.metadata_log.replay import Contradiction

FIRST_LOG = build(FileName(FileKind.LOG, 0))
OF_FOOTER = ("truncated", "snapshot-footer")
WRITE_FOOTER = "salvage writes the footer anew, in a copy"
NOT_READ = "nothing to do: Kafka reads the latest snapshot"
TAKEN = "nothing to do: Kafka reads its records all the same, and uses them only where the metadata log is empty"
READ_LOG = "stop the node, and move the file away: Kafka then reads the log"
KEEP = (
    "recovery tells what is missing; keep the file if this node is the only voter, as the log below it is gone; where "
    "there are others, stop the node and delete the file: it fetches a snapshot from the leader"
)
FETCH = "delete the file while the node is stopped: it fetches a snapshot from the leader or reads the log again"


def verify_kraft_snapshot(path: Path, advance: Callable[[int], None]) -> Iterator[Finding]:
    """Yield the findings in a KRaft snapshot; a finding of damage says what Kafka does with the snapshot when it
    starts. If the snapshot is sound, and is the latest one, which Kafka loads, also yield a finding if the snapshot
    contradicts the metadata log, or if Kafka reads none of its records. Also yield a finding if a sound snapshot has
    another's name. advance: called with the number of bytes read. Raises UnreadableInput."""
    is_sound = True
    for finding in _with_footer(path, _findings(path, advance)):
        is_sound = is_sound and finding.severity != "error"
        is_damage = finding.severity == "error" and finding.kind != "snapshot-header"
        yield _with_outcome(finding, path) if is_damage else finding
    if is_sound and _is_latest(path):
        yield from _contradiction(path)
        yield from _unread(path)
    if is_sound:
        yield from _misnamed(path)


def _with_footer(path: Path, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Yield these findings in a snapshot; one warning in place of those of its end, if it lacks only its footer. A torn
    batch stands for the footer behind it. Raises UnreadableInput."""
    from kcli.metadata_log.replay import lacks_only_footer

    at_end: list[Finding] = []
    for finding in findings:
        if finding.kind in OF_FOOTER:
            at_end.append(finding)
        else:
            yield finding
    home = path.absolute().parent
    cut = lacks_only_footer(home, PartitionView(home).original, path.name) if at_end else None
    if cut is None:
        yield from [each for each in at_end if each.kind == "truncated"] or at_end
        return
    is_latest = _is_latest(path)
    yield Finding(
        path=str(path),
        kind="snapshot-footer",
        severity="warning",
        position=cut.position,
        expected="a snapshot footer as last control record",
        found=f"{cut.reason}, and all records: Kafka starts with it, and nothing is lost",
        action=WRITE_FOOTER if is_latest else NOT_READ,
        command=next_steps.salvage_log_directory(home.parent) if is_latest else None,
    )


def _contradiction(path: Path) -> Iterator[Finding]:
    """Yield a finding if a snapshot contradicts the records that the metadata log has below the snapshot's end offset.
    Raises UnreadableInput."""
    from kcli.metadata_log.replay import contradiction

    home = path.absolute().parent
    files = PartitionView(home).original
    wrong = contradiction(home, files, path.name)
    if wrong is None:
        return
    action, command = _mended(path, files, wrong)
    yield Finding(
        path=str(path),
        kind="snapshot-records",
        severity="error",
        expected="the metadata that the log has below the snapshot's offset",
        found=f"{wrong.reason}: {wrong.outcome}",
        action=action,
        command=command,
        refuses_start=wrong.refuses_start,
    )


def _mended(path: Path, files: Mapping[str, Content], wrong: Contradiction) -> tuple[str, str]:
    """Return the advice about a snapshot that contradicts the log, and its command. files: those of its directory.
    Raises UnreadableInput."""
    if wrong.right is None or wrong.right in files:
        return _without(path, files)
    action = "stop the node, and give the file its name back: Kafka then reads the log behind it"
    return action, next_steps.move([(path, path.with_name(wrong.right))])


def _misnamed(path: Path) -> Iterator[Finding]:
    """Yield a finding if the name of a snapshot is wrong, and Kafka's start does no harm by that. Raises
    UnreadableInput."""
    from kcli.metadata_log.replay import misnamed_snapshot

    home = path.absolute().parent
    files = PartitionView(home).original
    wrong = misnamed_snapshot(home, files, path.name)
    if wrong is None or (wrong.harm is not None and _is_latest(path)):
        return
    is_known = wrong.right is not None and wrong.right not in files
    yield Finding(
        path=str(path),
        kind="snapshot-records",
        severity="warning",
        expected="the epoch in the snapshot's name",
        found=f"{wrong.reason}: Kafka's start does no harm by it",
        action="stop the node, and give the file its name back" if is_known else "look at its records",
        command=next_steps.move([(path, path.with_name(str(wrong.right)))]) if is_known else next_steps.dump(path),
    )


def _without(path: Path, files: Mapping[str, Content]) -> tuple[str, str]:
    """Return the advice about a snapshot that lacks metadata which the log has, and its command. files: those of its
    directory. Raises UnreadableInput."""
    from kcli.metadata_log.replay import start_refusal

    home = path.absolute().parent
    if start_refusal(home, {name: each for name, each in files.items() if name != path.name}) is None:
        return READ_LOG, next_steps.move([(path, path.with_name(f"{path.name}.moved"))])
    action = "salvage keeps what the log has, in a copy: without the file Kafka does not start, as the log goes on "
    action += "with records that contradict those before them"
    return action, next_steps.salvage_log_directory(home.parent)


def _unread(path: Path) -> Iterator[Finding]:
    """Yield a finding if a snapshot has metadata of which Kafka reads none. Raises UnreadableInput."""
    from kcli.metadata_log.replay import unread_snapshot

    home = path.absolute().parent
    if unread_snapshot(home, PartitionView(home).original) is not None:
        yield Finding(
            path=str(path),
            kind="snapshot-records",
            severity="error",
            expected="a snapshot with an offset and an epoch above 0",
            found="Kafka reads no record of a snapshot with this name, which is that with which a quorum begins",
            action="salvage keeps its metadata, in a copy, in a snapshot that Kafka reads",
            command=next_steps.salvage_log_directory(home.parent),
        )


def _is_latest(path: Path) -> bool:
    """Whether a snapshot is the one that Kafka reads."""
    from kcli.metadata_log.replay import latest_snapshot

    return path.name == latest_snapshot({each.name: Content(()) for each in path.absolute().parent.iterdir()})


def _findings(path: Path, advance: Callable[[int], None]) -> Iterator[Finding]:
    """Yield the findings in the batches of a snapshot, and those of a missing header or footer. Raises
    UnreadableInput."""
    first: list[int] = []
    last: list[int] = []

    def control(batch: bytes) -> tuple[int, int, str | None]:
        kinds, reason = control_types(batch)
        if kinds and not first:
            first.append(kinds[0])
        last[:] = kinds[-1:]
        return (-1, -1, reason) if reason else check_control(batch)

    verifier = LogVerifier([SegmentFiles(0, {FileKind.LOG: path})], [], advance, is_whole=False, control=control)
    yield from verifier.findings()
    if verifier.unreadable:
        raise verifier.unreadable[0]
    for place, types, kind in (
        ("first", first, ControlType.SNAPSHOT_HEADER),
        ("last", last, ControlType.SNAPSHOT_FOOTER),
    ):
        if types != [kind]:
            name = kind.name.lower().replace("_", " ")
            found = ControlType(types[0]).name.lower().replace("_", " ") if types else "no control record"
            yield Finding(
                path=str(path),
                kind=name.replace(" ", "-"),
                severity="error",
                position=0 if place == "first" else path.stat().st_size,
                expected=f"a {name} as {place} control record",
                found=found,
                action=FETCH,
                command=next_steps.dump(path),
            )


def _with_outcome(finding: Finding, path: Path) -> Finding:
    """Return the finding in a damaged snapshot with advice: what Kafka does when it starts with this snapshot, as `kcli
    recover` predicts it, and the next step."""
    from kcli.metadata_log.replay import contradiction, snapshot_refusal, start_refusal

    home = path.absolute().parent
    if not _is_latest(path):
        return replace(finding, action=NOT_READ, command=None)
    source = FileSource(path)
    try:
        reason = snapshot_refusal(source)
    finally:
        source.close()
    recover = next_steps.recover_log_directory(home.parent)
    if reason is not None:
        action = f"Kafka does not start with it: {reason}"
        return replace(finding, action=action, command=recover, refuses_start=True)
    files = PartitionView(home).original
    refused = start_refusal(home, files)
    wrong = contradiction(home, files, path.name) if refused is None else None
    if wrong is not None:
        action, command = _without(path, files)
        found = f"{finding.found}: {wrong.reason}: {wrong.outcome}"
        return replace(finding, found=found, action=action, command=command)
    without = {name: each for name, each in files.items() if name != path.name}
    can_read_log = FIRST_LOG in files and start_refusal(home, without) is None
    away = next_steps.move([(path, path.with_name(f"{path.name}.moved"))])
    if refused is None:
        found = f"{finding.found}: Kafka starts with the records before it"
        action, command = (READ_LOG, away) if can_read_log else (KEEP, recover)
        return replace(finding, found=found, action=action, command=command)
    found = f"{finding.found}: Kafka takes the records before it, and does not start: {refused.reason}"
    action = "salvage keeps all metadata that can be read, in a copy"
    command = next_steps.salvage_log_directory(home.parent)
    if can_read_log:
        action, command = READ_LOG, away
    return replace(finding, found=found, action=action, command=command, refuses_start=True)


def verify_bootstrap(path: Path, advance: Callable[[int], None]) -> Iterator[Finding]:
    """Yield the findings in bootstrap.checkpoint. If Kafka does not start with the file, this is the only finding; else
    all are warnings. Raises UnreadableInput."""
    from kcli.metadata_log.bootstrap import bootstrap_refusal
    from kcli.metadata_log.replay import replay

    home = path.absolute().parent
    refused = bootstrap_refusal(home)
    if refused is None:
        for finding in _findings(path, advance):
            yield replace(finding, severity="warning", action=TAKEN, command=None)
        return
    log = home / METADATA_DIRECTORY
    files = PartitionView(log).original if log.is_dir() else {}
    is_needed = not replay(log, files, lambda _: None, around_damage=True).metadata_version
    action = "the metadata log has what it is for: move it away, and Kafka starts"
    command = next_steps.move([(path, path.with_name(f"{path.name}.moved"))])
    if _is_damaged(home):
        action = "salvage keeps what the metadata log has: with the file moved away Kafka starts, and loses metadata"
        command = next_steps.salvage_log_directory(home)
    if is_needed:
        action = "restore it from a backup: the metadata log has no metadata.version, and begins with its records"
        command = next_steps.dump(path)
    yield Finding(
        path=str(path),
        kind="bootstrap-checkpoint",
        severity="error",
        position=refused.position,
        expected="the records with which the metadata log began",
        found=f"{zeros_in(path) or refused.reason}: Kafka does not start with it",
        action=f"stop the node; {action}",
        command=command,
        refuses_start=True,
    )


def _is_damaged(home: Path) -> bool:
    """Whether Kafka's start loses records of the metadata log, or fails at them. home: the log directory."""
    from kcli.log.recovery.loader import LoadOptions
    from kcli.log.recovery.plan import plan
    from kcli.metadata_log.lost import LostMetadata

    planned = plan(home / METADATA_DIRECTORY, LoadOptions(now_ms=0, is_metadata=True))
    lost = LostMetadata(home, planned)
    return planned.refused is not None or bool(lost.signs) or any(True for _ in lost.refusals())


def control_types(batch: bytes) -> tuple[list[int], str | None]:
    """Return the types of the control records in a batch, and None; [] and the reason if a record cannot be parsed."""
    from formats import control_record, record_batch
    from formats.errors import FormatError

    try:
        records = record_batch.parse_batch(batch).records
        return [int(control_record.parse(record.key, record.value).type) for record in records], None
    except FormatError as error:
        return [], error.reason
