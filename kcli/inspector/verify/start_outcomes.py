"""What Kafka's next start does with the damage in a partition's log, according to the plan that `kcli recover` makes.

What happens to a damaged file depends on the recovery point, the clean-shutdown marker and the batches before the
damage. One plan of the start gives the outcome for all findings of the partition.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from formats.file_name import INTERNAL_TOPICS, FileKind, parse_directory
from kcli.coordinator.machine import TRANSACTIONS_TOPIC
from kcli.errors import KcliError
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import REFUSES, STOPS, Finding, offsets_text
from kcli.inspector.verify.log_findings import (
    AHEAD,
    LIES_ELSEWHERE,
    LOADS_BOTH,
    PUTS_BACK,
    RECOVER,
    RENAME,
    REORDER,
    REORDER_TORN,
    SALVAGE,
    SERVES_BOTH,
    SETS_LAST_OFFSET,
)
from kcli.inspector.verify.lost_offsets import REFETCH, REFETCH_END
from kcli.inspector.verify.next_order import moves
from kcli.inspector.verify.next_start import HIDES, SKIPS, UNREAD, NextStart
from kcli.inspector.verify.surroundings import Surroundings
from kcli.inspector.verify.swap_file import IN_PLACE
from kcli.log.recovery.node_directories import ENDS_START, MAY_GO_OFFLINE, misplaced_metadata_log
from kcli.printable import names_text
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:  # the plan of a start is imported only if a log is damaged
    from kcli.log.recovery.coordinator_load import LoadEnd
    from kcli.log.recovery.loader import Event
    from kcli.log.recovery.plan import PartitionPlan

OFFSET_MAX = 2**63 - 1
MENDS = (PUTS_BACK, SETS_LAST_OFFSET)
SEGMENT_FILES = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
OTHERS_SHOWN = 3
OF_ORDER = ("offsets-order", "offsets-overlap")
"""The maximum number of partitions, besides its own, that a finding names."""
CUTS_HERE = "Kafka cuts the file here when it starts"
TRUSTED = (NextStart.TRUSTS.value, NextStart.APPENDS.value)
SWAP = "swap-log"
OF_BLOCKS = (LOADS_BOTH, SERVES_BOTH, LIES_ELSEWHERE)
GUESSED = (
    *(RECOVER, SALVAGE, AHEAD, RENAME, REORDER, REORDER_TORN, NextStart.PASSES_OVER.value),
    *(*OF_BLOCKS, *TRUSTED),
)


def with_outcomes(directory: Path, findings: Sequence[Finding], around: Surroundings | None) -> list[Finding]:
    """Return the findings of a partition's directory; those in its .log files have the outcome of Kafka's next start as
    advice.

    around: the log directory of the partition.
    """
    name = parse_directory(directory.absolute().name)
    is_coordinators = name is not None and name.topic in INTERNAL_TOPICS
    is_clean = around is not None and around.is_clean
    cuts = [each for each in findings if is_clean and _is_cut(each)]
    has_swaps = any(each.kind == SWAP for each in findings)
    hides = any(HIDES in str(each.action) for each in findings)
    if not any(map(_is_guessed, findings)) and not is_coordinators and not cuts and not has_swaps and not hides:
        return list(findings)
    plan = plan_start(directory, around)
    if plan is None:
        return list(findings)
    after_crash: PartitionPlan | None = None
    if around is not None and (cuts or hides or any(each.action in TRUSTED for each in findings)):
        after_crash = plan_start(directory, around, clean=False)
    found = []
    for each in findings:
        foretold = _with_outcome(each, plan, is_next=around is not None)
        if around is not None and each in cuts:
            foretold = _cut_before_clean_start(each, plan, after_crash, around)
        elif around is not None and after_crash is not None and _is_guessed(each) and each.action in TRUSTED:
            foretold = _without_marker(foretold, after_crash, around)
        found.append(foretold)
    if plan.refused is None:
        found = [_with_append(each, plan) for each in found]
    found = [_with_end(each, plan, after_crash) for each in found]
    if plan.load_end is not None:
        found = _with_load_end(directory, found, plan.load_end)
    elif is_coordinators:
        found = [_with_load(each, plan) for each in found]
    if name is None or name.topic != TRANSACTIONS_TOPIC or around is None:
        return found
    by_marker = next_steps.remove(around.path / FileKind.CLEAN_SHUTDOWN)
    is_without = after_crash is not None and any(each.command == by_marker for each in found)
    return _with_lost_epochs(found, after_crash if after_crash is not None and is_without else plan, around)


def _with_append(finding: Finding, plan: PartitionPlan) -> Finding:
    """Return a finding at the end of an active segment, with where the first append after a clean start goes."""
    from kcli.log.recovery.plan import append_outcome

    if not (finding.action or "").startswith(NextStart.APPENDS.value):
        return finding
    outcome = append_outcome(plan, is_torn=finding.kind == "truncated")
    rest = str(finding.action).removeprefix(NextStart.APPENDS.value)
    return replace(finding, action=f"{UNREAD}: {outcome}{rest}")


def _with_end(finding: Finding, plan: PartitionPlan, after_crash: PartitionPlan | None) -> Finding:
    """Return a finding in the offset index of an active segment, with the end of the log that a clean start takes from
    the index, or with the failure to which the index leads it. after_crash: the plan of a start that reads the log;
    None where files cannot be read."""
    action, log = str(finding.action), Path(finding.path).with_suffix(FileKind.LOG).name
    if HIDES not in action:
        return finding
    if plan.refused is not None and plan.refused.file in (log, Path(finding.path).name):
        at = "" if plan.refused.position is None else f" at byte {plan.refused.position:,}"
        outcome = f"Kafka does not start: the index leads it to no batch{at} of the log ({plan.refused.reason})"
        return replace(finding, action=f"{outcome}{action.partition(HIDES)[2]}", refuses_start=True)
    if plan.offsets is None or after_crash is None or after_crash.offsets is None:
        return finding
    end, last = plan.offsets.log_end_offset, after_crash.offsets.log_end_offset - 1
    outcome = f"takes the end of the log from it: {offsets_text(end, last)} hidden, and written over"
    if end > last:
        outcome = f"finds the end of the log with it, {end:,}; {SKIPS}"
    return replace(finding, action=action.replace(HIDES, outcome))


def _with_lost_epochs(findings: Sequence[Finding], plan: PartitionPlan, around: Surroundings) -> list[Finding]:
    """Return the findings of a partition of __transaction_state. The first error in its log also has the consequence
    for a producer whose last epochs it has lost; its next step is salvage, if the producer can then continue.

    plan: the plan of the start to which the next step of the findings leads. around: the log directory.
    """
    from kcli.inspector.transaction_state import unfit
    from kcli.inspector.transactions import StatePartition

    found = list(findings)
    first = next((n for n, each in enumerate(found) if each.severity == "error" and each.path.endswith(".log")), None)
    name = parse_directory(plan.name)
    if first is None or name is None or name.state or plan.refused is not None:
        return found
    place = TopicPartition(name.topic, name.partition)
    if around.is_replicated(place):
        return found
    after_start = {place.partition: StatePartition(plan.view, plan.read_end)}
    told = unfit(sorted([around.path, *around.node.others]), after_start)
    lost = [each for each in told if each.partition == place and each.error]
    if not lost:
        return found
    one, error = lost[0], found[first]
    whose = f"{one.transactional_id} (producer {one.producer_id}) then has epoch {one.coordinator_epoch:,} there"
    action = f"{error.action}; {whose}, and {one.producer_epoch:,} in {one.place}: {one.outcome}"
    command = next_steps.recover_log_directory(around.path)
    if any(each.mended is not None for each in lost):
        action += "; salvage writes a record with which the producer goes on, in a copy"
        command = next_steps.salvage_log_directory(around.path)
    consequences = {**error.consequences, "transaction-state-end": len(lost)}
    found[first] = replace(error, action=action, command=command, consequences=consequences)
    return found


def _with_load(finding: Finding, plan: PartitionPlan) -> Finding:
    """Return a finding in a coordinator's partition; one of a wrong CRC says that the coordinator loads the records, if
    the start leaves the batch where it is."""
    from kcli.log.recovery.coordinator_load import LOADS_ALTERED

    file = Path(finding.path).name
    altered = any(LOADS_ALTERED in event.reason for event in plan.events if event.file == file)
    if finding.kind != "batch-crc" or not altered:
        return finding
    return replace(finding, action=f"its {LOADS_ALTERED}; {finding.action}")


def _with_load_end(directory: Path, findings: Sequence[Finding], end: LoadEnd) -> list[Finding]:
    """Return the findings of a coordinator's partition, with the byte at which its coordinator stops loading and what
    the coordinator then does. Both are added to the advice of an error at that byte; if there is none, they become an
    error of their own."""
    path = str(directory / end.file)
    found = list(findings)
    for number, each in enumerate(found):
        is_cause = each.position == end.position or (end.is_of_order and each.kind in OF_ORDER)
        if each.path == path and is_cause and each.severity == "error":
            found[number] = replace(each, action=f"{each.action}; {end.outcome}")
            return found
    error = Finding(
        path=path,
        kind="not-loaded",
        severity="error",
        position=end.position,
        offset=end.offset,
        expected=f"a record that the {end.coordinator} coordinator of Kafka 4.3 reads",
        found=end.reason,
        action=f"{end.outcome}; salvage puts the batches in order, in a copy"
        if end.is_of_order
        else f"{end.outcome}; salvage leaves the batch out, in a copy (a later Kafka may read it)",
        command=next_steps.salvage(directory),
    )
    return [*found, error]


def with_refusals(findings: Iterable[Finding], around: Surroundings | None) -> Iterator[Finding]:
    """Yield the findings. Those about a file or directory that keeps Kafka from starting are yielded as errors that say
    so.

    around: the log directory. Damage in the partitions' logs has its outcome already, by `with_outcomes`.
    """
    for each in findings:
        if around is None or each.severity == "info" or each.path.endswith(SEGMENT_FILES):
            yield each
            continue
        path, found = Path(each.path), str(each.found).removesuffix(REFUSES)
        if path in around.failing:
            yield replace(each, severity="error", found=f"{found}: {around.failing[path]}", refuses_start=False)
        elif path in around.refused and around.refused[path].endswith(MAY_GO_OFFLINE):
            yield replace(each, severity="error", found=f"{found}{REFUSES}{MAY_GO_OFFLINE}", refuses_start=True)
        elif ENDS_START in around.refused.get(path, ""):
            why = around.refused[path].partition(ENDS_START)
            yield replace(each, severity="error", found=f"{found}{REFUSES}{why[1]}{why[2]}", refuses_start=True)
        elif path in around.refused and not each.refuses_start:
            yield replace(each, severity="error", found=f"{each.found}{REFUSES}", refuses_start=True)
        else:
            yield each


def salvage_first(
    findings: Iterable[Finding], around: Surroundings | None, renamed: Collection[str] = ()
) -> Iterator[Finding]:
    """Yield the findings. For a file or directory that keeps Kafka from starting, a finding advises to move it away or
    to write it anew. If Kafka, started without it, would then lose records that `kcli recover --salvage` keeps, in any
    log directory of the broker, the finding is yielded with that command as its next step.

    around: the log directory. renamed: the directories of partitions with .log files under other names than those that
    Kafka gives: its start does not read them, and salvage does.
    """
    for each in findings:
        path = Path(each.path)
        is_anew = around is not None and each.command == next_steps.recover_log_directory(around.path)
        if around is None or not (each.refuses_start and path.exists() and (is_anew or moves(each))):
            yield each
            continue
        if path == misplaced_metadata_log(around.node.metadata_home, [around.path]):
            yield each  # salvage, too, needs the metadata log in its place
            continue
        # the partition with the file is left out: the finding already says that the file harms it
        harmed = {home: {*partitions} for home, partitions in around.harmed_of_node.items()}
        if path.is_dir():  # logs under other names get their own back before it is moved
            harmed[around.path] -= {path.name}
        else:
            harmed[around.path] = {*harmed[around.path], *renamed} - {path.parent.name}
        home = next((home for home, partitions in harmed.items() if partitions), None)
        if home is None:
            yield each
            continue
        names = names_text(sorted(set().union(*harmed.values())), OTHERS_SHOWN)
        start = "recovery" if is_anew else "that start"
        action = f"{each.action}; but {start} would lose sound records of {names}: salvage keeps them, in a copy"
        yield replace(each, action=action, command=next_steps.salvage_log_directory(home))


def _is_guessed(finding: Finding) -> bool:
    is_guess = finding.action in GUESSED or finding.action.startswith(STOPS) or finding.action.endswith(MENDS)
    return finding.severity == "error" and is_guess and finding.path.endswith(".log")


def plan_start(directory: Path, around: Surroundings | None, *, clean: bool | None = None) -> PartitionPlan | None:
    """Return the plan of Kafka's next start; None if files cannot be read (other checks report those errors).
    clean: whether to plan a start after a clean shutdown; None: the clean-shutdown marker decides."""
    from kcli.log.recovery.run import Recovery, no_configs

    now_ms = time.time_ns() // 1_000_000
    try:
        config = no_configs if around is None else around.log_config
        recovery = Recovery(directory, now_ms, clean=clean, config=config, looks_around=False)
        return next(recovery.plans(), None)
    except (KcliError, OSError):
        return None


def _is_cut(finding: Finding) -> bool:
    """Whether the finding says that a .log file has lost batches, and has as its next step the command that shows a
    start after a crash."""
    is_lost = finding.action in (REFETCH, REFETCH_END) and finding.path.endswith(FileKind.LOG)
    return is_lost and finding.command == next_steps.recover(Path(finding.path).parent)


def _cut_before_clean_start(
    finding: Finding, plan: PartitionPlan, after_crash: PartitionPlan | None, around: Surroundings
) -> Finding:
    """Return the finding that a .log file has lost batches, changed for a broker whose next start is a clean one. If
    that start hides batches of the file (END_HIDDEN), the finding says so. Otherwise only its command changes: for the
    last segment, to the command that shows the clean start; for an earlier segment, which a clean start does not check,
    to the one that shows what salvage keeps.

    plan: that of the clean start. after_crash: that of a start without the clean-shutdown marker; None where files
    cannot be read.
    """
    from kcli.log.recovery.loader import EventKind

    log = Path(finding.path)
    outcome = _outcome(finding, plan)
    hidden = next((each for each in plan.events if each.kind is EventKind.END_HIDDEN and each.file == log.name), None)
    if outcome is None or hidden is None:
        is_last = finding.action == REFETCH_END
        command = next_steps.recover_log_directory if is_last else next_steps.salvage_log_directory
        return replace(finding, command=command(log.parent))
    look = REFETCH_END.partition(" Without")[0]
    new = f"new records get offsets from {hidden.offset or 0:,} on, behind the old ones in the file"
    action = f"{look} Without either, {outcome}, too, and {new}"
    if after_crash is None or after_crash.offsets is None:
        return replace(finding, action=action, command=next_steps.recover_log_directory(log.parent))
    end = after_crash.offsets.log_end_offset
    action += f"; without {FileKind.CLEAN_SHUTDOWN} Kafka recovers the log, which then ends at {end:,}"
    return with_marker_step(replace(finding, action=action), around)


def _with_outcome(finding: Finding, plan: PartitionPlan, *, is_next: bool) -> Finding:
    """Return a finding with what Kafka's start, according to `plan`, does at the bytes of the finding. is_next: whether
    the plan is that of the broker's next start, because the log directory is known."""
    path, is_metadata = Path(finding.path), plan.options.is_metadata
    if finding.kind == SWAP and plan.refused is not None and plan.refused.file == path.name:
        return replace(finding, found=f"{str(finding.found).partition(IN_PLACE)[0]}{REFUSES}", refuses_start=True)
    if not _is_guessed(finding):
        return finding
    outcome = _outcome(finding, plan)
    is_of_others = finding.action in (LOADS_BOTH, SERVES_BOTH)
    if outcome is None and is_of_others and plan.refused is None:
        behind = _outcome(replace(finding, position=(finding.position or 0) + (finding.length or 0)), plan)
        outcome = None if behind is None else f"{finding.action.partition(': ')[0]}; {behind}"
    if outcome is not None:
        if finding.action == RECOVER and outcome == CUTS_HERE and not is_metadata:
            return replace(finding, action=outcome) if is_next else finding
        if is_of_others:
            outcome = f"{outcome}; salvage leaves them out, and keeps this partition's own behind them, in a copy"
        elif finding.action == LIES_ELSEWHERE:
            outcome = f"{outcome}; salvage takes these bytes from there, in a copy"
        elif finding.action.endswith(MENDS):
            outcome += next(each for each in MENDS if finding.action.endswith(each))
        command = next_steps.salvage(path.parent)
        of_directory = next_steps.salvage_log_directory(path.parent.parent)
        if is_metadata and plan.refused is None:
            command = next_steps.recover_log_directory(path.parent.parent)
        elif finding.command == of_directory:  # what is lost here lies in another partition's log
            command = of_directory
        return replace(
            finding,
            action=outcome,
            command=command,
            refuses_start=plan.refused is not None,
        )
    if is_metadata and finding.kind == "batch-magic" and finding.action.startswith(STOPS):
        return _in_metadata_log(finding, plan)
    if plan.refused is None and finding.action in (RECOVER, RENAME):
        return replace(finding, action=SALVAGE, command=next_steps.dump(path, finding.offset))
    return finding


