"""Programs of streams as data: what tests/streams/cases holds, and what both Kafka Streams and kcli.streams run.

A case is a name and lines of assignments and calls, in the DSL's own words:

    == count-by-first-letter
    words = stream("words")
    words.group_by("first").count().to_stream().to("counts", value_serde="long")

Functions are named (they are below, and in StreamsOracle.java); variables are streams, tables and groups. `parsed`
makes steps of the lines: {"id", "on": the step whose method is called, null for the builder, "call", "args", "kw"}.
Input is made from a seed: records out of order, late, of equal timestamps, without key or value, and the clock's
advances. What Kafka Streams made of a small one stands beside the cases, in files *.expected.
"""

from __future__ import annotations

import ast
import random
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kcli.streams import (
    BYTES,
    DOUBLE,
    INTEGER,
    LONG,
    STRING,
    EmitStrategy,
    JoinWindows,
    KeyValueStoreBuilder,
    Processor,
    PunctuationType,
    Record,
    Response,
    Serde,
    SessionStoreBuilder,
    SessionWindows,
    SlidingWindows,
    StreamsBuilder,
    StreamsError,
    Suppressed,
    TimeWindows,
    TopologyTestDriver,
    VersionedKeyValueStoreBuilder,
    Windowed,
    WindowStoreBuilder,
)
from kcli.streams.records import ValueAndTimestamp
from kcli.streams.topology.stores.join_buffer import JoinBufferBuilder
from kcli.streams.topology.stores.key_value import KeyValueStore
from kcli.streams.topology.stores.session import SessionStore
from kcli.streams.topology.stores.suppress_buffer import SuppressBufferBuilder
from kcli.streams.topology.stores.versioned import VersionedKeyValueStore
from kcli.streams.topology.stores.window import WindowStore
from kcli.streams.topology.timestamps import TimestampExtractor
from kcli.streams.windows import Window

CASES = Path(__file__).with_name("cases")
APPLICATION = "app"
SAMPLE = (3, 14)
"""Seed and length of the input whose answers are stored."""


def at_most_two(value: Any) -> str:
    """Return a text of at most two letters; other texts are an error."""
    if len(text(value)) > 2:
        raise ValueError(text(value))
    return text(value)


SHORT: Serde[str] = Serde("SHORT", lambda value: at_most_two(value).encode(), lambda data: at_most_two(data.decode()))
SERDES: dict[str, Any] = {
    "string": STRING,
    "long": LONG,
    "integer": INTEGER,
    "double": DOUBLE,
    "bytes": BYTES,
    "short": SHORT,
}
OWN_WORDS = ("__streams.errors.exception", "__streams.errors.message", "__streams.errors.stacktrace")
"""Headers of dead letters that differ from language to language."""
RENAMED = {"history": "history_retention_ms"}
HIDDEN_STORES = ("SUBSCRIPTION-STATE-STORE", "-subscription-store", "-shared-join", "OUTERSHARED")

Json = Any


class Case(NamedTuple):
    """A program. lines: its text."""

    name: str
    lines: list[str]

    @property
    def steps(self) -> list[Json]:
        return parsed(self.lines)

    @property
    def emits_on_close(self) -> bool:
        """Whether windows are sent when they are closed: there kcli.streams does as Kafka's RocksDB stores do, since
        its in-memory stores have lost many a window by then."""
        return any(step["call"] == "emit_on_close" for step in self.steps)


def cases(path: Path) -> Iterator[Case]:
    """Yield the cases of a file."""
    name, lines = "", list[str]()
    for line in [*path.read_text().splitlines(), "== end"]:
        if line.startswith("== "):
            if name:
                yield Case(name, lines)
            name, lines = line[3:], []
        elif name and line.strip() and not line.startswith("#"):
            lines.append(line)


