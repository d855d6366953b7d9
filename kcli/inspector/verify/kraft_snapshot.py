"""A KRaft snapshot (`.checkpoint`): a log of its own between a header and a footer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from formats.control_record import ControlType
from formats.file_name import FileKind
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.partition import LogVerifier
from kcli.inspector.verify.segment import check_control
from kcli.inspector.verify.segment_names import Segment

FETCH = "delete the file while the node is stopped: it fetches a snapshot from the leader or reads the log again"


def verify_kraft_snapshot(path: Path, advance: Callable[[int], None]) -> Iterator[Finding]:
    """Its batches, the header that must come first, the footer that must come last. Raises UnreadableInput."""
    first: list[int] = []
    last: list[int] = []

    def control(batch: bytes) -> tuple[int, int, str | None]:
        kinds, reason = control_types(batch)
        if kinds and not first:
            first.append(kinds[0])
        last[:] = kinds[-1:]
        return (-1, -1, reason) if reason else check_control(batch)

    verifier = LogVerifier([Segment(0, {FileKind.LOG: path})], [], advance, is_whole=False, control=control)
    yield from verifier.findings()
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


def control_types(batch: bytes) -> tuple[list[int], str | None]:
    """The types of the control records of one batch, and what is wrong with them."""
    from formats import control_record, record_batch
    from formats.errors import FormatError

    try:
        records = record_batch.parse_batch(batch).records
        return [int(control_record.parse(record.key, record.value).type) for record in records], None
    except FormatError as error:
        return [], error.reason