def _in_metadata_log(finding: Finding, plan: PartitionPlan) -> Finding:
    """Return the finding about a magic above 2 in a batch of the metadata log that Kafka's start keeps. Kafka starts
    only if it does not read the batch, because the latest snapshot has all below a higher offset."""
    from kcli.metadata_log.replay import begin_of_reading, start_refusal

    path, begin = Path(finding.path), begin_of_reading(plan.view.files)
    mends = finding.action.partition(" for good")[2]
    if (finding.offset or 0) < begin:
        unread = f"Kafka starts, and does not read this batch: the latest snapshot has all below offset {begin:,}"
        return replace(finding, action=f"{unread}{mends}")
    refused = start_refusal(path.parent, plan.view.files)
    if refused is None:
        return finding
    return replace(
        finding,
        action=f"Kafka does not start with it: {refused.reason}{mends}",
        command=next_steps.salvage_log_directory(path.parent.parent),
        refuses_start=True,
    )


def _without_marker(finding: Finding, after_crash: PartitionPlan, around: Surroundings) -> Finding:
    """Return a finding in bytes that Kafka does not check after a clean shutdown, with what Kafka would do there if it
    started without the clean-shutdown marker.

    after_crash: the plan of such a start. The next step removes the marker only if that start cuts the file at the
    damage, and is known to lose no sound batch of any partition. Else the next step is salvage: of the whole log
    directory if other partitions would lose sound batches.
    """
    outcome, refused = _outcome(finding, after_crash), after_crash.refused
    if outcome is None and refused is not None:
        outcome = f"Kafka does not start: {refused.file}: {refused.reason}"
    if outcome is None:
        return finding
    is_same = outcome in finding.action
    action = f"{finding.action}; without {FileKind.CLEAN_SHUTDOWN} {'it does neither' if is_same else outcome}"
    return with_marker_step(replace(finding, action=action), around)


