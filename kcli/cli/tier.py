"""kcli tier: lists, checks, fetches and attaches segments in tiered storage, without a running cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from formats.file_name import FileKind
from kcli.cli.error_report import all_or_nothing
from kcli.cli.options import Format, current_ms, not_empty, pairs
from kcli.cli.output import aligned, count_text, json_line, note, write_text
from kcli.cli.progress import Progress, size_text
from kcli.cli.temporary import spool_for
from kcli.cli.verify import Least, report
from kcli.errors import UnreadableInput, UsageError
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.broker.tiering.attach import Attaching
    from kcli.tier.attachment import Attachment
    from kcli.tier.fetch import Fetched
    from kcli.tier.layout import SegmentObjects
    from kcli.tier.segment import RemoteSegment, TieredPartition
    from kcli.tier.tier import PartitionTier, Tier

T = TypeVar("T")
EPILOG = """
Examples:

kcli tier list /var/lib/kafka --tier /mnt/tier --topic orders

kcli tier verify /var/lib/kafka --tier /mnt/tier

kcli tier orphans /var/lib/kafka --tier /mnt/tier

kcli tier fetch /var/lib/kafka --tier /mnt/tier --topic orders --out fetched

kcli tier attach /var/lib/kafka --tier /mnt/tier --topic orders

kcli tier list --tier /mnt/tier         from the objects alone

kcli tier verify /var/lib/kafka --tier s3://bucket/tier         in a bucket
"""

app = typer.Typer(
    help="List, check, fetch and attach segments in tiered storage, with or without a broker's log directory.",
    epilog=EPILOG,
    no_args_is_help=True,
)


def _known_topics(context: typer.Context) -> list[str]:
    """The topics in the tier, for the shell's completion; none for a tier in a bucket, as listing it takes too long."""
    from kcli.tier.layout import inventory
    from kcli.tier.opening import is_bucket, open_tier

    store = context.params.get("store")
    if store is None or is_bucket(store):
        return []
    return sorted({each.topic for each in inventory(open_tier(store).list_objects()).partitions})


LogDir = Annotated[
    Path | None,
    typer.Argument(
        metavar="[LOG_DIR]",
        help="A broker's log directory: its __remote_log_metadata and local logs. Without it, the objects alone tell.",
        show_default=False,
    ),
]
Store = Annotated[
    str,
    typer.Option(
        "--tier",
        metavar="DIR|URL",
        help="The store: of LocalTieredStorage or of Aiven's plugin; a directory or a bucket: s3://, gs://, az://.",
    ),
]
KeyPair = Annotated[
    list[str] | None,
    typer.Option(
        "--key-pair",
        metavar="ID=FILE",
        help="A private key (PEM) that Aiven's plugin encrypts with; may be repeated.",
    ),
]
Topic = Annotated[
    str | None,
    typer.Option("--topic", metavar="TOPIC", help="Only this topic.", callback=not_empty, autocompletion=_known_topics),
]
TopicId = Annotated[
    str | None,
    typer.Option("--topic-id", metavar="ID", help="The topic's id, if the tier has several topics of this name."),
]
TRIES = 3
"""How often a fetch is begun at most, if a running broker deletes segments before they are copied."""
Output = Annotated[Format, typer.Option("--format", help="How to show the result.")]
Severity = Annotated[
    Least | None,
    typer.Option("--severity", help="The least that is shown and counts. Default: warning, for jsonl info."),
]


def _read(
    store: str,
    log_dir: Path | None,
    topic: str | None = None,
    key_pairs: list[str] | None = None,
    spool: Path | None = None,
    only: TieredPartition | None = None,
) -> Tier:
    from kcli.tier.key_pairs import KeyPairs
    from kcli.tier.layout import directory_name
    from kcli.tier.opening import open_tier
    from kcli.tier.tier import Tier

    tier = Tier.read(open_tier(store, spool, KeyPairs.given(key_pairs)), log_dir, topic, only)
    if only is not None and not tier.inventory.partitions:
        raise UnreadableInput(f"{tier.store.address}/{directory_name(only)}", "no object is there")
    if topic is not None and not tier.partitions:
        raise UnreadableInput(topic, "the tier has no such topic")
    if log_dir is None and not tier.partitions:
        raise UnreadableInput(tier.store.address, "no object in it is named as one of a tier")
    return tier


