"""kcli schemas: shows, compares, checks, changes, exports and imports the schemas of a registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcli.cli.client_options import DataDirs, Output, with_options
from kcli.cli.error_report import ErrorReport
from kcli.cli.options import Format, not_empty
from kcli.cli.output import aligned, count_text, json_line, note, on_terminal, verdict, write, write_text
from kcli.cli.registry_options import RegistryOptions
from kcli.errors import UsageError
from kcli.schemas.compatibility import Level
from kcli.schemas.schema import SchemaType

if TYPE_CHECKING:
    from kcli.schema_client.checking import Comparison, Named
    from kcli.schema_client.client import Finding, RegistryClient, Version
    from kcli.schema_client.sources import RegisteredSchema, Registry

EPILOG = """
Examples:

kcli schemas list --registry http://127.0.0.1:8081

kcli schemas show orders-value:2

kcli schemas register orders-value order.avsc --reference shop.Money=money:1

kcli schemas check new.avsc old.avsc --level FULL      without a registry

kcli schemas diff orders-value

kcli schemas delete orders-value:1                     shows what would go; --execute does it

kcli schemas export backup --data-dir /var/lib/kafka   from the files of _schemas, without a registry
"""

FINDINGS = 1
TAB = 4

app = typer.Typer(
    help="List, show, register, check, compare, delete, export and import schemas of a registry.",
    epilog=EPILOG,
    no_args_is_help=True,
)


TypeOption = Annotated[
    SchemaType | None,
    typer.Option("--type", help="The schema type. [by suffix: .avsc, .proto, .json]", show_default=False),
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference",
        metavar="NAME=SUBJECT:VERSION",
        help="A schema that the file refers to by NAME; again for more.",
    ),
]
Normalize = Annotated[bool, typer.Option("--normalize", help="As the normalized schema.")]
Deleted = Annotated[bool, typer.Option("--deleted", help="Softly deleted ones, too.")]
Prefix = Annotated[
    str | None, typer.Option("--prefix", metavar="TEXT", help="Only subjects that begin with it.", show_default=False)
]
Execute = Annotated[bool, typer.Option("--execute", help="Do it; else it is only shown.")]
SubjectName = Annotated[str, typer.Argument(metavar="SUBJECT", help="The subject.", callback=not_empty)]


@app.command("list")
@with_options
def list_subjects(
    prefix: Prefix = None,
    deleted: Deleted = False,
    output: Output = Format.TABLE,
    data_dirs: DataDirs = None,
    *,
    options: RegistryOptions,
) -> None:
    """List subjects: versions, the latest one's id and schema type, the compatibility level."""
    from kcli.schema_client.client import grouped

    client = _client(options, data_dirs)
    rows = []
    for subject in grouped(client.all_versions(deleted=deleted, prefix=prefix)):
        latest = subject.latest
        rows.append(
            {
                "subject": subject.name,
                "versions": [each.version for each in subject.versions],
                "latest_version": latest.version,
                "latest_id": latest.id,
                "type": latest.schema.language,
                "compatibility": client.compatibility(subject.name) or None,
                "deleted": [each.version for each in subject.versions if each.deleted],
            }
        )
    if output is Format.JSONL:
        write_text("".join(map(json_line, rows)))
    elif rows:
        names = ("SUBJECT", "VERSIONS", "LATEST", "ID", "TYPE", "COMPATIBILITY", *(["DELETED"] if deleted else []))
        write_text(aligned([names, *(_cells(row)[: len(names)] for row in rows)]))


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    latest = str(row["latest_version"]), str(row["latest_id"]), row["type"]
    return (
        row["subject"],
        _numbers(row["versions"]),
        *latest,
        row["compatibility"] or "-",
        _numbers(row["deleted"]) or "-",
    )


