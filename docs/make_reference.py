"""Make docs/reference: the public Python names, with their signatures and docstrings, as Markdown.

    formats.md     every module of formats
    kernels.md     formats.kernels: signatures of the .pyi files, docstrings of the compiled modules
    testing.md     kcli.testing, and what its objects have
    spark.md       pyspark_kafka_log
    streams.md     kcli.streams

`python docs/make_reference.py` writes the pages; with `--check` it exits with 1 where a page differs from the sources.
Sources are parsed, not imported, but for the kernels, whose docstrings only the compiled modules have.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from importlib import import_module
from inspect import cleandoc, getdoc
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"
SIGNATURE_CHARACTERS = 100
VALUE_CHARACTERS = 72
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Page(NamedTuple):
    """A page: its opening lines, and its modules with the names that it shows of each (none: all public ones)."""

    title: str
    opening: str
    modules: dict[str, tuple[str, ...]]


def modules(pattern: str) -> dict[str, tuple[str, ...]]:
    """The modules whose files match a pattern, by dotted name."""
    paths = sorted(path.relative_to(ROOT) for path in ROOT.glob(pattern) if path.stem != "__init__")
    return {".".join(path.with_suffix("").parts): () for path in paths}


PAGES = {
    "formats.md": Page(
        "formats",
        "Every format of Kafka's files, records and messages: `parse` makes values of bytes, `build` makes bytes of "
        "values. No module does I/O. Bad bytes raise a `formats.errors.FormatError`, which has the position.",
        modules("formats/*.py"),
    ),
    "kernels.md": Page(
        "formats.kernels",
        "The formats in bulk: compiled kernels that read and write whole windows of a log as columns. They import "
        "nothing of kcli, do no I/O, and release the GIL. A table is a two-dimensional buffer of int64: "
        "`numpy.asarray(table)` has the shape (rows, columns) and copies nothing.",
        modules("formats/kernels/**/*.py") | modules("formats/kernels/**/*.pyi"),
    ),
    "testing.md": Page(
        "kcli.testing",
        "What a test has of a broker: `from kcli.testing import Kafka, Fault, Record, Request`. The fixtures and the "
        "options of the pytest plugin are in [kcli-pytest(7)](../../man/kcli-pytest.7).",
        {
            "kcli.testing.kafka": ("Kafka", "Clock", "Faults", "Snapshot"),
            "kcli.testing.faults": ("Fault",),
            "kcli.testing.records": ("Record",),
            "kcli.testing.requests": ("Request",),
            "kcli.testing.seed": ("BadSeed",),
            "kcli.testing.controls": ("Refused",),
            "kcli.testing.plugin": ("kafka", "kafka_broker", "kafka_session"),
            "kcli.errors": ("KcliError", "UsageError"),
        },
    ),
    "spark.md": Page(
        "pyspark_kafka_log",
        "Spark finds the data source `kafka-log` through this package. Options and columns are in "
        "[kcli-kafka-log(7)](../../man/kcli-kafka-log.7).",
        {
            "pyspark_kafka_log": (),
            "kcli.pipelines.source": ("KafkaDataSource",),
            "kcli.export.source": ("KafkaLogDataSource",),
        },
    ),
    "streams.md": Page(
        "kcli.streams",
        "Programs of streams and tables: `from kcli.streams import StreamsBuilder`. The guide is "
        "[Streams](../streams.md).",
        {
            "kcli.streams.builder": ("StreamsBuilder",),
            "kcli.streams.kstream": ("KStream", "BranchedKStream"),
            "kcli.streams.ktable": ("KTable", "GlobalKTable"),
            "kcli.streams.grouped_stream": (
                "KGroupedStream",
                "WindowedKStream",
                "TimeWindowedKStream",
                "SessionWindowedKStream",
                "CogroupedKStream",
                "TimeWindowedCogroupedKStream",
                "SessionWindowedCogroupedKStream",
            ),
            "kcli.streams.grouped_table": ("KGroupedTable",),
            "kcli.streams.windows": (
                "TimeWindows",
                "SlidingWindows",
                "SessionWindows",
                "JoinWindows",
                "Window",
                "Windowed",
            ),
            "kcli.streams.suppressed": (),
            "kcli.streams.serdes": (
                ("Serde", "BYTES", "STRING", "INTEGER", "LONG", "DOUBLE", "JSON", "time_windowed", "session_windowed")
            ),
            "kcli.streams.schemas": ("SchemaRegistry",),
            "kcli.streams.records": (
                "Record",
                "ValueAndTimestamp",
                "VersionedRecord",
                "RecordMetadata",
                "ConsumerRecord",
                "ProducerRecord",
            ),
            "kcli.streams.topology.timestamps": (),
            "kcli.streams.topology.processor": ("Processor", "ProcessorContext", "PunctuationType", "Cancellable"),
            "kcli.streams.topology.topology": ("Topology",),
            "kcli.streams.topology.stores.key_value": ("KeyValueStore", "KeyValueStoreBuilder"),
            "kcli.streams.topology.stores.versioned": ("VersionedKeyValueStore", "VersionedKeyValueStoreBuilder"),
            "kcli.streams.topology.stores.window": ("WindowStore", "WindowStoreBuilder"),
            "kcli.streams.topology.stores.session": ("SessionStore", "SessionStoreBuilder"),
            "kcli.streams.config": ("streams_config",),
            "kcli.streams.topology.error_handlers": ("ErrorContext", "Response", "dead_letter"),
            "kcli.streams.testing": ("TopologyTestDriver", "TestInputTopic", "TestOutputTopic"),
            "kcli.streams.local.kafka_streams": ("KafkaStreams", "ProcessingGuarantee"),
            "kcli.streams.errors": (),
        },
    ),
}


class Module:
    """The source of a module, and the docstrings of what it defines."""

    def __init__(self, name: str) -> None:
        path = ROOT / name.replace(".", "/")
        stub = path.with_suffix(".pyi")
        self.name = name
        self.path = next(p for p in (stub, path.with_suffix(".py"), path / "__init__.py") if p.exists())
        self._source = self.path.read_text(encoding="utf-8")
        self._lines = self._source.splitlines()
        self.tree = ast.parse(self._source)
        self._compiled = import_module(name) if self.path == stub else None

    @property
    def doc(self) -> str:
        """The docstring of the module."""
        return (getdoc(self._compiled) if self._compiled else ast.get_docstring(self.tree)) or ""

    def doc_of(self, node: ast.ClassDef | Function, of: str = "") -> str:
        """The docstring of a class, a function, or a method of the class `of`."""
        written = ast.get_docstring(node)
        if written is None and self._compiled is not None:
            holder = getattr(self._compiled, of, None) if of else self._compiled
            found = vars(holder).get(node.name)
            written = getdoc(found) if found is not None and getattr(found, "__doc__", None) else None
        return written or ""

    def comment(self, node: ast.stmt) -> str:
        """The comment behind a statement."""
        line = self._lines[(node.end_lineno or node.lineno) - 1]
        match = re.search(r"  # (?:(?:noqa|type:)[^#]*(?:  # |$))?(.*)$", line)
        return match[1] if match else ""

    def short(self, value: ast.expr) -> str:
        """An expression as it is written, or its outline where that is long."""
        whole = ast.get_source_segment(self._source, value) or ""
        if len(whole) <= VALUE_CHARACTERS and "\n" not in whole:
            return whole
        return f"{ast.unparse(value.func)}(...)" if isinstance(value, ast.Call) else "..."


def is_public(name: str) -> bool:
    """Is a name without a leading underscore?"""
    return not name.startswith("_")


def page_text(page: Page) -> str:
    """A page as Markdown."""
    shown = [(Module(name), names) for name, names in page.modules.items()]
    parts = [f"# {page.title}", page.opening, "Generated by `docs/make_reference.py` from the docstrings."]
    if len(shown) > 1:
        parts.append("\n".join(f"- [{m.name}](#{anchor(m.name)}): {first_line(m.doc)}" for m, _ in shown))
    for module, names in shown:
        parts += module_parts(module, names)
    return "\n\n".join(parts) + "\n"


def anchor(heading: str) -> str:
    """The anchor that Markdown gives a heading."""
    return re.sub(r"[^\w-]", "", heading.lower())


def first_line(doc: str) -> str:
    """The first paragraph of a docstring, on one line."""
    return escaped(doc.split("\n\n", maxsplit=1)[0].replace("\n", " "))


def module_parts(module: Module, names: tuple[str, ...]) -> Iterator[str]:
    """A module: its docstring, constants, classes and functions."""
    yield f"## {module.name}"
    yield from markdown(module.doc)
    if not names:
        constants = list(constant_lines(module, module.tree.body))
        if constants:
            yield "\n".join(constants)
    for node in module.tree.body:
        if isinstance(node, ast.ClassDef | Function) and (node.name in names or (not names and is_public(node.name))):
            yield f"### {node.name}"
            yield from class_parts(module, node) if isinstance(node, ast.ClassDef) else function_parts(module, node)


def constant_lines(module: Module, body: list[ast.stmt]) -> Iterator[str]:
    """A line for each constant: name, value where it is short, and the string below it or the comment behind it."""
    for node, below in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign):
            targets: list[ast.expr] = [node.target]
        elif isinstance(node, ast.Assign):
            targets = node.targets
        else:
            continue
        names = [target.id for target in targets if isinstance(target, ast.Name) and is_public(target.id)]
        if not names:
            continue
        doc = module.comment(node)
        if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) and isinstance(below.value.value, str):
            doc = cleandoc(below.value.value).replace("\n", " ")
        shown = names[0]
        if isinstance(node, ast.AnnAssign):
            shown += f": {ast.unparse(node.annotation)}"
        if node.value is not None:
            shown += f" = {module.short(node.value)}"
        yield f"- `{shown}`" + (f": {escaped(doc)}" if doc else "")


def class_parts(module: Module, node: ast.ClassDef) -> Iterator[str]:
    """A class: its head with its fields, its docstring, its methods and properties."""
    bases = ", ".join(each for each in map(ast.unparse, node.bases) if is_public(each))
    head = [f"class {node.name}({bases}):" if bases else f"class {node.name}:"]
    head += [f"    {line}" for line in fields(module, node)]
    methods = [each for each in node.body if isinstance(each, Function)]
    for each in methods:
        if each.name == "__init__":
            head += [f"    {line}" for line in signature(each).splitlines()]
    yield code("\n".join([*head, "    ..."] if len(head) == 1 else head))
    yield from markdown(module.doc_of(node))
    documented = [each for each in methods if is_public(each.name) or (each.name == "__init__" and module.doc_of(each))]
    if documented:
        yield "\n".join(method_item(module, node, each) for each in documented)


def method_item(module: Module, node: ast.ClassDef, method: Function) -> str:
    """An item of a list: the signature of a method or property, its docstring below it."""
    doc = "\n\n".join(markdown(module.doc_of(method, node.name)))
    lines = [f"- `{signature(method, inside=True)}`", *doc.splitlines()]
    return "\n  ".join(lines).replace("\n  \n", "\n\n").replace("`\n", "`  \n", 1)


def fields(module: Module, node: ast.ClassDef) -> Iterator[str]:
    """The fields of a dataclass or tuple, the members of an enumeration."""
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and is_public(each.target.id):
            value = f" = {module.short(each.value)}" if each.value is not None else ""
            comment = module.comment(each)
            yield f"{each.target.id}: {ast.unparse(each.annotation)}{value}" + (f"  # {comment}" if comment else "")
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name) and is_public(each.targets[0].id):
            comment = module.comment(each)
            yield f"{each.targets[0].id} = {module.short(each.value)}" + (f"  # {comment}" if comment else "")


def function_parts(module: Module, node: Function) -> Iterator[str]:
    """A function: its signature and its docstring."""
    yield code(signature(node))
    yield from markdown(module.doc_of(node))


def signature(node: Function, *, inside: bool = False) -> str:
    """A function's head. inside: of a method in a list, without self, a property like a field."""
    decorators = {ast.unparse(each).rpartition(".")[2] for each in node.decorator_list}
    returns = ast.unparse(node.returns) if node.returns else "None"
    if inside and decorators & {"property", "cached_property"}:
        return f"{node.name}: {returns}"
    listed = list(arguments(node.args))
    if inside and "staticmethod" not in decorators:
        listed = listed[1:]
    start = "" if inside else "async def " if isinstance(node, ast.AsyncFunctionDef) else "def "
    line = f"{start}{node.name}({', '.join(listed)}) -> {returns}"
    if inside or len(line) <= SIGNATURE_CHARACTERS:
        return line
    return f"{start}{node.name}(\n" + "".join(f"    {each},\n" for each in listed) + f") -> {returns}"


