"""The output of kcli recover about the metadata log: the metadata that a start loses, strays, and what salvage
saves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formats.file_name import METADATA_DIRECTORY
from kcli.cli.output import count_text
from kcli.inspector.verify.findings import ranges_text
from kcli.inspector.verify.next_steps import salvage_to
from kcli.log.partition_view import paths_in
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.metadata_log.recovery import MetadataRecovery

Row = dict[str, Any]
MOST_NAMES = 10
"""The maximum number of names on a line of text; --format jsonl lists them all."""
DAMAGED, DOUBTFUL, MISSING = "metadata-damaged", "metadata-doubtful", "metadata-missing"
QUORUM, STRAY = "metadata-in-quorum", "stray"
FOOTER = "snapshot-footer"
LOST, RETURNS, CHANGED = "metadata-lost", "metadata-returns", "metadata-changed"
UNKNOWN = "not here: it is unknown which partitions Kafka renames to -stray, misses or has twice, and whether it starts"
WITHOUT = "unless metadata.log.dir is elsewhere, Kafka knows no topic and renames all partitions to -stray"
WORDS = {
    LOST: "Kafka then no longer knows",
    RETURNS: "Kafka then knows again what was deleted",
    CHANGED: "Kafka then has an older state of",
}
CONSEQUENCES = {"leader epoch": "; with lower ones leaders cut later entries off leader-epoch-checkpoint"}
"""What follows, by the kind of an entity that is lost or older."""
DOUBTFUL_WORDS = {
    LOST: "if records are lost, Kafka no longer knows",
    CHANGED: "if records are lost, Kafka has an older state of",
}
WHY_STRAY = {
    (False, False): "the metadata does not know them",
    (False, True): "the metadata has topics of their names with other ids",
    (True, False): "their topics were deleted",
}
WHY_STRAY[True, True] = WHY_STRAY[True, False]
"""Why directories become strays, by the fields `deleted` and `renewed` of a row."""
GARBLED = (
    "the topic id in partition.metadata is that of the topic but for letter case or a few characters, as where a tool "
    "or a flipped bit changed the file"
)
NO_ID = "partition.metadata is missing, which has the id of the topic"


def metadata_rows(metadata: MetadataRecovery, *, has_partitions: bool) -> Iterator[Row]:
    """Yield a row for a snapshot without its footer, for each damaged part of the metadata log, each topic,
    configuration or other entity that the start loses or changes, and each stray.

    The field `kept` of a row is whether salvage keeps the entity or the stray. has_partitions: whether the directory
    has partitions, which may become strays.
    """
    lost = metadata.lost
    if (footer := metadata.footer) is not None and footer.is_all and not metadata.wants_salvage:
        place = {"partition": METADATA_DIRECTORY, "file": footer.file, "position": footer.cut.position}
        yield {**place, "kind": FOOTER, "reason": footer.cut.reason}
    if lost is None:
        place = {"partition": METADATA_DIRECTORY, "file": ""}
        for sign in metadata.in_quorum:
            yield {**place, "kind": QUORUM, "reason": sign, "voters": list(metadata.other_voters)}
        if has_partitions and metadata.is_missing and metadata.is_log_directory:
            yield {**place, "kind": MISSING, "beside": [str(each) for each in metadata.homes_beside]}
        yield from _stray_rows(metadata)
        return
    place = {"partition": METADATA_DIRECTORY, "file": ""}
    signs = metadata.signs if metadata.starts else lost.contradicted
    kind = DOUBTFUL if metadata.is_doubtful else DAMAGED
    yield from ({**place, "kind": kind, "reason": sign} for sign in signs)
    if not metadata.starts:
        return
    if metadata.is_loss:
        from kcli.metadata.difference import differences, lowered_epochs

        for each in (*differences(lost.readable, lost.image), *lowered_epochs(lost.readable, lost.image)):
            kind = RETURNS if each.before is None else LOST if each.after is None else CHANGED
            yield {**place, "kind": kind, **each._asdict(), "kept": metadata.salvage is not None}
        for name in metadata.salvage.rebuilt if metadata.salvage is not None else ():
            yield {**place, "kind": LOST, "what": "topic", "name": name, "before": None, "after": None, "kept": True}
        for name, (old, new) in metadata.salvage.renewed.items() if metadata.salvage is not None else ():
            yield {**place, "kind": CHANGED, "what": "topic", "name": name, "before": new, "after": old, "kept": True}
    yield from _stray_rows(metadata)


def _stray_rows(metadata: MetadataRecovery) -> Iterator[Row]:
    for stray in metadata.strays:
        copy = metadata.node.left_out.get(stray.partition.path)
        yield {
            "partition": stray.partition.path.name,
            "file": "",
            "kind": STRAY,
            "reason": stray.reason,
            "topic_id": stray.topic_id,
            "deleted": stray.is_removed,
            "renewed": stray.is_renewed,
            "garbled": stray.is_garbled,
            "kept": metadata.keeps(stray),
            "served": None if copy is None else str(copy.other),
            "end_offset": None if copy is None else copy.end,
            "served_end_offset": None if copy is None else copy.other_end,
            "not_served": None if copy is None else [[*each] for each in copy.only],
            "completes": copy is not None and bool(copy.completing),
        }


def metadata_text(
    metadata: MetadataRecovery, rows: Iterable[Row], config: Path | None, *, changes: bool
) -> list[tuple[str, str, str]]:
    """Return these rows as lines of text. A line is a tuple: the kind of its row; what the row is about (the metadata
    log, or the strays; for the kind "next", a command); and the words.

    config: the path of server.properties, for the command to run next. changes: whether the recovery is carried out.
    """
    found = list(rows)
    lines = [
        (row["kind"], METADATA_DIRECTORY, printable(_words(row)))
        for row in found
        if row["kind"] in (FOOTER, DAMAGED, DOUBTFUL, MISSING, QUORUM)
    ]
    for kind, verb in (DOUBTFUL_WORDS if metadata.is_doubtful else WORDS).items():
        by_kind: dict[str, list[str]] = {}
        for row in found:
            if row["kind"] == kind:
                by_kind.setdefault(row["what"], []).append(row["name"])
        words = [
            f"{count_text(len(each), what)}: {_listed(sorted(each))}{CONSEQUENCES.get(what, '')}"
            for what, each in by_kind.items()
        ]
        if words:
            lines.append((kind, METADATA_DIRECTORY, "\n                 ".join([f"{verb}:", *words])))
    strays = [row for row in found if row["kind"] == STRAY]
    for why in dict.fromkeys([NO_ID, GARBLED, *WHY_STRAY.values(), *map(_why_stray, strays)]):
        those = [row for row in strays if _why_stray(row) == why]
        names = [row["partition"] for row in those]
        if names:
            offsets = sum(row.get("offsets", 0) for row in those)
            verb = "are renamed to -stray" if len(names) > 1 else "is renamed to -stray"
            reasons_text = f"{count_text(len(names), 'partition')} {verb} at the start: {why}"
            if offsets:
                reasons_text += f"; {count_text(offsets, 'offset')} {'leaves' if offsets == 1 else 'leave'} service"
            keeps, served = "keeps" if changes else "would keep", those[0]["served"]
            if all(row["kept"] for row in those) and metadata.wants_salvage:
                reasons_text += f"; --salvage {keeps} them in service"
                reasons_text += "" if served is None else f", and salvage of {Path(served).parent} sets that aside"
            elif served is not None and metadata.wants_salvage:
                reasons_text += f"; --salvage {keeps} this one as a -stray"
            lines.append((STRAY, _listed(names), reasons_text))
    return lines + _salvage_lines(metadata, config, changes=changes)


def _why_stray(row: Row) -> str:
    if row["served"] is not None:
        own, its = (
            "no log" if each is None else f"up to {each:,}" for each in (row["end_offset"], row["served_end_offset"])
        )
        missing = ""
        if row["not_served"]:
            missing = f"; only this one has offsets {ranges_text(row['not_served'], MOST_NAMES)}"
        if row["completes"]:
            missing += f": a move between the two broke off, and salvage of {Path(row['served']).parent} takes these"
        return f"{NO_ID}; Kafka serves {row['served']}; this one has {own}, that {its}{missing}"
    if row["garbled"]:
        return GARBLED
    return NO_ID if row["topic_id"] is None else WHY_STRAY[row["deleted"], row["renewed"]]


def _words(row: Row) -> str:
    if row["kind"] == FOOTER:
        all_records = "has all records of the snapshot"
        return (
            f"{row['file']} has {row['reason']}: Kafka starts with it, and {all_records}; --salvage writes the footer"
        )
    if row["kind"] == DAMAGED:
        return f"records of the metadata log are lost: {row['reason']}"
    if row["kind"] == DOUBTFUL:
        both = "its last records are lost, or the partitions' directories are another cluster's"
        return f"the metadata log has no damage, but either {both}: {row['reason']}"
    if row["kind"] == MISSING:
        beside = f": {row['beside'][0]} has one of this node" if len(row["beside"]) == 1 else ""
        return f"{UNKNOWN}; --config FILE with metadata.log.dir or log.dirs names its place{beside}; {WITHOUT}"
    voters = ", ".join(map(str, row["voters"]))
    return f"{row['reason']}; this node fetches from the other voters ({voters}) what it lacks, and nothing is lost"


def _salvage_lines(metadata: MetadataRecovery, config: Path | None, *, changes: bool) -> list[tuple[str, str, str]]:
    salvage, lost = metadata.salvage, metadata.lost
    if lost is None or salvage is None or metadata.misplaced_log is not None:
        return []
    strays = sum(metadata.keeps(stray) for stray in metadata.strays)
    words = f"{count_text(strays, 'partition')} that would be stray"
    if not metadata.is_foreign:
        others = sorted({path.name for content in lost.other_logs.values() for path in paths_in(content)})
        readable = f"all that can be read of {_listed(others)}" if others else "all that can be read"
        words = f"{readable}, and {words}" if strays else readable
    if salvage.rebuilt:
        words += f"; without their configuration, as only their directories are left: {_listed(salvage.rebuilt)}"
    if salvage.renewed:
        words += f"; with the ids of their directories, which no record has: {_listed(sorted(salvage.renewed))}"
    if metadata.is_doubtful:
        words += "; for directories of this cluster only: move those of another one out of the log directory before"
    if metadata.is_salvaged:
        return [("salvaged", METADATA_DIRECTORY, f"{'kept' if changes else 'to be kept'} in a snapshot: {words}")]
    option = [] if config is None else ["--config", str(config)]
    new = "NEW"
    if metadata.is_elsewhere:  # NEW is the copy of the log directory that the command was given
        new = f"NEW-{metadata.home.absolute().name}"
        words += "; when the copy has its place, recover this directory anew"
    command = salvage_to(new, metadata.home, metadata.home, option)
    return [("next", printable(command), f"keeps {words}")]


def _listed(names: list[str]) -> str:
    shown = ", ".join(map(printable, names[:MOST_NAMES]))
    return shown if len(names) <= MOST_NAMES else f"{shown} and {len(names) - MOST_NAMES:,} more (--format jsonl)"