def _numbers(numbers: Sequence[int]) -> str:
    """Return numbers as ranges: `1-3,5`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in parts)


@app.command("show")
@with_options
def show(
    what: Annotated[
        str,
        typer.Argument(metavar="SUBJECT[:VERSION]|ID", help="A version, the latest one, or an id.", callback=not_empty),
    ],
    text_only: Annotated[bool, typer.Option("--text", help="Only the schema's text, as it is registered.")] = False,
    output: Output = Format.TABLE,
    data_dirs: DataDirs = None,
    *,
    options: RegistryOptions,
) -> None:
    """Show a schema, where it is registered, what it refers to and what refers to it."""
    from kcli.schema_client.checking import pretty
    from kcli.schema_client.sources import registered_schema

    client = _client(options, data_dirs)
    facts: dict[str, Any]
    if what.isdecimal():
        answer = client.by_id(int(what))
        try:
            schema = registered_schema(answer)
        except ValueError as error:
            raise UsageError(f"{client.name} does not answer with a schema: {error}") from None
        facts = {"id": int(what), "type": schema.language, "guid": answer.get("guid")}
        facts["registered"] = [{"subject": name, "version": number} for name, number in client.places(int(what))]
    else:
        found = _version(client, what)
        schema = found.schema
        facts = {"subject": found.subject, "version": found.version, "id": found.id, "type": schema.language}
        facts |= {"guid": found.guid, "deleted": found.deleted, "metadata": found.metadata, "rule_set": found.rule_set}
        facts["referenced_by"] = client.referenced_by(found.subject, found.version)
    facts["references"] = [asdict(each) for each in schema.references]
    if text_only:
        _write_schema(schema.text if schema.text.endswith("\n") else schema.text + "\n")
    elif output is Format.JSONL:
        write_text(json_line(facts | {"schema": schema.text}))
    else:
        rows = [(name, _fact(value)) for name, value in facts.items() if value not in (None, [], False)]
        write_text(aligned(rows) + "\n" + pretty(schema).expandtabs(TAB) + "\n")


def _write_schema(text: str) -> None:
    """Write a schema's text unchanged; on a terminal, hidden characters are escaped."""
    if on_terminal():
        write_text(text.expandtabs(TAB))
    else:
        write(memoryview(text.encode("utf-8", "surrogatepass")))


def _fact(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_place(each) if isinstance(each, dict) else str(each) for each in value)
    return json_line(dict(value)).rstrip() if isinstance(value, dict) else str(value)


def _place(of: dict[str, Any]) -> str:
    name = f"{of['name']} = " if "name" in of else ""
    return f"{name}{of['subject']}:{of['version']}"


@app.command("register")
@with_options
def register(
    subject: SubjectName,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The schema: .avsc, .proto or .json; - is stdin.")],
    schema_type: TypeOption = None,
    references: References = None,
    normalize: Normalize = False,
    output: Output = Format.TABLE,
    *,
    options: RegistryOptions,
) -> None:
    """Register a schema under a subject, and print its id, or the reasons why it is not compatible.

    A schema that the subject has already keeps its version and id.
    """
    from kcli.schema_client.client import Incompatible

    client = options.client()
    schema = _from_file(file, schema_type, references)
    try:
        found = client.register(subject, schema, normalize=normalize)
    except Incompatible as error:
        findings = client.findings(subject, schema)
        note(f"kcli: {subject}: the schema is not compatible ({client.compatibility(subject) or 'level unknown'})")
        for line in _lines(findings) or [error.reason or str(error)]:
            note(f"  {line}")
        raise typer.Exit(FINDINGS) from None
    if output is Format.JSONL:
        version = client.look_up(subject, schema, normalize=normalize).version
        write_text(json_line({"subject": subject, "version": version, "id": found}))
    else:
        write_text(f"{found}\n")


def _lines(findings: Sequence[Finding] | None) -> list[str]:
    """Return a line for each incompatibility."""
    found = []
    for each in findings or []:
        kind = " ".join(part for part in (each.kind, each.path) if part)
        found.append(f"{kind}: {each.text}" if kind else each.text)
    return found


@app.command("check")
@with_options
def check(  # noqa: PLR0913 (one parameter an option)
    new: Annotated[Path, typer.Argument(metavar="NEW", help="The file of the new schema.")],
    old: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[OLD...]", help="Files of older schemas, oldest first; instead of --subject."),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(
            "--subject", metavar="SUBJECT[:VERSION]", help="Compare with a subject's versions.", callback=not_empty
        ),
    ] = None,
    level: Annotated[
        Level | None,
        typer.Option("--level", help="The level. [the subject's own; BACKWARD for files]", show_default=False),
    ] = None,
    schema_type: TypeOption = None,
    references: References = None,
    output: Output = Format.TABLE,
    data_dirs: DataDirs = None,
    *,
    options: RegistryOptions,
) -> None:
    """Check whether a schema is compatible with a subject's versions, or with other files, without any registry.

    With files, --reference NAME=FILE gives the schemas that they refer to. Exit status: 0 compatible, 1 not.
    """
    from kcli.schema_client import checking

    if bool(old) == (subject is not None):
        raise UsageError("give either the files of older schemas, or --subject")
    if subject is None:
        chosen = level or Level.BACKWARD
        with_texts = checking.imports_of_files(references or [])
        made = [checking.of_file(path, schema_type, with_texts) for path in [new, *(old or [])]]
        found = checking.compare(made[0], made[1:], chosen)
        raise typer.Exit(_tell(found, chosen, output))
    client, schemas = _client_and_schemas(options, data_dirs)
    schema = _from_file(new, schema_type, references)
    name, version = _parsed(subject)
    if level is None:
        findings = client.findings(name, schema, version)
        chosen_level = client.compatibility(name)
        found = [checking.Comparison(subject, "", findings or [])] if findings is not None else []
        raise typer.Exit(_tell(found, chosen_level, output))
    registry = schemas()
    numbers = [version] if version is not None else client.versions(name)
    older = [checking.of_version(client.version(name, number), registry) for number in numbers]
    found = checking.compare(checking.of_schema(str(new), schema, registry), older, level)
    raise typer.Exit(_tell(found, level, output))