def parsed(lines: list[str]) -> list[Json]:
    """Return the steps of a program."""
    steps: list[Json] = []
    variables: dict[str, int] = {}

    def value_of(node: ast.expr) -> Json:
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name) if name in variables:
                return {"step": variables[name]}
        return {"step": step_of(node)}

    def step_of(node: ast.expr) -> int:
        match node:
            case ast.Name(name):
                return variables[name]
            case ast.Subscript(value=on, slice=ast.Constant(name)):
                steps.append({"id": len(steps), "on": step_of(on), "call": "item", "args": [name], "kw": {}})
                return len(steps) - 1
            case ast.Call(func=function, args=args, keywords=keywords):
                of, call = (None, function.id) if isinstance(function, ast.Name) else _method(function, step_of)
                given = [value_of(each) for each in args]
                about = {str(each.arg): value_of(each.value) for each in keywords}
                steps.append({"id": len(steps), "on": of, "call": call, "args": given, "kw": about})
                return len(steps) - 1
        raise ValueError(ast.unparse(node))

    for statement in ast.parse("\n".join(lines)).body:
        match statement:
            case ast.Assign(targets=[ast.Name(name)], value=value):
                variables[name] = step_of(value)
            case ast.Expr(value):
                step_of(value)
            case _:
                raise ValueError(ast.unparse(statement))
    return steps


def _method(function: ast.expr, step_of: Callable[[ast.expr], int]) -> tuple[int, str]:
    assert isinstance(function, ast.Attribute)
    return step_of(function.value), function.attr


# input

LETTERS = "abcd"
KEYS = ["a", "b", "c", "d", "ab", "k"]
"""The keys that versioned stores may have, of the input's and of those that NEW_KEYS and NEW_PAIRS make."""
VALUES = {
    "string": lambda chance: "".join(chance.choices(LETTERS, k=chance.randint(0, 4))).encode(),
    "long": lambda chance: struct.pack(">q", chance.randint(-3, 6)),
    "integer": lambda chance: struct.pack(">i", chance.randint(-3, 6)),
    "double": lambda chance: struct.pack(">d", chance.randint(-3, 6) / 2),
    "short": lambda chance: "".join(chance.choices(LETTERS, k=chance.randint(0, 4))).encode(),
    "bytes": lambda chance: bytes(chance.choices(range(256), k=chance.randint(0, 4))),
}


def inputs(steps: list[Json], seed: int, count: int) -> list[Json]:
    """Return random records for all topics that the program reads, and advances of the clock."""
    chance = random.Random(seed)
    topics: list[tuple[str, str]] = []
    for step in steps:
        if step["call"] in ("stream", "table", "global_table"):
            serde = step["kw"].get("value_serde", "string")
            topics += [(topic, serde) for topic in step["args"]]
    found: list[Json] = []
    now = last = 0
    for _ in range(count):
        if chance.random() < 0.08:
            found.append({"wall": chance.randint(1, 1500)})
            continue
        topic, serde = chance.choice(topics)
        now += chance.choice([0, 1, 2, 3, 8, 25 if chance.random() < 0.5 else 5])
        kind = chance.random()
        timestamp = last if kind < 0.2 else max(0, now - chance.randint(0, 40)) if kind < 0.45 else now
        last = timestamp
        key = None if chance.random() < 0.07 else chance.choice(["a", "b", "c", "ab"])
        value = None if chance.random() < 0.12 else VALUES[serde](chance).decode("latin-1")
        headers = [["h", str(chance.randint(0, 9))]] if chance.random() < 0.3 else []
        found.append({"topic": topic, "key": key, "value": value, "timestamp": timestamp, "headers": headers})
    return found


def question(case: Case, seed: int, count: int) -> Json:
    """Return what the oracle is asked: the program and its input."""
    steps = case.steps
    return {"steps": steps, "inputs": inputs(steps, seed, count), "emit_interval_ms": 1000 * (seed % 2)}


# functions


def text(value: Any) -> str:
    """Return what Java's String.valueOf returns."""
    return "null" if value is None else str(value)


def first(value: Any) -> str | None:
    return None if value is None or str(value) == "" else str(value)[0]


def number(value: Any) -> bool:
    return isinstance(value, int | float)


TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "short": lambda _, value: value is not None and len(str(value)) <= 2,
    "key_a": lambda key, _: key == "a",
    "has_value": lambda _, value: value is not None,
    "has_key": lambda key, _: key is not None,
    "even": lambda _, value: number(value) and int(value) % 2 == 0,
    "small": lambda _, value: number(value) and int(value) <= 2,
    "none": lambda _, __: False,
}
VALUE_MAPPERS: dict[str, Callable[[Any], Any]] = {
    "upper": lambda value: None if value is None else str(value).upper(),
    "length": lambda value: None if value is None else len(str(value)),
    "double": lambda value: None if value is None else f"{value}{value}",
    "string": lambda value: None if value is None else str(value),
    "long_only": lambda value: None if value is None or len(str(value)) < 3 else value,
    "first": first,
    "fails": at_most_two,
    "negated": lambda value: -value if isinstance(value, int) else value,
}
NEW_KEYS: dict[str, Callable[[Any, Any], Any]] = {
    "first": lambda _, value: first(value),
    "value": lambda _, value: value,
    "key": lambda key, _: key,
    "plain": lambda key, _: key.key if isinstance(key, Windowed) else key,
    "constant": lambda _, __: "k",
    "start": lambda key, _: text(key),
}
NEW_PAIRS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "swap": lambda key, value: (value, key),
    "by_first": lambda _, value: (first(value), value),
    "by_value": lambda key, value: (None if value is None else str(value), key),
    "plain_sum": lambda key, value: (key.key, value),
    "constant": lambda _, value: ("k", value),
}
TWO: dict[str, Callable[[Any, Any], Any]] = {
    "pair": lambda one, other: f"{text(one)},{text(other)}",
    "concat": lambda one, other: f"{text(one)}+{text(other)}",
    "minus": lambda one, other: f"{text(one)}-{text(other)}",
    "max": lambda one, other: one if other is None or text(one) >= text(other) else other,
    "sum": lambda one, other: (one or 0) + (other or 0),
    "difference": lambda one, other: (one or 0) - (other or 0),
    "left": lambda one, _: one,
    "drop_long": lambda one, other: None if len(text(one) + text(other)) > 6 else text(one) + text(other),
}
INITIALS: dict[str, Callable[[], Any]] = {"empty": lambda: "", "zero": lambda: 0}
AGGREGATES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "append": lambda _, value, aggregate: f"{text(aggregate)}{text(value)}",
    "remove": lambda _, value, aggregate: f"{text(aggregate)}!{text(value)}",
    "lengths": lambda _, value, aggregate: aggregate + (0 if value is None else len(str(value))),
    "lengths_off": lambda _, value, aggregate: aggregate - (0 if value is None else len(str(value))),
    "add": lambda _, value, aggregate: aggregate + value,
    "null_at_3": lambda _, value, total: None if len(text(total)) >= 3 else text(total) + text(first(value)),
}


EXTRACTORS: dict[str, TimestampExtractor] = {
    "length": lambda record, _: -1 if record.value is None else 10 * len(record.value),
    "never_back": lambda record, partition_time_ms: max(record.timestamp, partition_time_ms),
}


def letters(value: Any) -> list[str]:
    return list("" if value is None else str(value))