def with_marker_step(finding: Finding, around: Surroundings) -> Finding:
    """Return the finding with the command of its next step. The command removes the clean-shutdown marker if a start
    without the marker harms no partition. Otherwise it shows what salvage keeps, and the finding's `action` names the
    other partitions that such a start would harm."""
    directory, action = Path(finding.path).parent, finding.action
    harmed = around.harmed_without_marker
    if harmed is None:
        return replace(finding, action=action, command=next_steps.salvage(directory))
    others = harmed - {directory.name}
    if others:
        names = names_text(sorted(others), OTHERS_SHOWN)
        action += f"; that start would harm {names}, too: salvage keeps what is sound, in a copy"
        return replace(finding, action=action, command=next_steps.salvage_log_directory(around.path))
    if directory.name in harmed:
        action += "; salvage keeps what is sound, in a copy"
        return replace(finding, action=action, command=next_steps.salvage(directory))
    return replace(finding, action=action, command=next_steps.remove(around.path / FileKind.CLEAN_SHUTDOWN))


def _outcome(finding: Finding, plan: PartitionPlan) -> str | None:
    """Return, in words, what the start does with the finding's batch; None if it does nothing with it."""
    path = Path(finding.path)
    if plan.refused is not None:
        file = plan.refused.file.removesuffix(".swap")  # the path is that after the start
        is_cause = file == path.name or (finding.action == LIES_ELSEWHERE and f" in {file}," in str(finding.found))
        return f"Kafka does not start with it: {plan.refused.reason}" if is_cause else None
    for number, event in enumerate(plan.events):
        if event.file == path.name:
            outcome = _of_event(event, finding.position or 0, plan, _lost_text(plan, number))
            if outcome is not None:
                return outcome
    return None