@app.command("list")
def list_segments(
    store: Store,
    log_dir: LogDir = None,
    topic: Topic = None,
    key_pairs: KeyPair = None,
    output: Output = Format.TABLE,
) -> None:
    """List the segments in the tier: offsets, leader epochs, size, state, objects, and whether they are local, too.

    The state is that in the metadata log; a dash if only the objects were read. A question mark stands for a last
    offset that no batch shows. kcli tier verify names segments that lack objects, kcli tier orphans names objects
    without a segment.

    Exit status: 0 listed, 2 something could not be read.
    """
    tier = _read(store, log_dir, topic, key_pairs)
    if output is Format.JSONL:
        for found in _listed(tier, _segment_object, _lost_object):
            write_text(json_line(found))
    elif rows := list(_listed(tier, _segment_row, _lost_row)):
        write_text(aligned([HEADINGS, *rows]))
    _tell_damage(tier)
    errors = tier.all_unread()
    for error in errors:
        note(printable(f"kcli: {error}"))
    raise typer.Exit(UnreadableInput.exit_status if errors else 0)


def _listed(
    tier: Tier, of_segment: Callable[[Tier, PartitionTier, RemoteSegment], T], of_lost: Callable[[SegmentObjects], T]
) -> Iterator[T]:
    """Yield a row for each segment, by partition and start offset. of_segment, of_lost: return the row for a segment,
    and for the objects of a segment whose last offset no metadata and no batch shows."""
    for each in tier.partitions:
        shown = [(segment.start_offset, of_segment(tier, each, segment)) for segment in each.cache.segments()]
        shown += ((objects.start_offset, of_lost(objects)) for objects in (*each.lost, *each.hidden))
        yield from (found for _, found in sorted(shown, key=itemgetter(0)))


HEADINGS = ("TOPIC", "PARTITION", "OFFSETS", "EPOCHS", "SIZE", "STATE", "LOCAL", "OBJECTS")


def _offsets(first: int, last: int | None) -> str:
    """Return the text of a range of offsets, with `?` for a last offset that is not known."""
    return f"{first:,}..{'?' if last is None else f'{last:,}'}"


def _segment_row(tier: Tier, each: PartitionTier, segment: RemoteSegment) -> tuple[str, ...]:
    objects = tier.objects(segment)
    first, last = (segment.leader_epochs[i].epoch for i in (0, -1)) if segment.leader_epochs else (None, None)
    return (
        segment.partition.topic,
        str(segment.partition.partition),
        f"{segment.start_offset:,}..{segment.end_offset:,}",
        "-" if first is None else f"{first:,}" if first == last else f"{first:,}..{last:,}",
        size_text(segment.size),
        "-" if segment.state is None else segment.state.name,
        "-" if tier.log_directory is None else each.local_part(segment),
        _in_braces(objects.names),
    )


def _lost_row(objects: SegmentObjects) -> tuple[str, ...]:
    size = objects.sizes.get(FileKind.LOG)
    topic, partition, _ = objects.partition
    offsets, shown = _offsets(objects.start_offset, None), "-" if size is None else size_text(size)
    return topic, str(partition), offsets, "-", shown, "-", "-", _in_braces(objects.names)


def _in_braces(names: list[str]) -> str:
    """Return the names of a segment's objects, which differ in their suffixes, as one pattern of a shell:
    STEM.{log,index}."""
    if len(names) < 2:
        return "".join(names) or "none"
    stem = names[0].rpartition(".")[0]
    return f"{stem}.{{{','.join(name.rpartition('.')[2] for name in names)}}}"