class Named(Processor[Any, Any, Any, Any]):
    """A processor of the cases, by its name."""

    def __init__(self, name: str, stores: tuple[str, ...]) -> None:
        self.name, self.stores = name, stores

    def init(self, context: Any) -> None:
        super().init(context)
        if self.stores:
            self.store = context.get_state_store(self.stores[0])
        match self.name:
            case "tick":
                context.schedule(
                    10, PunctuationType.STREAM_TIME, lambda time: context.forward(Record("tick", str(time), time))
                )
            case "clock":
                context.schedule(700, PunctuationType.WALL_CLOCK_TIME, self.tell_clock)
            case "fails":
                context.schedule(40, PunctuationType.STREAM_TIME, self.fail)
            case "flush":
                context.schedule(15, PunctuationType.STREAM_TIME, self.flush)

    def tell_clock(self, time: int) -> None:
        self.context.forward(Record("clock", f"{time}/{self.context.current_stream_time_ms}", time))

    def fail(self, time: int) -> None:
        self.context.forward(Record("tick", str(time), time))
        raise RuntimeError("fails")

    def flush(self, time: int) -> None:
        for key, count in self.store.all():
            self.context.forward(Record(key, str(count), time))
            self.store.delete(key)

    def process(self, record: Record[Any, Any]) -> None:  # noqa: C901 (a case for each name)
        match self.name:
            case "count" | "flush":
                if record.key is not None:
                    self.store.put(record.key, (self.store.get(record.key) or 0) + 1)
                    if self.name == "count":
                        self.context.forward(record.with_value(f"{text(record.value)}#{self.store.get(record.key)}"))
            case "twice":
                self.context.forward(record)
                self.context.forward(record.with_key("again").with_timestamp(record.timestamp + 1))
            case "place":
                place = self.context.record_metadata
                assert place is not None
                told = f"{place.topic}/{place.partition}/{place.offset}@{self.context.current_stream_time_ms}"
                self.context.forward(record.with_value(told))
            case "versions":
                if record.key is not None:
                    valid_to = self.store.put(record.key, record.value, record.timestamp)
                    times = [record.timestamp + each for each in (-40, -8, -1, 0, 4)]
                    found = [self.store.get(record.key), *(self.store.get(record.key, each) for each in times)]
                    told = " ".join("-" if each is None else version(each) for each in found)
                    self.context.forward(record.with_value(f"{valid_to} {told}"))
            case "deletions":
                if record.key is not None:
                    self.store.put(record.key, record.value, max(0, record.timestamp - 5))
                    gone = self.store.delete(record.key, record.timestamp)
                    self.context.forward(record.with_value("-" if gone is None else version(gone)))
            case "windows":
                if record.key is not None:
                    self.store.put(record.key, record.value, record.timestamp)
                    near = self.store.fetch_range(record.key, record.timestamp - 20, record.timestamp + 5)
                    self.context.forward(record.with_value("".join(f"{start}:{value} " for start, value in near)))
            case "sessions":
                if record.key is not None:
                    session = Windowed(record.key, Window(record.timestamp, record.timestamp + 3))
                    self.store.put(session, record.value)
                    near = self.store.find_sessions(record.key, record.timestamp - 10, record.timestamp + 10)
                    self.context.forward(record.with_value("".join(f"{each}:{value} " for each, value in near)))
            case "fails":
                changed = record.with_value(at_most_two(record.value))
                self.context.forward(changed.with_timestamp(record.timestamp + 1))
                self.context.forward(record.with_key("again"))
            case "upper":
                self.context.forward(record.with_value(VALUE_MAPPERS["upper"](record.value)))
            case _:
                self.context.forward(record)


def version(record: Any) -> str:
    """Return the text of a version: its value and its timestamp. Its end is known to kcli.streams alone."""
    return f"{record.value}@{record.timestamp}"