def _lost_text(plan: PartitionPlan, number: int) -> str:
    """Return the words that end a finding's sentence about an event of Kafka's start: that the start also deletes the
    segments after the file, and which offsets are lost, if sound batches are among them. Return "" if neither is so.
    number: the index of the event in the plan.

    A start that cuts or empties the file also loses the offsets of the segments after it, which it removes. Offsets
    below the latest snapshot of the metadata log are not lost.
    """
    from kcli.log.recovery.loader import EventKind

    events = list(zip(plan.events, plan.lost, strict=True))[number:]
    removed = [lost for event, lost in events[1:] if event.kind is EventKind.SEGMENT_REMOVED]
    is_cut = events[0][0].kind in (EventKind.CUT, EventKind.EMPTIED)
    all_lost = [events[0][1], *(removed if is_cut else [])]
    firsts = [lost.first_offset for lost in all_lost if lost.first_offset is not None]
    lasts = [lost.last_offset for lost in all_lost if lost.last_offset is not None]
    segments = ", and deletes the segments behind it" if is_cut and removed else ""
    if not firsts or not lasts:
        return segments
    if is_cut and plan.offsets is not None and (events[0][0].position or 0):
        firsts.append(plan.offsets.log_end_offset)  # the damaged batches at the cut are lost, too
    first, last = max(min(firsts), plan.snapshot_offset), max(lasts)
    if first > last:
        return f"{segments}: the latest snapshot has all below offset {plan.snapshot_offset:,}"
    return f"{segments}: {offsets_text(first, last)} lost"