def _segment_object(tier: Tier, each: PartitionTier, segment: RemoteSegment) -> dict[str, Any]:
    objects = tier.objects(segment)
    return {
        "topic": segment.partition.topic,
        "partition": segment.partition.partition,
        "topic_id": segment.partition.topic_id,
        "segment_id": segment.id,
        "start_offset": segment.start_offset,
        "end_offset": segment.end_offset,
        "leader_epochs": {str(epoch): start for epoch, start in segment.leader_epochs},
        "size": segment.size,
        "state": None if segment.state is None else segment.state.name,
        "max_timestamp": segment.max_timestamp_ms,
        "broker": segment.broker_id,
        "local": None if tier.log_directory is None else each.local_part(segment),
        "objects": dict(objects.stored),
    }


def _lost_object(objects: SegmentObjects) -> dict[str, Any]:
    return {
        "topic": objects.partition.topic,
        "partition": objects.partition.partition,
        "topic_id": objects.partition.topic_id,
        "segment_id": objects.id,
        "start_offset": objects.start_offset,
        "end_offset": None,
        "leader_epochs": {},
        "size": objects.sizes.get(FileKind.LOG),
        "state": None,
        "max_timestamp": None,
        "broker": None,
        "local": None,
        "objects": dict(objects.stored),
    }


def _tell_damage(tier: Tier) -> None:
    """Write a note to stderr if the metadata log is damaged. This does not change the exit status."""
    troubles = [] if tier.log is None else [each for each in tier.log.troubles if each.kind != "refused"]
    if troubles:
        note(f"kcli: {troubles[0].path}: {troubles[0].reason}; kcli tier verify tells more")


@app.command("verify")
def verify(
    store: Store,
    log_dir: LogDir = None,
    topic: Topic = None,
    key_pairs: KeyPair = None,
    severity: Severity = None,
    output: Output = Format.TABLE,
) -> None:
    """Check each segment in the tier: its objects, batches, indexes; gaps; what contradicts the metadata.

    Exit status: 0 sound, 1 errors or warnings, 2 something could not be read. Nothing is written.
    """
    raise typer.Exit(verify_store(store, log_dir, topic, severity, output, key_pairs=key_pairs))


def verify_store(
    store: str,
    log_dir: Path | None,
    topic: str | None,
    severity: Least | None,
    output: Format,
    *,
    key_pairs: list[str] | None = None,
    only: TieredPartition | None = None,
    quiet: bool = False,
) -> int:
    """Check a tier, or one partition in it (`only`), and show the findings. key_pairs: the arguments of --key-pair;
    None for those in the environment. Returns the exit status."""
    from kcli.inspector.tier import TierVerification

    with spool_for(store) as spool:
        tier = _read(store, log_dir, topic, key_pairs, spool, only)
        progress = Progress(lambda: sum(segment.size for each in tier.partitions for segment in each.copied()))
        return report(TierVerification(tier, progress.advance), progress, severity, output, quiet=quiet)


@app.command("orphans")
def orphans(
    store: Store,
    log_dir: LogDir = None,
    severity: Severity = None,
    output: Output = Format.TABLE,
) -> None:
    """Name objects that no metadata names, and metadata that names no objects.

    Each line of objects comes with a command that removes them; kcli itself removes nothing. A metadata log that is
    damaged, or in other brokers' log directories, proves nothing: then no command is given.

    Exit status: 0 none, 1 some, 2 something could not be read.
    """
    from kcli.inspector.tier import Orphans

    found = Orphans(_read(store, log_dir))
    raise typer.Exit(report(found, Progress(lambda: 0), severity, output))


