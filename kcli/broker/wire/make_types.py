"""Make kcli/broker/wire/types: the types of every API's messages, for mypy alone, from kio's classes.

    python -m kcli.broker.wire.make_types

kio has one class for each message and version. A handler serves all versions of its API, so that its types are unions:
a stub for each API declares each message and struct once, with every field that any version has, and with `| None` if
the field is nullable in any version. A comment gives the versions of a field that not all versions have. The stub's
subclass of Call checks the response's constructors: which structs and fields there are, their types, and that no field
is left out which every version has without a default.

No module exists for a stub, so that it is imported under TYPE_CHECKING only. Integers, strings and times are of their
plain types (int, not i32), since that is what handlers compute with.
"""

from __future__ import annotations

import ast
import datetime as dt
import typing
from collections.abc import Iterable, Iterator
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from kcli.broker.wire.apis import APIS, Api
from kcli.broker.wire.messages import Messages, messages
from kcli.broker.wire.plain_values import hints, without_none
from kcli.protocol.kio_serial import KioErrorCode

FOLDER: Final = Path(__file__).parent / "types"
LINE_CHARACTERS: Final = 120
READ_BY_KERNEL: Final = {"ProduceRequest": "kcli.broker.wire.produce_request"}
"""Requests that compiled code decodes instead of kio, and the modules with their classes."""
UNREADABLE: Final = {"ApiVersionsRequest"}
"""Requests that are None in a Call if their version is unknown."""
OMITTED: Final = {"throttle_time"}
"""Fields for which `Messages.new` sets a value, so that a handler need not."""
PLAIN: Final = (bool, int, float, str, bytes, UUID, dt.timedelta, dt.datetime)


@dataclass
class Field:
    """A field of a struct. versions: the versions that have the field. is_required: whether no version has a default
    for the field."""

    type: str
    is_nullable: bool
    versions: list[int]
    is_required: bool

    @property
    def annotation(self) -> str:
        """The field's type over all versions."""
        return f"{self.type} | None" if self.is_nullable else self.type


@dataclass
class Struct:
    """A message, or a struct within a message, over all versions."""

    name: str
    versions: list[int] = field(default_factory=list)
    fields: dict[str, Field] = field(default_factory=dict)

    def is_required(self, name: str) -> bool:
        """Whether a handler that makes this struct must always give a value for the field: all versions of the struct
        have the field, none has a default for it, and `Messages.new` does not set it (OMITTED)."""
        known = self.fields[name]
        return known.is_required and known.versions == self.versions and name not in OMITTED


TYPING: Final = ("Literal", "Never", "overload")

Structs = dict[str, Struct]
"""The structs of a request or of a response, by kio's names; a struct comes before the structs that contain it."""


def main() -> None:
    """Write the type stub (.pyi) of each API that the broker has, and remove the stubs of all other APIs."""
    stubs = {f"{api.name}.pyi": stub(api) for api in APIS.values()}
    for path in FOLDER.glob("*.pyi"):
        if path.name not in stubs:
            path.unlink()
    for name, text in stubs.items():
        (FOLDER / name).write_text(text)


def stub(api: Api) -> str:
    """Return the text of an API's stub."""
    kinds = [messages(api.key, version) for version in range(api.least, api.most + 1)]
    request, response = _structs(kinds, "request"), _structs(kinds, "response")
    _rename(request, {name: f"Request{name}" if name in response else name for name in request})
    _rename(response, {name: name for name in response})
    title = kinds[-1].response_name.removesuffix("Response")
    module = READ_BY_KERNEL.get(kinds[-1].request_type.__name__)
    body = [_class(each) for each in (*(request.values() if module is None else ()), *response.values())]
    body.append(_call(f"{title}Call", [*request.values()][-1], [*response.values()]))
    text = "\n\n".join(body)
    words = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    versions = f"version {api.most}" if api.least == api.most else f"versions {api.least} to {api.most}"
    head = [
        f'"""{title} ({api.key}), {versions}. Made by make_types.py, for mypy alone."""\n',
        "import datetime as dt" if "dt" in words else "",
        "from dataclasses import dataclass",
        f"from typing import {', '.join(name for name in TYPING if name in words)}",
        "from uuid import UUID" if "UUID" in words else "",
        "\nfrom kcli.broker.wire.call import Call",
        "" if module is None else f"from {module} import {title}Request",
        "from kcli.protocol.error_code import ErrorCode" if "ErrorCode" in words else "",
    ]
    return "\n".join(filter(None, head)) + f"\n\n{text}\n"


# reading kio's classes


def _structs(kinds: list[Messages], which: str) -> Structs:
    found: Structs = {}
    for kind in reversed(kinds):  # the newest version comes first, so that the stub has its order of structs and fields
        _add(kind.request_type if which == "request" else kind.response_type, kind.version, found)
    newest = kinds[-1].request_type if which == "request" else kinds[-1].response_type
    # `stub` takes the last struct for the message; structs that only older versions have were added after it
    found[newest.__name__] = found.pop(newest.__name__)
    for struct in found.values():
        struct.versions.sort()
        for each in struct.fields.values():
            each.versions.sort()
    return found


def _rename(structs: Structs, names: dict[str, str]) -> None:
    """Give each struct its name in the stub, also in the types of fields."""
    for struct in structs.values():
        struct.name = names[struct.name]
        for each in struct.fields.values():
            each.type = each.type.format_map(names)


