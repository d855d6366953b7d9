"""Which data of a writer's schema a reader's schema cannot read.

    reader          reads what writers write
    a primitive     itself; int as long, float, double; long as float, double; float as double; string and bytes
    array, map      items, values that it reads
    fixed           of the same name and size
    enum            of the same name, if it knows all symbols or has a default
    record          of the same name, if each of its fields reads the writer's field of its name, or has a default
    union           anything that one of its branches reads
    any             a union, if it reads all of the union's branches

Names are equal if the names without namespaces are, or if the reader has the writer's full name among its aliases; a
field's aliases stand for its name.

Each pair of types is compared once; a pair that is being compared counts as compatible inside itself. The answer of a
pair has the path at which it was compared first, and inside a branch of a union paths start anew: both as in Avro for
Java, whose answers clients see.

Source: Avro specification 1.12, "Schema Resolution"; SchemaCompatibility of Avro for Java for kinds, paths and texts.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Final, NamedTuple, TypeAlias

from kcli.schemas.avro.printing import schema_text
from kcli.schemas.avro.types import (
    Array,
    Enum,
    Field,
    Fixed,
    Map,
    NamedType,
    Primitive,
    Record,
    Schema,
    Union,
    alias_names,
)
from kcli.schemas.parsed import Incompatibility
from kcli.schemas.schema import InvalidSchema

WORK_MAX: Final = 2_000_000
"""How many fields and symbols are compared at most; a pair of types counts as PAIR_WORK."""
PAIR_WORK: Final = 10
DEPTH_MAX: Final = 2_000
"""How deep pairs of types may be nested."""
SHOWN_MAX: Final = 1_000
"""The greatest number of incompatibilities in a result; those of a type that occurs several times count each time."""
UNEXPECTED: Final = "UNEXPECTED_EXCEPTION"
"""The kind of the one incompatibility of schemas that cannot be compared."""

_PROMOTED: Final = {
    "long": frozenset(("int",)),
    "float": frozenset(("int", "long")),
    "double": frozenset(("int", "long", "float")),
    "bytes": frozenset(("string",)),
    "string": frozenset(("bytes",)),
}
_DESCRIPTIONS: Final = {
    "FIXED_SIZE_MISMATCH": "The size of FIXED type field at path '{path}' in the %s schema does not match "
    "with the %s schema",
    "TYPE_MISMATCH": "The type (path '{path}') of a field in the %s schema does not match with the %s schema",
    "NAME_MISMATCH": "The name of the schema has changed (path '{path}')",
    "MISSING_ENUM_SYMBOLS": "The %s schema is missing enum symbols '{detail}' at path '{path}' in the %s schema",
    "MISSING_UNION_BRANCH": "The %s schema is missing a type inside a union field at path '{path}' in the %s schema",
    "READER_FIELD_MISSING_DEFAULT_VALUE": "The field '{detail}' at path '{path}' in the %s schema has no default value "
    "and is missing in the %s schema",
}

Path: TypeAlias = "tuple[Path, str] | None"
"""The path to a pair, its last step first; None at the root."""


class _Mismatch(NamedTuple):
    kind: str
    path: Path
    detail: str


class _Result(NamedTuple):
    """The result of comparing two types: their mismatches, and the results of their parts, which other results may
    share."""

    parts: Sequence[_Mismatch | _Result]

    @property
    def is_compatible(self) -> bool:
        return not self.parts


class _Pair(NamedTuple):
    reader: Schema
    writer: Schema
    path: Path


_COMPATIBLE: Final = _Result(())
_Steps: TypeAlias = Generator[_Pair, _Result, _Result]


class _Incomparable(Exception):
    """Two schemas that cannot be compared; the message says why."""


def compare(reader: Schema, writer: Schema) -> list[Incompatibility]:
    """Return why a reader's schema cannot read all data of a writer's schema: at most SHOWN_MAX reasons, none if it
    can."""
    try:
        result = _Comparison().run(_Pair(reader, writer, None))
    except _Incomparable as error:
        return [Incompatibility(UNEXPECTED, "/", f"Unexpected exception during compatibility check: {error}")]
    return [_incompatibility(each) for each in _mismatches(result)]


class _Comparison:
    """Compares pairs of types without recursion. Each pair is a generator that asks for the pairs inside it."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], _Result] = {}
        self._work = 0

    def run(self, pair: _Pair) -> _Result:
        """Return the result of a pair. Raises _Incomparable."""
        stack: list[tuple[tuple[int, int], _Steps]] = []
        result: _Result | None = None
        following: _Pair | None = pair
        while True:
            if following is not None:
                result = self._known_result(following)
                if result is None:
                    stack.append((_key(following), self._compared(following)))
                    if len(stack) > DEPTH_MAX:
                        raise _Incomparable(f"types are nested deeper than {DEPTH_MAX:,} levels")
            if not stack:
                assert result is not None, "a pair without parts has a result at once"
                return result
            key, steps = stack[-1]
            try:
                following = steps.send(result)  # type: ignore[arg-type]  # None starts a generator
            except StopIteration as stop:
                following = None
                result = self._known[key] = stop.value
                stack.pop()

    def _known_result(self, pair: _Pair) -> _Result | None:
        """Return the result of a pair that was compared before or has no parts. For any other pair return None, and
        mark the pair as in progress."""
        key = _key(pair)
        result = self._known.get(key)
        if result is None:
            self._count(PAIR_WORK)
            result = self._without_parts(pair)
            self._known[key] = _COMPATIBLE if result is None else result
        return result

    def _count(self, work: int) -> None:
        self._work += work
        if self._work > WORK_MAX:
            raise _Incomparable(f"more than {WORK_MAX // PAIR_WORK:,} pairs of types are to be compared")

    def _without_parts(self, pair: _Pair) -> _Result | None:
        reader, writer, path = pair
        match reader, writer:
            case (Union(), _) | (_, Union()) | (Array(), Array()) | (Map(), Map()) | (Record(), Record()):
                return None
            case Primitive(), Primitive():
                if reader.type == writer.type or writer.type in _PROMOTED.get(reader.type, ()):
                    return _COMPATIBLE
            case Fixed(), Fixed():
                return _Result((*_names(reader, writer, path), *_sizes(reader, writer, path)))
            case Enum(), Enum():
                self._count(len(reader.symbols) + len(writer.symbols))
                return _Result((*_names(reader, writer, path), *_symbols(reader, writer, path)))
        types = f"reader type: {reader.type.upper()} not compatible with writer type: {writer.type.upper()}"
        return _Result((_Mismatch("TYPE_MISMATCH", path, types),))

    def _compared(self, pair: _Pair) -> _Steps:
        reader, writer, path = pair
        match reader, writer:
            case Union(), Union():
                return (yield from self._unions(reader, writer, path))
            case _, Union():
                return (yield from self._all_branches(reader, writer, path))
            case Union(), _:
                return (yield from self._any_branch(reader, writer, path))
            case Array(), Array():
                return (yield _Pair(reader.items, writer.items, (path, "items")))
            case Map(), Map():
                return (yield _Pair(reader.values, writer.values, (path, "values")))
            case Record(), Record():
                self._count(len(reader.fields))
                return (yield from self._records(reader, writer, path))
        raise AssertionError("a pair without parts is not compared in steps")

    def _reads_plainly(self, reader: Schema, writer: Schema) -> bool:
        """Return whether both are the same primitive, or unions of primitives where the reader has all branches of the
        writer. This is a fast path for nearly all fields; if False, the pair is compared by the rules."""
        if isinstance(reader, Primitive) and isinstance(writer, Primitive):
            return reader.type == writer.type
        if not isinstance(reader, Union) or not isinstance(writer, Union):
            return False
        self._count(len(reader.branches) + len(writer.branches))
        known = {each.type for each in reader.branches if isinstance(each, Primitive)}
        return all(isinstance(each, Primitive) and each.type in known for each in writer.branches)

    def _unions(self, reader: Union, writer: Union, path: Path) -> _Steps:
        parts = []
        for i, branch in enumerate(writer.branches):
            result = yield _Pair(reader, branch, None)
            if not result.is_compatible:
                parts.append(_missing_branch(branch, (path, str(i))))
        return _Result(parts)

    def _all_branches(self, reader: Schema, writer: Union, path: Path) -> _Steps:
        parts = []
        for i, branch in enumerate(writer.branches):
            result = yield _Pair(reader, branch, (path, str(i)))
            if not result.is_compatible:
                parts.append(result)
        return _merged(parts)

    def _any_branch(self, reader: Union, writer: Schema, path: Path) -> _Steps:
        for branch in reader.branches:
            result = yield _Pair(branch, writer, None)
            if result.is_compatible:
                return _COMPATIBLE
        return _Result((_missing_branch(writer, path),))

    def _records(self, reader: Record, writer: Record, path: Path) -> _Steps:
        parts: list[_Mismatch | _Result] = [*_names(reader, writer, path)]
        for i, field in enumerate(reader.fields.values()):
            here: Path = ((path, "fields"), str(i))
            written = _written_field(field, i, writer)
            if written is not None:
                if self._reads_plainly(field.schema, written.schema):
                    continue
                result = yield _Pair(field.schema, written.schema, (here, "type"))
            elif field.has_default:
                continue
            elif isinstance(field.schema, Enum) and field.schema.default is not None:
                result = yield _Pair(field.schema, writer, (here, "type"))
            else:
                result = _Result((_Mismatch("READER_FIELD_MISSING_DEFAULT_VALUE", here, field.name),))
            if not result.is_compatible:
                parts.append(result)
        return _merged(parts)