def arguments(args: ast.arguments) -> Iterator[str]:
    """The arguments of a function one by one, with the signs that tell their kinds."""
    by_place = [*args.posonlyargs, *args.args]
    defaults = [*[None] * (len(by_place) - len(args.defaults)), *args.defaults]
    for i, (each, default) in enumerate(zip(by_place, defaults, strict=True), 1):
        yield argument(each, default)
        if i == len(args.posonlyargs):
            yield "/"
    if args.vararg or args.kwonlyargs:
        yield f"*{argument(args.vararg, None)}" if args.vararg else "*"
    for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield argument(each, default)
    if args.kwarg:
        yield f"**{argument(args.kwarg, None)}"


def argument(argument: ast.arg, default: ast.expr | None) -> str:
    """One argument with its type and its default."""
    typed = f"{argument.arg}: {ast.unparse(argument.annotation)}" if argument.annotation else argument.arg
    equals = " = " if argument.annotation else "="
    return typed if default is None else f"{typed}{equals}{ast.unparse(default)}"


def code(text: str) -> str:
    """A block of Python."""
    return f"```python\n{text}\n```"


def markdown(doc: str) -> Iterator[str]:
    """A docstring as Markdown: indented paragraphs are code, others are text."""
    for paragraph in re.split(r"\n{2,}", doc.strip("\n")):
        if paragraph.startswith("    "):
            yield paragraph
        elif paragraph:
            yield escaped(paragraph)


def escaped(text: str) -> str:
    """Text in which Markdown sees nothing to format but `code`."""
    return re.sub(r"(`[^`]*`)|([*<]|(?<!\w)_+(?=\w))", lambda match: match[1] or f"\\{match[2]}", text)


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them."""
    stale = []
    for name, page in PAGES.items():
        path, text = REFERENCE / name, page_text(page)
        if arguments == ["--check"]:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                stale.append(path)
        else:
            path.write_text(text, encoding="utf-8")
    for path in stale:
        print(f"{path.relative_to(ROOT)} is not what the sources say: run python docs/make_reference.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