def _tell(found: Sequence[Comparison], level: str, output: Format) -> int:
    """Show the incompatibilities. Return the exit status."""
    status = FINDINGS if found else 0
    with verdict(status):
        if output is Format.JSONL:
            rows = [
                {"against": each.against, "direction": each.direction or None, **finding._asdict()}
                for each in found
                for finding in each.findings
            ]
            write_text(json_line({"is_compatible": not found, "level": level or None, "incompatibilities": rows}))
            return status
        write_text(f"{'not compatible' if found else 'compatible'}{f' ({level})' if level else ''}\n")
        for each in found:
            write_text(f"{_heading(each)}\n")
            write_text("".join(f"  {line}\n" for line in _lines(each.findings)))
    return status


def _heading(comparison: Comparison) -> str:
    if not comparison.direction:
        return f"with {comparison.against}:"
    reader, writer = (
        ("the new schema", comparison.against)
        if comparison.direction == "backward"
        else (
            comparison.against,
            "the new one",
        )
    )
    return f"{reader} cannot read what {writer} wrote:"


@app.command("diff")
@with_options
def diff(
    first: Annotated[
        str,
        typer.Argument(metavar="SUBJECT[:VERSION]|FILE", help="The older schema, or a subject.", callback=not_empty),
    ],
    second: Annotated[
        str | None,
        typer.Argument(
            metavar="[SUBJECT[:VERSION]|FILE]",
            help="The newer one; else the last two of the subject.",
            callback=not_empty,
        ),
    ] = None,
    references: References = None,
    output: Output = Format.TABLE,
    data_dirs: DataDirs = None,
    *,
    options: RegistryOptions,
) -> None:
    """Show what changed between two schemas: the text, and what readers of either cannot read of the other.

    If only one version is named, it is compared with the version before it.
    """
    from kcli.schema_client import checking

    old, new = _two(first, second, references, options, data_dirs)
    backward, forward = checking.both_ways(new, old)
    lines = checking.unified(old, new)
    if output is Format.JSONL:
        row = {
            "old": old.name,
            "new": new.name,
            "backward": [each._asdict() for each in backward],
            "forward": [each._asdict() for each in forward],
            "diff": "".join(lines),
        }
        write_text(json_line(row))
        return
    write_text("".join(lines).expandtabs(TAB) or "the texts are the same\n")
    for reader, writer, findings in ((new, old, backward), (old, new, forward)):
        if findings:
            write_text(f"{reader.name} cannot read what {writer.name} wrote:\n")
            write_text("".join(f"  {line}\n" for line in _lines(findings)))
        else:
            write_text(f"{reader.name} can read what {writer.name} wrote\n")


def _two(
    first: str,
    second: str | None,
    references: list[str] | None,
    options: RegistryOptions,
    data_dirs: list[Path] | None,
) -> tuple[Named, Named]:
    """Return the older and the newer schema."""
    from kcli.schema_client import checking

    if second is not None and all(map(checking.is_file, (first, second))):
        texts = checking.imports_of_files(references or [])
        return checking.of_file(Path(first), None, texts), checking.of_file(Path(second), None, texts)
    client, schemas = _client_and_schemas(options, data_dirs)
    registry = schemas()
    if second is None:
        if checking.is_file(first):
            raise UsageError("a file needs another schema to compare it with")
        subject, version = _parsed(first)
        numbers = client.versions(subject)
        if isinstance(version, int):
            numbers = [each for each in numbers if each < version] + [version]
        if len(numbers) < 2:
            raise UsageError(f"{subject} has one version: there is nothing to compare it with")
        return _both(checking.of_version(client.version(subject, number), registry) for number in numbers[-2:])
    found = []
    for each in (first, second):
        if checking.is_file(each):
            schema = _from_file(Path(each), None, references)
            found.append(checking.of_schema(each, schema, registry))
        else:
            found.append(checking.of_version(_version(client, each), registry))
    return _both(found)


def _both(found: Any) -> tuple[Named, Named]:
    old, new = found
    return old, new


