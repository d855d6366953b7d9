"""kcli groups: list, describe, reset and delete groups of consumers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcli.cli.client_options import ClusterOptions, SourceOptions, with_options
from kcli.cli.error_report import ErrorReport, cell
from kcli.cli.options import Format, chosen, current_ms, distinct, not_empty, time_ms
from kcli.cli.output import aligned, count_text, json_line, note, on_terminal, write_text
from kcli.cli.reset_options import ByDuration, ShiftBy, ToDatetime, ToOffset
from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.printable import has_hidden, printable
from kcli.protocol.topic_partition import TopicPartition
from kcli.views.groups import (
    STATES,
    TYPES,
    Group,
    Member,
    Progress,
    places,
    places_text,
    progress,
)

if TYPE_CHECKING:
    from kcli.client.groups import Groups
    from kcli.client.resets import Reset
    from kcli.inspector.groups import GroupFiles

EPILOG = """
Examples:

kcli groups list --state Stable

kcli groups describe billing

kcli groups members billing

kcli groups reset billing --topic orders --by-duration PT2H --execute

kcli groups delete billing

kcli groups describe --data-dir /var/lib/kafka/data
"""

app = typer.Typer(
    help="List, describe, reset and delete groups of consumers, of a cluster or in a log directory.",
    epilog=EPILOG,
    no_args_is_help=True,
)


class PlanFormat(StrEnum):
    """The format in which `kcli groups reset` prints the new offsets of a group; --from-file reads csv."""

    TABLE = "table"
    JSONL = "jsonl"
    CSV = "csv"


Names = Annotated[
    list[str] | None, typer.Argument(metavar="[GROUP...]", help="Groups.", show_default=False, callback=not_empty)
]
Named = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="GROUP", help="A group, as kafka-consumer-groups takes it.", callback=not_empty),
]
AllGroups = Annotated[bool, typer.Option("--all-groups", help="All groups.")]
Topics = Annotated[
    list[str] | None, typer.Option("--topic", metavar="TOPIC[:0,1,...]", help="A topic, or some of its partitions.")
]


@app.command("list")
@with_options
def list_groups(
    states: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help=f"Only of this state: {', '.join(STATES)}.")
    ] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help=f"Only of this type: {', '.join(TYPES)}.")
    ] = None,
    *,
    options: SourceOptions,
) -> None:
    """List groups, with type and state."""
    states_shown, types_shown = chosen(states, STATES, "--state"), chosen(types, TYPES, "--type")
    errors = _GroupErrors()
    source = _source(options)
    found = errors.results(source.all())
    rows = [
        each
        for each in found
        if each.state in (states_shown or {each.state}) and each.type in (types_shown or {each.type})
    ]
    if not rows and (states_shown or types_shown):
        note("kcli: no group matches")
    if options.output is Format.JSONL:
        write_text("".join(json_line(each._asdict()) for each in rows))
    else:
        write_text(aligned([("GROUP", "TYPE", "STATE"), *rows]) if rows else "")
    raise typer.Exit(errors.status_with(source.trouble))


@app.command("describe")
@with_options
def describe(
    names: Names = None,
    named: Named = None,
    all_groups: AllGroups = False,
    *,
    options: SourceOptions,
) -> None:
    """Show groups, all if none is named: per partition the committed offset, the end, the lag and the member."""
    errors = _GroupErrors()
    source = _source(options)
    for group in errors.groups(source, _names(names, named, all_groups)):
        try:
            committed = source.committed(group.id)
            rows = progress(group, committed, source.ends(places(group, committed)))
        except KcliError as error:
            errors.add(error)
            continue
        if options.output is Format.JSONL:
            write_text(json_line({**_group_object(group), "offsets": [_progress_object(row) for row in rows]}))
        else:
            write_text(_title(group) + (aligned([OFFSETS_HEAD, *map(_progress_row, rows)]) if rows else ""))
    raise typer.Exit(errors.status_with(source.trouble))


@app.command("members")
@with_options
def members(
    names: Names = None,
    named: Named = None,
    all_groups: AllGroups = False,
    *,
    options: SourceOptions,
) -> None:
    """Show the members of groups, all if none is named, and the partitions that each has."""
    errors = _GroupErrors()
    source = _source(options)
    for group in errors.groups(source, _names(names, named, all_groups)):
        if options.output is Format.JSONL:
            write_text("".join(json_line({"group": group.id, **_member_object(each)}) for each in group.members))
        else:
            rows = [_member_row(each) for each in group.members]
            write_text(_title(group) + (aligned([MEMBERS_HEAD, *rows]) if rows else ""))
    raise typer.Exit(errors.status_with(source.trouble))


@app.command("reset")
@with_options
def reset(  # noqa: PLR0913, PLR0917 (one parameter an option)
    names: Names = None,
    named: Named = None,
    all_groups: AllGroups = False,
    topics: Topics = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All partitions for which the group has an offset.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first offset.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Behind the last.")] = False,
    to_current: Annotated[
        bool, typer.Option("--to-current", help="To what is committed; else behind the last.")
    ] = False,
    to_offset: ToOffset = None,
    shift_by: ShiftBy = None,
    to_datetime: ToDatetime = None,
    by_duration: ByDuration = None,
    from_file: Annotated[
        Path | None,
        typer.Option("--from-file", metavar="FILE", help="To what a CSV file says: [GROUP,]TOPIC,PARTITION,OFFSET."),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; else it is only shown.")] = False,
    output: Annotated[PlanFormat, typer.Option("--format", help="How to show the new offsets.")] = PlanFormat.TABLE,
    *,
    options: ClusterOptions,
) -> None:
    """Set the offsets of groups without members, or without --execute show what they would be."""
    named_groups = _names(names, named, all_groups) if from_file is not None else _some(names, named, all_groups)
    methods = {
        "--to-earliest": to_earliest or None,
        "--to-latest": to_latest or None,
        "--to-current": to_current or None,
        "--to-offset": to_offset,
        "--shift-by": shift_by,
        "--to-datetime": to_datetime,
        "--by-duration": by_duration,
        "--from-file": from_file,
    }
    given = {option: value for option, value in methods.items() if value is not None}
    if len(given) != 1:
        raise UsageError(f"give one of {', '.join(methods)}")
    if from_file is None and bool(topics) == all_topics:
        raise UsageError("give --topic or --all-topics, one of them")
    if from_file is not None and (topics or all_topics):
        raise UsageError("--from-file says itself which partitions: it excludes --topic and --all-topics")
    method = method_of(*given.popitem(), named_groups)
    groups = _cluster(options)
    errors = _GroupErrors()
    group_names = list(method.given) if from_file is not None else named_groups or errors.names(groups)
    plan = list(_plan(groups, group_names, method, topics or [], errors))
    if output is PlanFormat.CSV:
        _check_names(plan)
    write_text(_plan_text(plan, output, several=len(group_names) > 1))
    if execute:
        for group in dict.fromkeys(row[0] for row in plan):
            errors.results(
                groups.commit(group, {TopicPartition(row[1], row[2]): row[4] for row in plan if row[0] == group})
            )
    elif plan:
        note("kcli: nothing is changed without --execute")
    raise typer.Exit(errors.exit_status)


@app.command("delete")
@with_options
def delete(
    names: Names = None,
    named: Named = None,
    all_groups: AllGroups = False,
    topics: Topics = None,
    *,
    options: ClusterOptions,
) -> None:
    """Delete groups without members, or with --topic only their offsets of topics to which no member subscribes."""
    named_groups = _some(names, named, all_groups)
    groups = _cluster(options)
    errors = _GroupErrors()
    group_names = named_groups or errors.names(groups)
    if not topics:
        errors.results(groups.delete(group_names))
        raise typer.Exit(errors.exit_status)
    from kcli.client.resets import scope

    for group in group_names:
        try:
            errors.results(groups.delete_offsets(group, scope(groups, {}, topics)))
        except KcliError as error:
            errors.add(error)
    raise typer.Exit(errors.exit_status)


# the source of groups: a cluster or log directories


def _cluster(options: ClusterOptions) -> Groups:
    from kcli.client.groups import Groups

    return Groups(options.connection())


def _source(options: SourceOptions) -> Groups | GroupFiles:
    if not options.data_dirs:
        return _cluster(options)
    from kcli.inspector.groups import GroupFiles

    return GroupFiles(options.data_dirs)


def _names(names: list[str] | None, named: list[str] | None, all_groups: bool) -> list[str]:
    found = distinct(names, named)
    if found and all_groups:
        raise UsageError("--all-groups excludes names")
    return found


def _some(names: list[str] | None, named: list[str] | None, all_groups: bool) -> list[str]:
    """Return the groups that a command is to change; an empty list, which stands for all groups, with --all-groups.
    Raises UsageError unless either groups are named or --all-groups is given."""
    found = _names(names, named, all_groups)
    if not found and not all_groups:
        raise UsageError("no group given, nor --all-groups")
    return found


class _GroupErrors(ErrorReport):
    """Reads groups from a source. The error of a group that cannot be read is added to the report, and the group is
    left out."""

    def names(self, source: Groups | GroupFiles) -> list[str]:
        """Return the names of all groups of the source."""
        return [each.group for each in self.results(source.all())]

    def groups(self, source: Groups | GroupFiles, names: list[str]) -> Iterator[Group]:
        """Yield the groups with these names, or all groups of the source if `names` is empty."""
        for group in source.describe(names or self.names(source)):
            if isinstance(group, KcliError):
                self.add(group)
            else:
                yield group


# new offsets


Planned = tuple[str, str, int, int | None, int]
"""Group, topic, partition, committed offset (None if none is committed), new offset."""


def method_of(option: str, value: Any, groups: list[str]) -> Reset:
    """Return the reset that an option asks for. groups: of the command, for a file that names none."""
    from kcli.client.resets import Kind, Reset, parse_csv

    match option:
        case "--to-offset":
            return Reset(Kind.OFFSET, value)
        case "--shift-by":
            return Reset(Kind.SHIFT, value)
        case "--to-datetime":
            return Reset(Kind.TIME, time_ms(value, option))
        case "--by-duration":
            return Reset(Kind.TIME, current_ms() - _duration_ms(value))
        case "--from-file":
            try:
                lines = value.read_text().splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise UnreadableInput(str(value), getattr(error, "strerror", None) or str(error)) from None
            return Reset(Kind.GIVEN, given=parse_csv(lines, str(value), groups))
    return Reset(Kind[option.removeprefix("--to-").upper()])


def _duration_ms(text: str) -> int:
    """Return the milliseconds of an ISO 8601 duration of days, hours, minutes and seconds. Raises UsageError."""
    number = r"(\d{1,9})"
    found = re.fullmatch(
        rf"P(?=.)(?:{number}D)?(?:T(?=.)(?:{number}H)?(?:{number}M)?(?:{number}(?:\.(\d{{1,3}}))?S)?)?", text
    )
    if found is None:
        raise UsageError(f"--by-duration {text!r} is no duration such as P7D, PT1H30M or PT90S")
    days, hours, minutes, seconds = (int(each or 0) for each in found.groups()[:4])
    return ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000 + int((found[5] or "").ljust(3, "0"))


def _plan(
    groups: Groups, names: Iterable[str], method: Reset, topics: list[str], errors: _GroupErrors
) -> Iterator[Planned]:
    from kcli.client.resets import new_offsets

    for name in names:
        try:
            offsets, committed = new_offsets(groups, name, method, topics, lambda line: note(f"kcli: {line}"))
        except UsageError:
            raise
        except KcliError as error:
            errors.add(error)
            continue
        for place, offset in sorted(offsets.items()):
            yield name, *place, committed[place].offset if place in committed else None, offset


def _plan_text(plan: list[Planned], output: PlanFormat, *, several: bool) -> str:
    if output is PlanFormat.JSONL:
        keys = ("group", "topic", "partition", "committed_offset", "new_offset")
        return "".join(json_line(dict(zip(keys, row, strict=True))) for row in plan)
    if output is PlanFormat.CSV:
        return "".join(
            ",".join([*([_csv(group)] if several else []), topic, str(partition), str(offset)]) + "\n"
            for group, topic, partition, _, offset in plan
        )
    head = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET")
    return aligned([head, *(tuple(map(cell, row)) for row in plan)]) if plan else ""


def _check_names(plan: list[Planned]) -> None:
    """Raise KcliError for a group or topic whose name has control characters: the CSV output escapes these, so that
    --from-file would read a different name."""
    if hidden := next((name for row in plan for name in row[:2] if has_hidden(name)), None):
        raise KcliError(f"{hidden}: a name with control characters is not for CSV: give --format jsonl")


def _csv(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if re.search('[,"\r\n]', name) else name


# output


OFFSETS_HEAD = (
    "  TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID",
)  # fmt: skip
MEMBERS_HEAD = ("  CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "EPOCH", "#PARTITIONS", "ASSIGNMENT")


def _title(group: Group) -> str:
    parts = [
        group.id,
        group.type,
        group.state,
        *([f"assignor {group.assignor}"] if group.assignor else []),
        *([f"coordinator {group.coordinator}"] if group.coordinator else []),
        *([] if group.epoch is None else [f"epoch {group.epoch}"]),
        *([] if group.target_epoch == group.epoch else [f"assigned at {group.target_epoch}"]),
        count_text(len(group.members), "member"),
    ]
    parts = [printable(part) for part in parts]
    if on_terminal():
        parts[0] = f"\x1b[1;36m{parts[0]}\x1b[0m"
    return "  ".join(parts) + "\n"


def _progress_row(row: Progress) -> tuple[str, ...]:
    member = row.member
    reader = (None, None, None) if member is None else (member.id, member.host, member.client_id)
    offset = None if row.committed is None else row.committed.offset
    cells = (f"  {row.topic}", row.partition, offset, row.log_end_offset, row.lag, *reader)
    return tuple(map(cell, cells))


def _member_row(member: Member) -> tuple[str, ...]:
    assignment = places_text(member.assignment)
    if member.target is not None and member.target != member.assignment:
        assignment = f"{assignment or '-'} -> {places_text(member.target) or '-'}"
    cells = (
        f"  {member.id}",
        member.instance_id,
        member.host,
        member.client_id,
        member.epoch,
        len(member.assignment),
        assignment or None,
    )
    return tuple(map(cell, cells))


def _group_object(group: Group) -> dict[str, Any]:
    return {
        "group": group.id,
        "type": group.type,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "members": len(group.members),
    }


def _progress_object(row: Progress) -> dict[str, Any]:
    committed, member = row.committed, row.member
    return {
        "topic": row.topic,
        "partition": row.partition,
        "committed_offset": None if committed is None else committed.offset,
        "leader_epoch": None if committed is None else committed.leader_epoch,
        "metadata": None if committed is None else committed.metadata,
        "log_end_offset": row.log_end_offset,
        "lag": row.lag,
        "member": None if member is None else member.id,
        "client_id": None if member is None else member.client_id,
        "host": None if member is None else member.host,
    }


def _member_object(member: Member) -> dict[str, Any]:
    return {
        "member": member.id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "assignment": member.assignment,
        "target_assignment": member.target,
    }