def _key(pair: _Pair) -> tuple[int, int]:
    return id(pair.reader), id(pair.writer)


def _merged(parts: Sequence[_Mismatch | _Result]) -> _Result:
    if len(parts) == 1 and isinstance(parts[0], _Result):
        return parts[0]
    return _Result(parts)


def _names(reader: NamedType, writer: NamedType, path: Path) -> Sequence[_Mismatch]:
    if reader.name.simple == writer.name.simple or writer.name.full in alias_names(reader):
        return ()
    return (_Mismatch("NAME_MISMATCH", (path, "name"), f"expected: {writer.name.full}"),)


def _sizes(reader: Fixed, writer: Fixed, path: Path) -> Sequence[_Mismatch]:
    if reader.size == writer.size:
        return ()
    return (_Mismatch("FIXED_SIZE_MISMATCH", (path, "size"), f"expected: {writer.size}, found: {reader.size}"),)


def _symbols(reader: Enum, writer: Enum, path: Path) -> Sequence[_Mismatch]:
    missing = {str(each) for each in writer.symbols} - {str(each) for each in reader.symbols}
    if not missing or reader.default is not None:
        return ()
    return (_Mismatch("MISSING_ENUM_SYMBOLS", (path, "symbols"), f"[{', '.join(sorted(missing))}]"),)