class Interpreter:
    """Makes a topology of kcli.streams of a program's steps. seen: what peek and foreach have seen. config: the
    application's configuration."""

    def __init__(self) -> None:
        self.builder = StreamsBuilder(key_serde=STRING, value_serde=STRING)
        self.seen: list[str] = []
        self.made: list[Any] = []
        self.config: dict[str, Any] = {}

    def run(self, steps: list[Json]) -> None:
        for step in steps:
            on = self.builder if step["on"] is None else self.made[step["on"]]
            args = [self.made[each["step"]] if isinstance(each, dict) else each for each in step["args"]]
            about = {
                RENAMED.get(name, name): SERDES[value] if name.endswith("_serde") else value
                for name, value in step["kw"].items()
            }
            self.made.append(self.make(on, step["call"], args, about))

    def see(self, key: Any, value: Any) -> None:
        self.seen.append(f"{text(key)}={text(value)}")

    def make(self, on: Any, call: str, args: list[Any], about: dict[str, Any]) -> Any:
        match call:
            case "item":
                return on[args[0]]
            case "config":
                name, value = args
                self.config[name] = (lambda _context, _error: Response(resumes=True)) if value == "continue" else value
                return None
            case "stream" | "table" | "global_table":
                if (times := about.pop("times", None)) is not None:
                    about["timestamp_extractor"] = EXTRACTORS[times]
                return getattr(on, call)(*args, **about)
            case "key_value_store" | "versioned_store":
                new = KeyValueStoreBuilder if call == "key_value_store" else VersionedKeyValueStoreBuilder
                return on.add_state_store(new(name=args[0], **about))
            case "window_store":
                sizes = {"retention_ms": about.pop("retention"), "window_size_ms": about.pop("size")}
                duplicates = about.pop("duplicates", False)
                return on.add_state_store(
                    WindowStoreBuilder(name=args[0], retain_duplicates=duplicates, **sizes, **about)
                )
            case "session_store":
                return on.add_state_store(
                    SessionStoreBuilder(name=args[0], retention_ms=about.pop("retention"), **about)
                )
            case "process" | "process_values":
                name, *stores = args
                getattr_on = getattr(on, call)
                return getattr_on(lambda: Named(name, tuple(stores)), *stores, **about)
            case "windowed_by":
                return on.windowed_by(windows(about))
            case "emit_on_close":
                return on.emit_strategy(EmitStrategy.ON_WINDOW_CLOSE)
            case "suppress":
                return on.suppress(suppressed(about), name=about.get("name"))
            case "join" | "left_join" | "outer_join":
                return getattr(on, call)(args[0], TWO[args[1]], **joined(about))
        if "retention" in about:
            about["retention_ms"] = about.pop("retention")
        return getattr(on, call)(*self.functions(on, call, args), **about)

    def functions(self, on: Any, call: str, args: list[Any]) -> list[Any]:
        """Return a call's arguments with the functions that they name."""
        is_table = type(on).__name__ == "KTable"
        match call:
            case "filter" | "filter_not" | "branch":
                return [TESTS[args[0]]]
            case "map":
                return [NEW_PAIRS[args[0]]]
            case "map_values":
                return [VALUE_MAPPERS[args[0]]]
            case "flat_map":
                return [lambda _, value: [(each, value) for each in letters(value)]]
            case "flat_map_values":
                return [letters]
            case "select_key":
                return [NEW_KEYS[args[0]]]
            case "group_by":
                return [NEW_PAIRS[args[0]] if is_table else NEW_KEYS[args[0]]]
            case "peek" | "foreach":
                return [self.see]
            case "reduce":
                return [TWO[each] for each in args]
            case "cogroup":
                return [*args[:-1], AGGREGATES[args[-1]]]
            case "aggregate" if "Cogrouped" in type(on).__name__:
                return [INITIALS[args[0]], *(merger(TWO[each]) for each in args[1:])]
            case "aggregate":
                is_session = type(on).__name__ == "SessionWindowedKStream"
                more: list[Any] = [merger(TWO[each]) if is_session else AGGREGATES[each] for each in args[2:]]
                return [INITIALS[args[0]], AGGREGATES[args[1]], *more]
        return args


def merger(two: Callable[[Any, Any], Any]) -> Callable[[Any, Any, Any], Any]:
    return lambda _, one, other: two(one, other)


def windows(about: dict[str, Any]) -> Any:
    grace = about.get("grace", 0)
    if "difference" in about:
        return SlidingWindows(time_difference_ms=about["difference"], grace_ms=grace)
    if "gap" in about:
        return SessionWindows(inactivity_gap_ms=about["gap"], grace_ms=grace)
    return TimeWindows(size_ms=about["size"], advance_ms=about.get("advance", 0), grace_ms=grace)


def suppressed(about: dict[str, Any]) -> Suppressed:
    if "wait" not in about:
        return Suppressed.until_window_closes()
    bounds = {name: about[name] for name in ("records_max", "bytes_max") if name in about}
    return Suppressed.until_time_limit(about["wait"], emits_early=True, **bounds)


def joined(about: dict[str, Any]) -> dict[str, Any]:
    about = dict(about)
    for name, functions in (("key_selector", NEW_KEYS), ("foreign_key", VALUE_MAPPERS)):
        if name in about:
            about[name] = functions[about[name]]
    if "grace" in about and "within" not in about:
        about["grace_ms"] = about.pop("grace")
    if (within := about.pop("within", None)) is not None:
        spans = {"before_ms": about.pop("before", within), "after_ms": about.pop("after", within)}
        about["windows"] = JoinWindows(**spans, grace_ms=about.pop("grace", 0))
    return about


