"""Make the man page kcli-formats(5), which describes every file format of Kafka byte by byte.

A section of the page is the docstring of a module, then the tables of its fixed layouts with byte offsets, of its
Constructs, and of its message schemas. All of it is generated from the definitions that the parsers use; a test
compares it with man/kcli-formats.5. `python -m formats.reference` prints it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import construct

from formats import (
    checkpoint,
    compression,
    control_record,
    file_name,
    fixed,
    internal_topic,
    legacy,
    message_construct,
    message_schema,
    offset_index,
    primitives,
    producer_snapshot,
    properties,
    quorum_state,
    record_batch,
    time_index,
    txn_index,
)
from formats.fixed import FixedLayout
from formats.message_schema import MessageSchema, Struct, Versions
from formats.primitives import BytesOfVarint, NullableBytesOfInt32, NullableBytesOfVarint, Varint, Varlong


class Section(NamedTuple):
    """One section of the page: its heading, the module whose docstring is its text, and the definitions to print.

    `outline`: omit the indented rows of the docstring's table, which the tables of `layouts` repeat with byte offsets.
    """

    heading: str
    module: ModuleType
    layouts: Sequence[FixedLayout[Any]] = ()
    constructs: Sequence[tuple[str, construct.Construct[Any, Any]]] = ()
    messages: Sequence[MessageSchema] = ()
    outline: bool = False


def sections() -> Iterator[Section]:
    """Yield the sections in the order of the page."""
    control = [
        message
        for message in message_schema.schemas("control_records")
        if message.name in {"ControlRecordTypeSchema", *control_record.MESSAGES.values()}
    ]
    yield Section("Files and directories", file_name)
    yield Section("Types of fixed size", fixed)
    yield Section("Types of variable size", primitives)
    yield Section(
        "Record batch",
        record_batch,
        [record_batch.HEADER],
        [
            ("record, behind its length", record_batch.RecordBody),
            ("header of a record", record_batch.RecordHeaderBody),
        ],
    )
    yield Section("Messages of magic 0 and 1", legacy, list(legacy.HEADERS.values()), [("key and value", legacy.Body)])
    yield Section("Compression", compression)
    yield Section("Control records", control_record, [control_record.KEY], messages=control)
    yield Section("Offset index", offset_index, [offset_index.ENTRY], outline=True)
    yield Section("Time index", time_index, [time_index.ENTRY], outline=True)
    yield Section("Transaction index", txn_index, [txn_index.ENTRY], outline=True)
    snapshot: list[FixedLayout[Any]] = [producer_snapshot.HEADER, producer_snapshot.ENTRY]
    yield Section("Producer snapshot", producer_snapshot, snapshot, outline=True)
    yield Section("Checkpoints", checkpoint)
    yield Section("Properties", properties)
    yield Section("Quorum state", quorum_state, messages=message_schema.schemas("quorum_state"))
    yield Section("Encoding of messages", message_construct)
    topics = ("consumer_offsets", "transaction_state", "share_group_state", "remote_log_metadata", "cluster_metadata")
    records = [message for topic in topics for message in message_schema.schemas(topic)]
    embedded = [message_schema.schema(name) for name in internal_topic.EMBEDDED.values()]
    yield Section("Records of internal topics", internal_topic, messages=[*records, *embedded])


def page() -> str:
    """Return the manual page kcli-formats(5) as mdoc text."""
    lines = [
        '.\\" Made by python -m formats.reference: change the formats, not this file.',
        ".Dd November 21, 2026",
        ".Dt KCLI-FORMATS 5",
        ".Os kcli",
        ".Sh NAME",
        ".Nm kcli-formats",
        ".Nd what is in the files of Apache Kafka, byte by byte",
        ".Sh DESCRIPTION",
        "Everything that a broker or controller of Kafka 4.3 keeps on disk.",
        "Numbers are big endian and signed unless their type says otherwise; times are milliseconds since 1970, UTC.",
    ]
    for section in sections():
        lines.append(f".Sh {section.heading.upper()}")
        lines += _text(section.module.__doc__ or "", outline=section.outline)
        for layout in section.layouts:
            lines += _table(f"{layout.name}, {layout.size} bytes", _layout_rows(layout))
        for name, definition in section.constructs:
            lines += _table(name, _construct_rows(definition))
        for message in section.messages:
            lines += _table(_message_title(message), _message_rows(message.root, message.versions))
    lines += [".Sh SEE ALSO", ".Xr kcli 1 ,", ".Xr kcli-dump-segment 1 ,", ".Xr kcli-verify 1"]
    return "\n".join(lines) + "\n"


def _text(doc: str, *, outline: bool) -> Iterator[str]:
    """Yield the mdoc lines of a docstring. The `Source:` paragraph is the last one used, as later paragraphs are about
    the code. outline: omit the indented rows of the docstring's table, see Section."""
    for paragraph in doc.strip().split("\n\n"):
        lines = paragraph.splitlines()
        if "   " in paragraph:  # not prose: a table or indented lines
            rows = [line.removeprefix("    ") for line in lines]
            yield from _literal(row for row in rows if not (outline and row.startswith(" ")))
        else:
            yield ".Pp"
            yield from map(_escaped, lines)
        if "Source: " in paragraph:
            return


