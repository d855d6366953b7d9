"""A `.swap` log of an interrupted cleaning, beside the segments that it replaces.

At its next start Kafka deletes every segment that begins at an offset which the log covers, and gives it its name; it
does not ask whether the log is sound. Source: LogLoader.load.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from formats.file_name import FileKind
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding, offsets_text
from kcli.inspector.verify.partition import LogVerifier
from kcli.inspector.verify.segment_names import Segment, end_of
from kcli.inspector.verify.surroundings import Gaps


def harmful(swap: Segment, segments: Sequence[Segment], gaps: Gaps, advance: Callable[[int], None]) -> Finding | None:
    """What is lost when the `.swap` log replaces segments; None where it does so in order, or replaces none.

    gaps: what it means that it ends before they do. Raises UnreadableInput.
    """
    log = swap.files[FileKind.LOG]
    verifier = LogVerifier([Segment(swap.base, {FileKind.LOG: log})], [], advance, is_whole=False)
    faults = [each for each in verifier.findings() if each.severity == "error"]
    covered = max(end_of(log), swap.base)
    replaced = [each for each in segments if swap.base <= each.base < max(covered, swap.base + 1)]
    if not replaced:
        return None
    end = end_of(replaced[-1].files[FileKind.LOG])
    is_short = covered < end and (gaps is Gaps.LOSS or bool(faults))
    if not is_short and not faults:
        return None
    names = ", ".join(each.files[FileKind.LOG].name for each in replaced)
    why = f"{faults[0].found} at byte {faults[0].position or 0:,}" if faults else f"a log that ends at {covered:,}"
    lost = f": {offsets_text(covered, end - 1)} lost" if is_short else ""
    return Finding(
        path=str(log),
        kind="swap-log",
        severity="error",
        position=faults[0].position if faults else None,
        offset=swap.base,
        expected=f"a sound log of what it replaces, up to offset {end - 1:,}",
        found=f"{why}, and Kafka puts it in the place of {names} when it starts{lost}",
        lost_first_offset=covered if is_short else None,
        lost_last_offset=end - 1 if is_short else None,
        action="before the broker starts, move it away: what it would replace is still there",
        command=next_steps.move([(path, path.with_name(f"{path.name}.moved")) for path in swap.files.values()]),
    )
