"""What kcli recover says of the metadata log: what a start forgets, what becomes stray, what can be saved of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.file_name import METADATA_DIRECTORY
from kcli.cli.output import printable

if TYPE_CHECKING:
    from kcli.metadata_recovery import MetadataRecovery

Row = dict[str, Any]
MOST_NAMES = 10
"""So many names on a line; jsonl has them all."""
DAMAGED, MISSING, QUORUM, STRAY = "metadata-damaged", "metadata-missing", "metadata-in-quorum", "stray"
LOST, RETURNS, CHANGED = "metadata-lost", "metadata-returns", "metadata-changed"
WORDS = {
    LOST: "Kafka then no longer knows",
    RETURNS: "Kafka then knows again what was deleted",
    CHANGED: "Kafka then has an older state of",
}
WHY_STRAY = {
    (False, False): "the metadata does not know them",
    (False, True): "the metadata has topics of their names with other ids",
    (True, False): "their topics were deleted",
}
WHY_STRAY[True, True] = WHY_STRAY[True, False]
"""By `deleted` and `renewed`."""


def metadata_rows(metadata: MetadataRecovery, *, has_partitions: bool) -> Iterator[Row]:
    """A row for each sign of damage, each thing that a start forgets or knows otherwise, each directory that becomes
    stray. kept: does salvage keep it? has_partitions: there are some that may become stray."""
    lost = metadata.lost
    if lost is None:
        place = {"partition": METADATA_DIRECTORY, "file": ""}
        for sign in metadata.in_quorum:
            yield {**place, "kind": QUORUM, "reason": sign, "voters": list(metadata.other_voters)}
        if has_partitions and metadata.is_missing and metadata.is_log_directory:
            yield {**place, "kind": MISSING}
        return
    if not metadata.starts:
        return
    place = {"partition": METADATA_DIRECTORY, "file": ""}
    yield from ({**place, "kind": DAMAGED, "reason": sign} for sign in lost.evidence if not lost.cuts)
    if metadata.is_loss:
        from kcli.metadata.difference import differences

        for each in differences(lost.readable, lost.image):
            kind = RETURNS if each.before is None else LOST if each.after is None else CHANGED
            yield {**place, "kind": kind, **each._asdict(), "kept": metadata.salvage is not None}
        for name in metadata.salvage.rebuilt if metadata.salvage is not None else ():
            yield {**place, "kind": LOST, "what": "topic", "name": name, "before": None, "after": None, "kept": True}
    for stray in metadata.strays:
        yield {
            "partition": stray.partition.path.name,
            "file": "",
            "kind": STRAY,
            "reason": stray.reason,
            "topic_id": stray.topic_id,
            "deleted": stray.is_removed,
            "renewed": stray.is_renewed,
            "kept": metadata.keeps(stray),
        }


def metadata_text(
    metadata: MetadataRecovery, rows: Iterable[Row], config: Path | None, *, changes: bool
) -> list[tuple[str, str, str]]:
    """The same for people: kind, place and words of each line. config: server.properties, for the next command."""
    found = list(rows)
    lines = [
        (row["kind"], METADATA_DIRECTORY, _words(row)) for row in found if row["kind"] in (DAMAGED, MISSING, QUORUM)
    ]
    for kind, verb in WORDS.items():
        by_what: dict[str, list[str]] = {}
        for row in found:
            if row["kind"] == kind:
                by_what.setdefault(row["what"], []).append(row["name"])
        words = [f"{_count(len(each), what)}: {_listed(sorted(each))}" for what, each in by_what.items()]
        if words:
            lines.append((kind, METADATA_DIRECTORY, "\n                 ".join([f"{verb}:", *words])))
    strays = [row for row in found if row["kind"] == STRAY]
    for why in dict.fromkeys(WHY_STRAY.values()):
        names = [row["partition"] for row in strays if WHY_STRAY[row["deleted"], row["renewed"]] == why]
        if names:
            verb = "are renamed to -stray" if len(names) > 1 else "is renamed to -stray"
            lines.append((STRAY, _listed(names), f"{_count(len(names), 'partition')} {verb} at the start: {why}"))
    return lines + _salvage_lines(metadata, config, changes=changes)


def _words(row: Row) -> str:
    if row["kind"] == DAMAGED:
        return f"records of the metadata log are lost: {row['reason']}"
    if row["kind"] == MISSING:
        return (
            "unless metadata.log.dir is elsewhere (--config), Kafka knows no topic and renames all partitions to -stray"
        )
    voters = ", ".join(map(str, row["voters"]))
    return f"{row['reason']}; this node fetches from the other voters ({voters}) what it lacks, and nothing is lost"


def _salvage_lines(metadata: MetadataRecovery, config: Path | None, *, changes: bool) -> list[tuple[str, str, str]]:
    salvage, lost = metadata.salvage, metadata.lost
    if lost is None or salvage is None:
        return []
    strays = sum(metadata.keeps(stray) for stray in metadata.strays)
    words = "all that can be read"
    if strays:
        words += f", and {_count(strays, 'partition')} that would be stray"
    if salvage.rebuilt:
        words += f"; without their configuration, as only directories tell of them: {_listed(salvage.rebuilt)}"
    if metadata.is_salvaged:
        return [("salvaged", METADATA_DIRECTORY, f"{'kept' if changes else 'to be kept'} in a snapshot: {words}")]
    option = [] if config is None else ["--config", str(config)]
    command = shlex.join(["kcli", "recover", "--salvage", *option, "--out", "NEW", str(metadata.home)])
    return [("next", command, f"keeps {words}")]


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(printable, names[:MOST_NAMES]))
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES:,} more (--format jsonl)"