# answers


def answer(asked: Json) -> Json:
    """Return what kcli.streams makes of a program and its input, as the oracle says it."""
    interpreter = Interpreter()
    try:
        interpreter.run(asked["steps"])
        topology = interpreter.builder.build()
        described = topology.describe()
        with TopologyTestDriver(
            topology,
            application_id=APPLICATION,
            emit_interval_ms=asked["emit_interval_ms"],
            config=interpreter.config,
        ) as driver:
            for each in asked["inputs"]:
                if "wall" in each:
                    driver.advance_wall_clock_time(each["wall"])
                    continue
                headers = tuple((name, raw(value)) for name, value in each["headers"])
                driver.pipe(each["topic"], raw(each["key"]), raw(each["value"]), each["timestamp"], headers)
            outputs = {
                topic: [
                    [
                        latin(one.key),
                        latin(one.value),
                        one.timestamp,
                        [[name, "*" if name in OWN_WORDS else latin(value)] for name, value in one.headers],
                    ]
                    for one in driver.outputs(topic)
                ]
                for topic in sorted(driver.produced_topic_names())
            }
            stores = driver.get_all_state_stores()
    except StreamsError as error:
        return {"error": str(error)}
    times = sorted({each["timestamp"] for each in asked["inputs"] if "timestamp" in each})
    shown = {name: rows(store, times) for name, store in sorted(stores.items()) if is_shown(name, store)}
    return {"describe": described, "outputs": outputs, "stores": shown, "seen": interpreter.seen}


def is_shown(name: str, store: Any) -> bool:
    shown = isinstance(store, KeyValueStore | VersionedKeyValueStore | WindowStore | SessionStore)
    return shown and not any(each in name for each in HIDDEN_STORES)


def rows(store: Any, times: list[int]) -> list[Json]:
    """Return what a store has; a versioned one as of each of these times, and last."""
    if isinstance(store, VersionedKeyValueStore):
        asked = [(key, time) for key in KEYS for time in [*times, None]]
        versions = [(f"{key}@{'last' if time is None else time}", store.get(key, time)) for key, time in asked]
        return [[key, version(found)] for key, found in versions if found is not None]
    found = []
    for key, value in store.all():
        timed = isinstance(value, ValueAndTimestamp)
        found.append([show(key), show(value.value), value.timestamp] if timed else [show(key), show(value)])
    return found


def show(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else text(value)


def raw(value: str | None) -> bytes | None:
    return None if value is None else value.encode("latin-1")


def latin(data: bytes | None) -> str | None:
    return None if data is None else data.decode("latin-1")


def buffer_changelogs(steps: list[Json]) -> set[str]:
    """Return the changelog topics of the program's buffers, of suppress and of joins with a grace period."""
    interpreter = Interpreter()
    interpreter.run(steps)
    stores = interpreter.builder.build().stores.values()
    buffers = SuppressBufferBuilder | JoinBufferBuilder
    return {f"{APPLICATION}-{store.name}-changelog" for store in stores if isinstance(store, buffers)}


# the text of an answer


def rendered(case: Case, made: Json) -> str:
    """Return the text of an answer without changelogs: the topology, the records of each topic, the stores."""
    lines = [f"== {case.name}", *made["describe"].rstrip().split("\n")]
    for topic, records in made["outputs"].items():
        if not topic.endswith("-changelog"):
            lines += [
                f"{topic}: {escaped(key)}={escaped(value)} @{time}{told(headers)}"
                for key, value, time, headers in records
            ]
    for name, rows_found in made["stores"].items():
        found = sorted(rows_found) if case.emits_on_close else rows_found
        lines += [
            f"[{name}] {escaped(row[0])}={escaped(row[1])} {' '.join(map(str, row[2:]))}".rstrip() for row in found
        ]
    return "\n".join([*lines, *(f"seen {each}" for each in made["seen"]), "", ""])


def told(headers: list[list[str]]) -> str:
    return "".join(f" {name}:{value}" for name, value in headers)


def escaped(value: str | None) -> str:
    return "null" if value is None else value.encode("unicode_escape").decode()