def _of_event(event: Event, at: int, plan: PartitionPlan, lost_text: str) -> str | None:
    """Return, in words, what an event of Kafka's start does with the batch at byte `at` of its file; None if it does
    nothing with it."""
    from kcli.log.recovery.loader import EventKind

    if event.kind is EventKind.CUT and (event.position or 0) <= at:
        place = CUTS_HERE if event.position == at else f"Kafka cuts the file at byte {event.position:,} when it starts"
        return f"{place}{lost_text}"
    if event.kind is EventKind.END_HIDDEN:
        return (
            f"a clean start takes the end of the log from the offset index, which leads to no batch: the log then ends "
            f"at {event.offset:,}{lost_text}"
        )
    if event.kind is EventKind.EMPTIED:
        return f"Kafka empties the file when it starts{lost_text}"
    if event.kind is EventKind.SEGMENT_REMOVED:
        return f"Kafka deletes the file when it starts ({event.reason}){lost_text}"
    if event.kind is EventKind.SPLIT:
        end = OFFSET_MAX if plan.offsets is None else plan.offsets.log_end_offset
        more = ", and takes no more batches" if end == OFFSET_MAX else ""
        return f"Kafka splits the segment when it starts, and keeps the batch: the log then ends at {end:,}{more}"
    return None