@app.command("delete")
@with_options
def delete(
    names: Annotated[
        list[str], typer.Argument(metavar="SUBJECT[:VERSION]...", help="Subjects or versions.", callback=not_empty)
    ],
    permanent: Annotated[
        bool, typer.Option("--permanent", help="For ever: neither its id nor its version finds it again.")
    ] = False,
    execute: Execute = False,
    output: Output = Format.TABLE,
    *,
    options: RegistryOptions,
) -> None:
    """Delete subjects or versions softly (ids still find them), or for ever; without --execute show what would go."""
    from kcli.schema_client import changes

    client = options.client()
    errors = ErrorReport()
    plans = errors.results(changes.deletions(client, list(map(_parsed, dict.fromkeys(names))), permanent=permanent))
    rows = [row for plan in plans for row in plan.rows]
    if output is Format.JSONL:
        write_text("".join(json_line(each._asdict()) for each in rows))
    elif rows:
        shown = [
            (f"{each.subject}:{each.version}", str(each.id), each.action, _numbers(each.referenced_by) or "-")
            for each in rows
        ]
        write_text(aligned([("VERSION", "ID", "DELETE", "REFERENCED BY IDS"), *shown]))
    if not execute:
        note("kcli: nothing is deleted without --execute")
        raise typer.Exit(errors.exit_status)
    done = errors.results(changes.delete(client, plan) for plan in plans)
    note(f"{count_text(sum(done), 'version')} deleted{' for ever' if permanent else ''}")
    raise typer.Exit(errors.exit_status)


@app.command("export")
@with_options
def export(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A new or empty directory.")],
    prefix: Prefix = None,
    deleted: Deleted = False,
    data_dirs: DataDirs = None,
    *,
    options: RegistryOptions,
) -> None:
    """Write all schemas with ids, versions, references and levels to a directory, which --schemas and import read."""
    from kcli.schema_client import changes

    client = _client(options, data_dirs)
    found = changes.export(client, directory, prefix=prefix, deleted=deleted)
    note(f"{count_text(found.versions, 'version')} of {count_text(found.subjects, 'subject')} in {directory}")


@app.command("import")
@with_options
def import_(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What export wrote, or curl REGISTRY/schemas.")],
    new_ids: Annotated[
        bool, typer.Option("--new-ids", help="Register them anew: the registry gives ids and versions.")
    ] = False,
    execute: Execute = False,
    output: Output = Format.TABLE,
    *,
    options: RegistryOptions,
) -> None:
    """Register all schemas of a directory, with their ids and versions, or anew; without --execute show what would be.

    Ids and versions need the mode IMPORT, which each subject has while it is imported. Exit status: 1 if the registry
    has another schema where a version is to be imported.
    """
    from kcli.schema_client import changes

    client = options.client()
    errors = ErrorReport()
    plan = changes.imports(client, directory, new_ids=new_ids)
    if output is Format.JSONL:
        write_text("".join(json_line(each.row()) for each in plan))
    elif plan:
        shown = [(f"{each.version.subject}:{each.version.version}", str(each.version.id), each.action) for each in plan]
        write_text(aligned([("VERSION", "ID", "IMPORT"), *shown]))
    conflicts = sum(each.is_conflict for each in plan)
    if conflicts:
        errors.add(changes.InTheWay(f"{count_text(conflicts, 'version')} cannot be imported unchanged"))
    if not execute:
        note("kcli: nothing is registered without --execute")
        raise typer.Exit(errors.exit_status)
    done = errors.results(changes.import_versions(client, directory, plan, new_ids=new_ids))
    note(f"{count_text(len(done), 'version')} imported")
    raise typer.Exit(errors.exit_status)


# where schemas come from


def _client(options: RegistryOptions, data_dirs: list[Path] | None) -> RegistryClient:
    """Return the client of a registry or, with --data-dir, of the schemas in the files of `_schemas`."""
    return _client_and_schemas(options, data_dirs)[0]


def _client_and_schemas(
    options: RegistryOptions, data_dirs: list[Path] | None
) -> tuple[RegistryClient, Callable[[], Registry]]:
    """Return the client of `_client`, and a function that returns the Registry in which references are looked up."""
    from kcli.schema_client.client import RegistryClient

    if not data_dirs:
        from kcli.schema_client.registry import TransportRegistry

        transport = options.transport()
        return RegistryClient(transport), partial(TransportRegistry, transport)
    from kcli.registry.files import schemas_of, transport_of

    files = transport_of(data_dirs, note)
    return RegistryClient(files), partial(schemas_of, files)


def _parsed(text: str) -> tuple[str, int | str | None]:
    from kcli.schema_client.client import parse_subject

    subject, version = parse_subject(text)
    if not subject:
        raise UsageError(f"{text!r} has no subject")
    return subject, version


def _version(client: RegistryClient, text: str) -> Version:
    subject, version = _parsed(text)
    return client.version(subject, "latest" if version is None else version)


def _from_file(path: Path, kind: SchemaType | None, references: list[str] | None) -> RegisteredSchema:
    from kcli.schema_client.checking import schema_of_file

    return schema_of_file(path, None if kind is None else kind.value, references or [])
