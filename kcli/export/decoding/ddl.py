"""Types in Spark's DDL: `id BIGINT, tags ARRAY<STRING>, total DECIMAL(10,2)`, or one type alone: `ARRAY<INT>`.

Source: Spark SQL's reference, "Data Types". Columns may have NOT NULL and COMMENT 'text', which are parsed without
effect: a missing value decodes to null.
"""

from __future__ import annotations

import re

import pyarrow as pa

from kcli.schema_client.errors import SchemaError

TIMESTAMP = pa.timestamp("us", "UTC")
TIMESTAMP_NTZ = pa.timestamp("us")
DEPTH_MAX = 64

SIMPLE_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "byte": pa.int8(),
    "smallint": pa.int16(),
    "short": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "long": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "char": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP,
    "timestamp_ntz": TIMESTAMP_NTZ,
}
DECIMALS = frozenset({"decimal", "dec", "numeric"})

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[A-Za-z_0-9]+|[<>(),:])")


def parse_ddl(text: str) -> pa.DataType:
    """Return the Arrow type of columns (a struct) or of one type in Spark's DDL. Raises SchemaError."""
    parser = _Parser(text)
    alone = len(parser.tokens) == 1 or (len(parser.tokens) > 1 and parser.tokens[1] in {"<", "("})
    found = parser.type() if alone else parser.columns(end=None)
    if parser.peek() is not None:
        raise parser.error(f"unexpected {parser.peek()!r}")
    return found


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens: list[str] = []
        self.at = 0
        self.depth = 0
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None:
                raise SchemaError(
                    f"not a type in Spark's words, at character {position}: {text[position : position + 20]!r}"
                )
            self.tokens.append(match[1])
            position = match.end()

    def error(self, reason: str) -> SchemaError:
        return SchemaError(f"not a type in Spark's words: {reason}, in {self.text[:200]!r}")

    def peek(self) -> str | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def take(self, expected: str | None = None) -> str:
        token = self.peek()
        if token is None or (expected is not None and token != expected):
            found = "the end" if token is None else repr(token)
            raise self.error(f"{expected or 'a name'} expected, {found} found")
        self.at += 1
        return token

    def columns(self, end: str | None) -> pa.DataType:
        fields: list[pa.Field] = []
        if end is None or self.peek() != end:
            fields.append(self.column())
        while fields and self.peek() == ",":
            self.take(",")
            fields.append(self.column())
        names = [field.name for field in fields]
        if len(set(names)) < len(names):
            raise self.error("two columns of one name")
        return pa.struct(fields)

    def column(self) -> pa.Field:
        token = self.take()
        name = token[1:-1].replace("``", "`") if token.startswith("`") else token
        if not (token.startswith("`") or token[0].isalnum() or token[0] == "_"):
            raise self.error(f"a name expected, {token!r} found")
        if self.peek() == ":":
            self.take(":")
        field = pa.field(name, self.type())
        while (word := (self.peek() or "").lower()) in {"not", "comment"}:
            self.take()
            following = self.take()
            if word == "not" and following.lower() != "null":
                raise self.error("NULL expected behind NOT")
        return field

    def type(self) -> pa.DataType:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.error(f"nested more than {DEPTH_MAX} deep")
        found = self.nested_type()
        self.depth -= 1
        return found

    def nested_type(self) -> pa.DataType:
        name = self.take().lower()
        if name == "array":
            self.take("<")
            found = pa.list_(self.type())
            self.take(">")
        elif name == "map":
            self.take("<")
            key = self.type()
            self.take(",")
            found = pa.map_(key, self.type())
            self.take(">")
        elif name == "struct":
            self.take("<")
            found = self.columns(end=">")
            self.take(">")
        elif name in DECIMALS:
            precision, scale = self.numbers(default=(10, 0))
            if not 0 < precision <= 38 or not 0 <= scale <= precision:
                raise self.error(f"no decimal has precision {precision} and scale {scale}")
            found = pa.decimal128(precision, scale)
        elif name in SIMPLE_TYPES:
            if name in {"varchar", "char"}:
                self.numbers(default=(0, 0))
            found = SIMPLE_TYPES[name]
        else:
            raise self.error(f"unknown type {name!r}")
        return found

    def numbers(self, default: tuple[int, int]) -> tuple[int, int]:
        if self.peek() != "(":
            return default
        self.take("(")
        numbers = [self.number()]
        if self.peek() == ",":
            self.take(",")
            numbers.append(self.number())
        self.take(")")
        return numbers[0], numbers[1] if len(numbers) > 1 else 0

    def number(self) -> int:
        token = self.take()
        if not token.isdecimal():
            raise self.error(f"a number expected, {token!r} found")
        return int(token)
