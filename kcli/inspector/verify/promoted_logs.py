"""The findings of future logs with which Kafka's start replaces the current logs; Kafka does not compare their offsets
(see kcli.metadata_log.promotion)."""

from __future__ import annotations

from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding, offsets_text, ranges_text
from kcli.inspector.verify.surroundings import Surroundings
from kcli.metadata_log.promotion import Compared, Promotion

PROMOTED = "log-promoted"
RANGES_SHOWN = 3
"""The maximum number of ranges of lost offsets that a finding names."""


def promoted_log(around: Surroundings, compared: Compared) -> Finding:
    """Return the finding of one future log with which Kafka's start replaces a current log. around: the log directory
    of the future or of the current log."""
    promotion = compared.promotion
    if promotion.is_refused:
        return _refused(compared)
    if promotion.current is None:
        return _alone(around, compared)
    placed = f"Kafka's start gives it the name {promotion.name}, as the metadata log places the partition here, and "
    if promotion.is_resumed:
        placed = f"Kafka goes on with the move, gives it the name {promotion.name}, and "
    if not compared.lost:
        return Finding(
            path=str(promotion.future),
            kind=PROMOTED,
            severity="info",
            found=f"{placed}deletes {promotion.current}, of which it has all offsets",
            action="nothing to do: the move ends with this",
        )
    words = f"deletes {promotion.current}, which alone has {_offsets(compared)}"
    action, command = _way_out(compared)
    return _lossy(compared, f"{placed}{words}", f"all offsets of {promotion.current}", action, command)


def follows(finding: Finding, compared: Compared) -> bool:
    """Whether a finding in the directory of a future log is a consequence of its promotion: any finding, if the future
    log lacks offsets of a better current log, as the operator should then move the future log away; or, if there is no
    current log, the finding that the future log ends too early."""
    if compared.promotion.current is None:
        return finding.kind == "log-end"
    return bool(compared.lost) and compared.is_current_better


def _refused(compared: Compared) -> Finding:
    promotion = compared.promotion
    assert promotion.current is not None, "its directory has the name"
    found = f"Kafka's start gives it the name {promotion.name}, which {promotion.current} has, and fails (Directory "
    aside, kept = promotion.future, promotion.current
    if not compared.is_current_better:
        aside, kept = kept, aside
    more = "" if compared.only_future == compared.only_current == 0 else f": {kept.name} has more offsets"
    return Finding(
        path=str(promotion.future),
        kind=PROMOTED,
        severity="error",
        expected=f"no {promotion.name} in the log directory of its future log",
        found=f"{found}not empty)",
        action=f"stop the broker, and move {aside.name} out of the log directory{more}",
        command=next_steps.move([(aside, next_steps.beside(aside))]),
        refuses_start=True,
    )


def _alone(around: Surroundings, compared: Compared) -> Finding:
    promotion = compared.promotion
    found = f"Kafka's start gives it the name {promotion.name}, as the metadata log places the partition here"
    if compared.lost:
        first, last = compared.lost[0]
        return _lossy(
            compared,
            f"{found}; it ends at {compared.end:,}, and {offsets_text(first, last)} lost",
            f"the offsets up to {last:,}, which it had by the checkpoints",
            f"look for {promotion.name}, from which it was moved; if it is there, move this one out of the directory",
            next_steps.search(promotion.future.absolute().parent.parent, promotion.name),
        )
    action = "nothing to do: the move ends with this"
    if not around.node.others:
        action = "give all log directories of the broker, or --config: the start deletes the current log in another one"
    return Finding(path=str(promotion.future), kind=PROMOTED, severity="info", found=found, action=action)


def _lossy(compared: Compared, found: str, expected: str, action: str, command: str) -> Finding:
    return Finding(
        path=str(compared.promotion.future),
        kind=PROMOTED,
        severity="error",
        expected=expected,
        found=found,
        lost_first_offset=compared.lost[0][0],
        lost_last_offset=compared.lost[-1][1],
        action=action,
        command=command,
    )


def _way_out(compared: Compared) -> tuple[str, str]:
    """Return action and command for a promotion that loses offsets of the current log."""
    promotion = compared.promotion
    assert promotion.current is not None, "its offsets are lost"
    if compared.is_current_better:
        action = f"stop the broker, and move this one out of the log directory: Kafka then serves {promotion.current}"
        told = "" if promotion.is_resumed else ", and tells the controller its place"
        return f"{action}{told}", _move_out(promotion)
    if not compared.only_current:
        command = next_steps.salvage_log_directory(promotion.future.parent)
        return "do not start the broker: salvage keeps the sound batches behind the damage, in a copy", command
    copy = next_steps.beside(promotion.current)
    action = (
        f"it has {compared.only_future:,} offsets that the other lacks: copy the other before the start, or salvage"
    )
    return action, f"cp -rT -- {next_steps.quoted(promotion.current)} {next_steps.quoted(copy)}"


def _move_out(promotion: Promotion) -> str:
    return next_steps.move([(promotion.future, next_steps.beside(promotion.future))])


def _offsets(compared: Compared) -> str:
    """The lost offsets in words."""
    ranges = ranges_text(compared.lost, RANGES_SHOWN)
    return f"offsets {ranges}" if compared.lost_offsets > 1 else f"offset {ranges}"