def _written_field(field: Field, position: int, writer: Record) -> Field | None:
    """Return the writer's field that a reader's field reads, found by name or alias. Raises _Incomparable if there are
    several."""
    names = (field.name, *field.aliases)
    found = [writer.fields[each] for each in names if each in writer.fields]
    if len(found) > 1:
        raise _Incomparable(
            f"Reader record field {field.name} type:{field.schema.type.upper()} pos:{position} "
            f"matches multiple fields in writer record schema {_shown(writer)}"
        )
    return found[0] if found else None


def _shown(schema: Record) -> str:
    try:
        return schema_text(schema)
    except InvalidSchema:  # its references' types make it too deep to print
        return schema.name.full


def _missing_branch(writer: Schema, path: Path) -> _Mismatch:
    return _Mismatch("MISSING_UNION_BRANCH", path, f"reader union lacking writer type: {writer.type.upper()}")


def _mismatches(result: _Result) -> list[_Mismatch]:
    """Return the first SHOWN_MAX mismatches of a result and its parts, in order."""
    found: list[_Mismatch] = []
    stack: list[_Mismatch | _Result] = [result]
    while stack and len(found) < SHOWN_MAX:
        each = stack.pop()
        if isinstance(each, _Mismatch):
            found.append(each)
        else:
            stack += reversed(each.parts)
    return found


def _incompatibility(mismatch: _Mismatch) -> Incompatibility:
    steps = []
    path = mismatch.path
    while path is not None:
        path, step = path
        steps.append(step)
    text = "/" + "/".join(reversed(steps))
    description = _DESCRIPTIONS[mismatch.kind].format(path=text, detail=mismatch.detail)
    return Incompatibility(
        mismatch.kind,
        text,
        f"{{errorType:'{mismatch.kind}', description:'{description}', additionalInfo:'{mismatch.detail}'}}",
    )