@app.command("fetch")
def fetch_partitions(
    store: Store,
    topic: Annotated[
        str,
        typer.Option("--topic", metavar="TOPIC", help="The topic.", callback=not_empty, autocompletion=_known_topics),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="NEW", help="The new log directory.")],
    log_dir: LogDir = None,
    partition: Annotated[
        int | None, typer.Option("--partition", metavar="N", min=0, help="Only this partition.")
    ] = None,
    topic_id: TopicId = None,
    key_pairs: KeyPair = None,
    output: Output = Format.TABLE,
) -> None:
    """Write a topic's partitions to a new log directory: segments of the tier, then the local log, each offset once.

    The files have the names that Kafka gives them, with indexes, snapshots and leader epochs: Kafka opens them. If
    several segments have an offset, the leader epochs decide from which it is taken. NEW is complete, or does not
    exist.

    Exit status: 0 all offsets are there, 1 some are missing, 2 usage or unreadable input.
    """
    from kcli.log.disk import Disk
    from kcli.tier.fetch import LocalLogChanged, fetch, whole_bytes
    from kcli.tier.store import ObjectMissing
    from kcli.tier.tier import chosen

    for tries_left in reversed(range(TRIES)):
        tier = _read(store, log_dir, topic, key_pairs)
        partitions = chosen(tier.partitions, topic, topic_id)
        if partition is not None:
            partitions = [each for each in partitions if each.partition.partition == partition]
            if not partitions:
                raise UsageError(f"the tier has no partition {partition} of {printable(topic)}")
        progress = Progress(partial(whole_bytes, tier, partitions))
        try:
            with all_or_nothing(out):
                results = fetch(tier, partitions, out, disk=Disk(), advance=progress.advance)
            break
        except (LocalLogChanged, ObjectMissing):
            progress.clear()
            if not tries_left:
                raise
    _tell_damage(tier)
    progress.clear()
    _show_fetched(results, out, output)
    raise typer.Exit(1 if any(each.missing or each.troubles for each in results) else 0)


def _show_fetched(results: list[Fetched], out: Path, output: Format) -> None:
    for each in results:
        if output is Format.JSONL:
            missing = [range_._asdict() for range_ in each.missing]
            row = {"topic": each.partition.topic, "partition": each.partition.partition, "tiered": each.tiered}
            row |= {"local": each.local, "cut": each.cut, "bytes": each.size, "log_start_offset": each.first_offset}
            write_text(json_line(row | {"missing": missing, "troubles": each.troubles}))
            continue
        parts = [f"{count_text(each.tiered, 'segment')} of the tier", f"{each.local:,} local", size_text(each.size)]
        parts += [] if each.first_offset is None else [f"log start offset {each.first_offset:,}"]
        write_text(f"{printable(each.partition)}  {', '.join(parts)}\n")
        for first, last, reason in each.missing:
            write_text(f"  missing  offsets {_offsets(first, last)}: {printable(reason)}\n")
        for trouble in each.troubles:
            write_text(f"  wrong    {printable(trouble)}\n")
    if output is not Format.JSONL:
        from kcli.inspector.verify.next_steps import verify as verify_command

        write_text(f"Next: {printable(verify_command(out))}\n")


METADATA_PARTITIONS_MAX = 10_000