def _add(cls: type, version: int, found: Structs) -> None:
    types = hints(cls)
    for each in fields(cls):
        inner = _innermost(types[each.name])
        if is_dataclass(inner):
            assert isinstance(inner, type)
            _add(inner, version, found)
    struct = found.setdefault(cls.__name__, Struct(cls.__name__))
    if version in struct.versions:
        return
    struct.versions.append(version)
    for each in fields(cls):
        hint = types[each.name]
        is_nullable, is_required = without_none(hint) is not hint, each.default is MISSING
        name = _name(without_none(hint))
        known = struct.fields.setdefault(each.name, Field(name, is_nullable, [], is_required))
        assert known.type == name, f"{cls.__name__}.{each.name} is a {known.type} and a {name}"
        known.is_nullable |= is_nullable
        known.is_required &= is_required
        known.versions.append(version)


def _innermost(hint: Any) -> Any:
    inner = without_none(hint)
    return _innermost(typing.get_args(inner)[0]) if typing.get_origin(inner) is tuple else inner


def _name(hint: Any) -> str:
    """Return a type's name in a stub. A struct's name is in braces, which `_rename` replaces, as request and response
    may each have a struct of that name."""
    inner = without_none(hint)
    if inner is not hint:
        return f"{_name(inner)} | None"
    if typing.get_origin(hint) is tuple:
        return f"tuple[{_name(typing.get_args(hint)[0])}, ...]"
    if is_dataclass(hint):
        assert isinstance(hint, type)
        return f"{{{hint.__name__}}}"
    if hint is KioErrorCode:
        return "ErrorCode"
    if "Timedelta" in hint.__name__:
        return "dt.timedelta"
    if hint.__name__ == "TZAware":
        return "dt.datetime"
    plain = next(each for each in PLAIN if issubclass(hint, each))
    return f"dt.{plain.__name__}" if plain.__module__ == "datetime" else plain.__name__


# writing stubs


def _class(struct: Struct) -> str:
    lines = ["@dataclass(frozen=True)", f"class {struct.name}:"]
    for name, each in struct.fields.items():
        line = f"    {name}: {each.annotation}"
        lines.append(line if each.versions == struct.versions else f"{line}  # {_range(each.versions)}")
    return "\n".join(lines) if struct.fields else f"{lines[0]}\n{lines[1]} ..."


def _range(versions: list[int]) -> str:
    first, last = versions[0], versions[-1]
    assert versions == list(range(first, last + 1)), versions
    return f"version {first}" if first == last else f"versions {first} to {last}"


def _call(name: str, request: Struct, response: list[Struct]) -> str:
    """Return the text of the API's subclass of Call. response: the structs of the response; the last is the response
    itself."""
    lacks = " | None" if request.name in UNREADABLE else ""
    lines = [f"class {name}(Call):", f"    request: {request.name}{lacks}"]
    by_version = {name: each for name, each in request.fields.items() if each.versions != request.versions}
    gets = [signature for name, each in by_version.items() for signature in _gets(name, each)]
    news = [
        ["self", f'_struct: Literal["{each.name}"]', "/", *_parameters(each), f"-> {each.name}"] for each in response
    ]
    has = [
        ["self", f'name: Literal["{each.name}"]', f"field: {_literal(names)}", "-> bool"]
        for each in response
        if (names := [name for name, known in each.fields.items() if known.versions != response[-1].versions])
    ]
    lines += _overloads("get", gets or [["self", "name: Never", "default: Never", "-> Never"]])
    lines += _overloads("new", news[:-1] or [["self", "_struct: Never", "/", "-> Never"]])
    lines += _overloads("has", has or [["self", "name: Never", "field: Never", "-> Never"]])
    lines += _overloads("respond", [["self", *_parameters(response[-1]), f"-> {response[-1].name}"]])
    return "\n".join(lines)


def _gets(name: str, field: Field) -> Iterator[list[str]]:
    """Yield the overloads of `Call.get` for a field: an overload with a default of the field's type and, if the field
    is never null, an overload with the default None."""
    yield ["self", f'name: Literal["{name}"]', f"default: {field.annotation}", f"-> {field.annotation}"]
    if not field.is_nullable:
        yield ["self", f'name: Literal["{name}"]', "default: None", f"-> {field.type} | None"]


def _parameters(struct: Struct) -> Iterator[str]:
    if struct.fields:
        yield "*"
    for name, each in struct.fields.items():
        yield f"{name}: {each.annotation}" + ("" if struct.is_required(name) else " = ...")


def _literal(values: Iterable[str]) -> str:
    line = "Literal[" + ", ".join(f'"{each}"' for each in values) + "]"
    if len(f"        field: {line},") <= LINE_CHARACTERS:
        return line
    return "Literal[\n" + "".join(f'            "{each}",\n' for each in values) + "        ]"


def _overloads(name: str, signatures: list[list[str]]) -> Iterator[str]:
    for *parameters, result in signatures:
        if len(signatures) > 1:
            yield "    @overload"
        line = f"    def {name}({', '.join(parameters)}) {result}: ..."
        if len(line) <= LINE_CHARACTERS and "\n" not in line:
            yield line
            continue
        yield f"    def {name}("
        yield from (f"        {each}," for each in parameters)
        yield f"    ) {result}: ..."


if __name__ == "__main__":
    main()
