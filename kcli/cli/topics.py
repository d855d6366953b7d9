"""kcli topics: list, describe, create, delete and alter topics."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcli.cli.client_options import ClusterOptions, Output, with_options
from kcli.cli.error_report import ErrorReport
from kcli.cli.options import INT32_MAX, Format, distinct, not_empty, pairs
from kcli.cli.output import aligned, count_text, json_line, on_terminal, write_text
from kcli.errors import UsageError
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.client.admin import Admin, Partition, Topic

EPILOG = """
Examples:

kcli topics list

kcli topics create orders --partitions 6 --config cleanup.policy=compact

kcli topics describe orders --offsets

kcli topics alter orders --partitions 12 --config retention.ms=86400000 --delete-config cleanup.policy

kcli topics delete orders --if-exists
"""

app = typer.Typer(
    help="List, describe, create, delete and alter topics of a cluster.", epilog=EPILOG, no_args_is_help=True
)

PARTITIONS_MAX, REPLICAS_MAX = 100_000, 10_000  # of one topic: the maximum of the client library

Names = Annotated[
    list[str] | None, typer.Argument(metavar="[TOPIC...]", help="Topics.", show_default=False, callback=not_empty)
]
Named = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="A topic, as kafka-topics takes it.", callback=not_empty),
]
Configs = Annotated[list[str] | None, typer.Option("--config", metavar="NAME=VALUE", help="A configuration.")]
Placement = Annotated[
    str | None,
    typer.Option(
        "--replica-assignment",
        metavar="ID:ID,ID:ID",
        help="Brokers of each partition's replicas: partitions by commas, replicas by colons.",
    ),
]
ExcludeInternal = Annotated[bool, typer.Option("--exclude-internal", help="Leave out Kafka's own topics.")]
IfExists = Annotated[bool, typer.Option("--if-exists", help="A topic that is not there is no failure.")]
ValidateOnly = Annotated[bool, typer.Option("--validate-only", help="Only ask whether it could be done.")]


def _admin(options: ClusterOptions) -> Admin:
    from kcli.client.admin import Admin

    return Admin(options.connection())


def _some(names: list[str] | None, named: list[str] | None) -> list[str]:
    if not (found := distinct(names, named)):
        raise UsageError("no topic given")
    return found


@app.command("list")
@with_options
def list_topics(
    exclude_internal: ExcludeInternal = False,
    output: Output = Format.TABLE,
    *,
    options: ClusterOptions,
) -> None:
    """List all topics, with their partitions and replicas."""
    admin = _admin(options)
    errors = ErrorReport()
    topics = errors.results(admin.describe(admin.names()))
    topics = [topic for topic in topics if not (exclude_internal and topic.is_internal)]
    if output is Format.JSONL:
        write_text("".join(json_line(_topic_object(topic)) for topic in topics))
    else:
        rows = [(topic.name, *_sizes(topic), "internal" if topic.is_internal else "") for topic in topics]
        write_text(aligned(rows))
    raise typer.Exit(errors.exit_status)


@app.command("describe")
@with_options
def describe(
    names: Names = None,
    named: Named = None,
    offsets: Annotated[
        bool, typer.Option("--offsets", help="Show the first offset and the next of partitions.")
    ] = False,
    under_replicated: Annotated[
        bool, typer.Option("--under-replicated-partitions", help="Only partitions with replicas that are not in sync.")
    ] = False,
    unavailable: Annotated[
        bool, typer.Option("--unavailable-partitions", help="Only partitions without a leader.")
    ] = False,
    exclude_internal: ExcludeInternal = False,
    output: Output = Format.TABLE,
    *,
    options: ClusterOptions,
) -> None:
    """Show topics, all if none is named: id, configuration, and of each partition leader and replicas."""
    admin = _admin(options)
    errors = ErrorReport()
    topics = errors.results(admin.describe(distinct(names, named) or admin.names()))
    topics = [topic for topic in topics if not (exclude_internal and topic.is_internal)]
    if under_replicated or unavailable:
        topics = [
            topic._replace(partitions=found)
            for topic in topics
            if (found := tuple(_troubled(topic.partitions, under_replicated=under_replicated, unavailable=unavailable)))
        ]
    topics = admin.with_configs(topics)
    if offsets:
        topics = admin.with_offsets(topics)
    for topic in topics:
        if output is Format.JSONL:
            rows = [_partition_object(each, offsets=offsets) for each in topic.partitions]
            write_text(json_line({**_topic_object(topic), "configs": topic.configs, "partition_list": rows}))
        else:
            write_text(_described(topic, offsets=offsets))
    raise typer.Exit(errors.exit_status)


@app.command("create")
@with_options
def create(  # noqa: PLR0913 (one parameter an option)
    names: Names = None,
    named: Named = None,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", min=1, max=PARTITIONS_MAX, help="How many; else what brokers have for num.partitions."
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor", min=1, max=REPLICAS_MAX, help="Replicas of each; else the brokers' default."
        ),
    ] = None,
    assignment: Placement = None,
    configs: Configs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="A topic that is there already is no failure.")
    ] = False,
    validate_only: ValidateOnly = False,
    *,
    options: ClusterOptions,
) -> None:
    """Create topics."""
    topics = _some(names, named)
    placed = None if assignment is None else _assignment(assignment)
    if placed is not None and (partitions is not None or replication_factor is not None):
        raise UsageError("--replica-assignment excludes --partitions and --replication-factor")
    settings = pairs(configs, "--config")
    outcomes = _admin(options).create(
        topics,
        partitions=partitions,
        replication_factor=replication_factor,
        assignment=placed,
        configs=settings,
        validate_only=validate_only,
        if_not_exists=if_not_exists,
    )
    errors = ErrorReport()
    errors.results(outcomes)
    raise typer.Exit(errors.exit_status)


@app.command("delete")
@with_options
def delete(
    names: Names = None,
    named: Named = None,
    if_exists: IfExists = False,
    *,
    options: ClusterOptions,
) -> None:
    """Delete topics, with all their records."""
    topics = _some(names, named)
    errors = ErrorReport()
    errors.results(_admin(options).delete(topics, if_exists=if_exists))
    raise typer.Exit(errors.exit_status)


@app.command("alter")
@with_options
def alter(  # noqa: PLR0913 (one parameter an option)
    names: Names = None,
    named: Named = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", min=1, max=PARTITIONS_MAX, help="How many there shall be in all."),
    ] = None,
    assignment: Placement = None,
    configs: Configs = None,
    deleted: Annotated[
        list[str] | None,
        typer.Option("--delete-config", metavar="NAME", help="A configuration to take back to its default."),
    ] = None,
    if_exists: IfExists = False,
    validate_only: ValidateOnly = False,
    *,
    options: ClusterOptions,
) -> None:
    """Add partitions to topics, or set and delete configurations of topics; other configurations stay."""
    topics = _some(names, named)
    changes: dict[str, str | None] = {**pairs(configs, "--config"), **dict.fromkeys(deleted or [])}
    if partitions is None and assignment is not None:
        raise UsageError("--replica-assignment needs --partitions")
    if partitions is None and not changes:
        raise UsageError("nothing to alter: give --partitions, --config or --delete-config")
    admin = _admin(options)
    placed = None if assignment is None else _assignment(assignment)
    errors = ErrorReport()
    if partitions is not None:
        outcomes = admin.add_partitions(topics, partitions, placed, validate_only=validate_only, if_exists=if_exists)
        errors.results(outcomes)
    if changes:
        outcomes = admin.alter_configs(topics, changes, validate_only=validate_only, if_exists=if_exists)
        errors.results(outcomes)
    raise typer.Exit(errors.exit_status)


def _assignment(text: str) -> list[list[int]]:
    try:
        found = [[int(broker) for broker in partition.split(":")] for partition in text.split(",")]
    except ValueError:
        raise UsageError(f"--replica-assignment {text!r} is not ID:ID,ID:ID") from None
    if beyond := [broker for brokers in found for broker in brokers if broker > INT32_MAX]:
        raise UsageError(f"--replica-assignment: no broker's id is as large as {beyond[0]}")
    return found


def _troubled(partitions: Iterable[Partition], *, under_replicated: bool, unavailable: bool) -> Iterable[Partition]:
    return (
        each
        for each in partitions
        if (under_replicated and each.is_under_replicated) or (unavailable and each.leader is None)
    )


def _sizes(topic: Topic) -> tuple[str, str]:
    return count_text(len(topic.partitions), "partition"), count_text(topic.replication_factor, "replica")


def _described(topic: Topic, *, offsets: bool) -> str:
    shown = printable(topic.name)
    title = [shown, f"id {topic.id}", *_sizes(topic), *(["internal"] if topic.is_internal else [])]
    lines = ["  ".join(title) + "\n"]
    lines += [f"  {printable(f'{name}={value}')}\n" for name, value in topic.configs.items()]
    rows = [
        (
            f"  {each.number}",
            "no leader" if each.leader is None else f"leader {each.leader}",
            f"replicas {_ids(each.replicas)}",
            f"in sync {_ids(each.isr)}",
            *([_offsets_text(each)] if offsets else []),
        )
        for each in topic.partitions
    ]
    text = "".join(lines) + aligned(rows)
    return text.replace(shown, f"\x1b[1;36m{shown}\x1b[0m", 1) if on_terminal() else text


def _offsets_text(partition: Partition) -> str:
    start, end = partition.start_offset, partition.end_offset
    if start is None or end is None:
        return "offsets unknown"
    return f"offsets {start}..{end - 1}" if end > start else f"no offsets, next {end}"


def _ids(brokers: Iterable[int]) -> str:
    return ",".join(map(str, brokers))


def _topic_object(topic: Topic) -> dict[str, Any]:
    return {
        "topic": topic.name,
        "id": topic.id,
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": topic.replication_factor,
    }


def _partition_object(partition: Partition, *, offsets: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "partition": partition.number,
        "leader": partition.leader,
        "replicas": partition.replicas,
        "isr": partition.isr,
    }
    if offsets:
        row |= {"start_offset": partition.start_offset, "end_offset": partition.end_offset}
    return row