@app.command("attach")
def attach_topic(
    log_dir: Annotated[
        Path,
        typer.Argument(metavar="LOG_DIR", help="The log directory of a stopped node, the only voter of its cluster."),
    ],
    store: Store,
    topic: Annotated[
        str,
        typer.Option("--topic", metavar="TOPIC", help="The topic.", callback=not_empty, autocompletion=_known_topics),
    ],
    topic_id: TopicId = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", metavar="NAME=VALUE", help="A configuration of the topic.")
    ] = None,
    metadata_partitions: Annotated[
        int,
        typer.Option(
            "--metadata-partitions",
            metavar="N",
            min=1,
            max=METADATA_PARTITIONS_MAX,
            help="Partitions of __remote_log_metadata, if the cluster has none yet.",
        ),
    ] = 50,
    in_place: Annotated[
        bool, typer.Option("--in-place", help="Change LOG_DIR, under Kafka's lock; else only show what is done.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Make a topic of which only the tier is left one of another cluster: its segments are read where they are.

    LOG_DIR gets the topic with the tier's topic id, logs that begin at the end of the tier, and the records of all
    segments in __remote_log_metadata. A topic that the cluster has, with this id, gets the missing records alone.

    Exit status: 0 attached, or attachable; 1 not attachable, 2 usage or unreadable input.
    """
    from kcli.broker.tiering.attach import attach, plan_attaching
    from kcli.log.disk import Disk
    from kcli.tier.attachment import attachment
    from kcli.tier.tier import chosen

    tier = _read(store, None, topic)
    if tier.store.is_plugin:
        raise UsageError(f"{printable(store)}: attach takes a tier in the layout of LocalTieredStorage alone")
    partitions = chosen(tier.partitions, topic, topic_id)
    tier.check_read(partitions)
    attachments = [attachment(tier, each) for each in partitions]
    now_ms = current_ms()
    configs = pairs(option, "-o")
    plan = plan_attaching(log_dir, attachments, configs=configs, count=metadata_partitions, now_ms=now_ms)
    if in_place and not plan.troubles:
        attach(plan, disk=Disk(), now_ms=now_ms)
    _show_attached(plan, output, done=in_place and not plan.troubles)
    raise typer.Exit(1 if plan.troubles else 0)


def _show_attached(plan: Attaching, output: Format, *, done: bool) -> None:
    for each in plan.attachments:
        write_text(_attached_json(plan, each, done=done) if output is Format.JSONL else _attached_text(plan, each))
    for trouble in plan.troubles:
        note(f"kcli: {printable(trouble)}")
    if output is Format.JSONL:
        return
    new = f"new, with topic id {plan.topic_id}" if plan.is_new else f"there, with topic id {plan.topic_id}"
    write_text(f"{printable(plan.topic)}  {new}\n")
    if plan.is_new:
        write_text(f"  {'  '.join(f'{name}={value}' for name, value in sorted(plan.configs.items()))}\n")
    if plan.troubles:
        write_text("Nothing is changed.\n")
    elif done:
        write_text("Attached: start the node.\n")
    else:
        write_text("Nothing is changed: --in-place does it.\n")


def _attached_text(plan: Attaching, each: Attachment) -> str:
    count = len(plan.records.get(each.partition.partition, ()))
    parts = [count_text(len(each.segments), "segment"), size_text(each.size)]
    if each.segments:
        parts.append(f"offsets {each.start:,}..{each.end - 1:,}")
    parts.append(f"{count_text(count, 'record')} for __remote_log_metadata-{plan.metadata_partition(each)}")
    parts += [f"{count_text(len(each.left_out), 'segment')} left out"] if each.left_out else []
    lines = [f"{printable(each.partition)}  {', '.join(parts)}"]
    for producer_id, first in each.open_transactions:
        place = f"--topic {printable(each.partition.topic)} --partition {each.partition.partition}"
        lines.append(f"  open     producer {producer_id} from offset {first:,} on: the end of its transaction is lost")
        lines.append(f"           Next, when the node runs: kcli transactions abort {place} --start-offset {first}")
    return "".join(f"{line}\n" for line in lines)


def _attached_json(plan: Attaching, each: Attachment, *, done: bool) -> str:
    return json_line(
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "topic_id": each.partition.topic_id,
            "segments": len(each.segments),
            "bytes": each.size,
            "log_start_offset": each.start,
            "end_offset": each.end,
            "leader_epochs": {str(epoch): start for epoch, start in each.epochs},
            "records": len(plan.records.get(each.partition.partition, ())),
            "metadata_partition": plan.metadata_partition(each),
            "left_out": [segment.id for segment in each.left_out],
            "open_transactions": [
                {"producer_id": producer_id, "first_offset": first} for producer_id, first in each.open_transactions
            ],
            "troubles": each.troubles,
            "attached": done,
        }
    )