def _table(title: str, rows: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Yield the mdoc lines of a titled table; a column is as wide as its longest cell."""
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    yield f".Ss {title}"
    yield from _literal("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)


def _literal(lines: Iterable[str]) -> Iterator[str]:
    yield ".Bd -literal -offset 2n"
    yield from map(_escaped, lines)
    yield ".Ed"


def _escaped(line: str) -> str:
    line = line.replace("\\", "\\e")
    return f"\\&{line}" if line.startswith((".", "'")) else line


def _layout_rows(layout: FixedLayout[Any]) -> Iterator[tuple[str, ...]]:
    yield "byte", "type", "field", "meaning"
    position = 0
    for field in layout.fields:
        yield str(position), field.type, field.name, field.meaning
        position += fixed.size_of(field.type)


def _construct_rows(definition: construct.Construct[Any, Any]) -> Iterator[tuple[str, ...]]:
    yield "type", "field", "meaning"
    assert isinstance(definition, construct.Struct)
    for field in definition.subcons:
        assert isinstance(field, construct.Renamed)
        yield _type_name(field), str(field.name), field.docs


_TYPE_NAMES = {
    Varint: "varint",
    Varlong: "varlong",
    BytesOfVarint: "bytes",
    NullableBytesOfVarint: "nullable bytes",
    NullableBytesOfInt32: "nullable bytes, int32 length",
    construct.Int8sb: "int8",
}


def _type_name(definition: construct.Construct[Any, Any]) -> str:
    while isinstance(definition, construct.Renamed):  # one Renamed for the name, one for the meaning
        definition = definition.subcon
    return f"array of {definition.title}" if isinstance(definition, primitives.Array) else _TYPE_NAMES[definition]


def _message_title(message: MessageSchema) -> str:
    about = [f"versions {message.versions}"]
    if message.api_key is not None:
        about.insert(0, f"{message.type} {message.api_key}")
    if message.flexible.low <= message.versions.high and message.flexible.low <= message.flexible.high:
        about.append(f"flexible from {message.flexible.low}")
    return f"{message.name} ({', '.join(about)})"


def _message_rows(struct: Struct, versions: Versions, depth: int = 0) -> Iterator[tuple[str, ...]]:
    if depth == 0:
        yield "field", "type", "versions", ""
    for field in struct.fields:
        there = field.versions & versions
        notes = []
        if field.nullable.low <= field.nullable.high:
            notes.append("nullable" if there.low >= field.nullable.low else f"nullable from {field.nullable.low}")
        if field.tag is not None:
            notes.append(f"tag {field.tag}")
        yield "  " * depth + field.name, field.type, str(there), ", ".join(notes)
        if field.struct is not None:
            yield from _message_rows(field.struct, there, depth + 1)


if __name__ == "__main__":
    print(page(), end="")  # noqa: T201  (the output of the program)
