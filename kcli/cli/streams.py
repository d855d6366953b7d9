"""kcli streams: run a program of streams and tables, describe and reset it, and look at its stores."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcli.cli.client_options import ClusterOptions, Output, SourceOptions, with_options
from kcli.cli.error_report import ErrorReport
from kcli.cli.options import Format, not_empty, pairs, time_ms, utf8_path
from kcli.cli.output import aligned, count_text, json_line, note, write_text
from kcli.cli.registry_options import SchemasOptions
from kcli.cli.reset_options import ByDuration, ShiftBy, ToDatetime, ToOffset
from kcli.cli.spark_options import GOES_ON, SPARK, Debug, Master, SparkConf, tell_failure
from kcli.errors import KcliError, UsageError, needing
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.schema_client.reading import PayloadReader
    from kcli.streams.local.changelog import Logged, StoreKey

SERDES = ("bytes", "string", "integer", "long", "double", "json")
GUARANTEES = ("exactly_once_v2", "at_least_once")
RUNNERS = ("local", "spark")
WINDOWS = ("none", "time", "session")

EPILOG = """
Examples:

kcli streams run word_count.py --application-id word-count

kcli streams run word_count.py --application-id word-count --runner spark --checkpoint word-count.checkpoint

kcli streams describe word_count.py

kcli streams store word-count counts --value-serde long --key be

kcli streams store word-count counts --key be --explain word_count.py

kcli streams lag word_count.py --application-id word-count

kcli streams reset word-count --input-topic lines --execute
"""

app = typer.Typer(
    help="Run a program of streams and tables, describe and reset it, and look at its stores.",
    epilog=EPILOG,
    no_args_is_help=True,
)

Program = Annotated[
    Path, typer.Argument(metavar="FILE.py", show_default=False, help="The program.", callback=utf8_path)
]
Application = Annotated[
    str, typer.Argument(metavar="APPLICATION", show_default=False, help="The application's id.", callback=not_empty)
]


@dataclass
class SparkOptions:
    """The options of a run on Spark."""

    checkpoint: Annotated[
        str | None,
        typer.Option(metavar="DIR", rich_help_panel=SPARK, help="How far the query is; the same at each start."),
    ] = None
    master: Master = "local[*]"
    spark_conf: SparkConf = None
    debug: Debug = False


@app.command("run")
@with_options
def run(  # noqa: PLR0913 (one parameter an option)
    program: Program,
    application_id: Annotated[
        str, typer.Option("--application-id", metavar="ID", help="The application's id.", callback=not_empty)
    ],
    instance_id: Annotated[
        str | None,
        typer.Option("--instance-id", metavar="ID", help="Names this process's transactions; the same at each start."),
    ] = None,
    guarantee: Annotated[
        str, typer.Option("--processing-guarantee", metavar="WHICH", help="exactly_once_v2 or at_least_once.")
    ] = GUARANTEES[0],
    commit_interval: Annotated[
        int | None,
        typer.Option(
            "--commit-interval-ms", min=1, metavar="MS", help="How often to commit: 100, with at_least_once 30,000."
        ),
    ] = None,
    configs: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="NAME=VALUE", help="A configuration of Kafka Streams, such as a handler."),
    ] = None,
    runner: Annotated[
        str, typer.Option("--runner", metavar="WHICH", help="local, or spark: Spark's workers run the tasks.")
    ] = RUNNERS[0],
    *,
    on_spark: SparkOptions,
    options: ClusterOptions,
) -> None:
    """Run a program as a member of its application's group, or on Spark, until interrupted."""
    _one_of(guarantee, GUARANTEES, "--processing-guarantee")
    _one_of(runner, RUNNERS, "--runner")
    config = pairs(configs, "--config")
    if runner == "spark":
        at_least_once = guarantee if guarantee != GUARANTEES[0] else None
        _refuse_given("local", {"--instance-id": instance_id, "--processing-guarantee": at_least_once})
        _run_on_spark(program, application_id, commit_interval, config, on_spark, options)
        return
    _refuse_given("spark", {"--checkpoint": on_spark.checkpoint})
    from kcli.streams.local import KafkaStreams
    from kcli.streams.local.program import load

    connection = options.connection()
    streams = KafkaStreams(
        load(program),
        application_id=application_id,
        bootstrap_servers=connection.bootstrap,
        instance_id=instance_id,
        processing_guarantee=guarantee,
        commit_interval_ms=commit_interval,
        config=config,
        client_config=connection.properties,
    )
    _close_at_signals(streams.close)
    streams.run()


def _run_on_spark(
    program: Path,
    application_id: str,
    commit_interval_ms: int | None,
    config: Mapping[str, str],
    on_spark: SparkOptions,
    options: ClusterOptions,
) -> None:
    if on_spark.checkpoint is None:
        raise UsageError("--runner spark needs --checkpoint, a directory")
    with needing("spark"):
        from kcli.export.session import SparkFailed, SparkSettings, spark_session
        from kcli.streams.spark import SparkStreams
        from kcli.streams.spark.spark_streams import COMMIT_INTERVAL_MS
    from kcli.streams.local.program import load

    connection = options.connection()
    streams = SparkStreams(
        load(program),
        application_id=application_id,
        bootstrap_servers=connection.bootstrap,
        checkpoint=on_spark.checkpoint,
        commit_interval_ms=commit_interval_ms or COMMIT_INTERVAL_MS,
        config=config,
        client_config=connection.properties,
    )
    streams.check()
    try:
        with spark_session(SparkSettings(on_spark.master, pairs(on_spark.spark_conf, "--spark-conf"))) as spark:
            _close_at_signals(streams.close)
            streams.run(spark)
    except SparkFailed as error:
        tell_failure(error, GOES_ON, debug=on_spark.debug)
        raise


def _close_at_signals(close: Callable[[], None]) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: close())


def _refuse_given(runner: str, options: Mapping[str, object]) -> None:
    """Raise UsageError for the options that are given, as only this runner has them."""
    if given := [option for option, value in options.items() if value is not None]:
        raise UsageError(f"{', '.join(given)}: only with --runner {runner}")


@app.command("describe")
def describe(program: Program) -> None:
    """Show the topology of a program, as Kafka Streams prints it."""
    from kcli.streams.local.program import load

    write_text(load(program).describe())


@app.command("lag")
@with_options
def lag(
    program: Program,
    application_id: Annotated[
        str, typer.Option("--application-id", metavar="ID", help="The application's id.", callback=not_empty)
    ],
    output: Output = Format.TABLE,
    *,
    options: ClusterOptions,
) -> None:
    """Show how far each task is: what it has committed of each partition that it reads, and the end of that."""
    from kcli.streams.local.lag import lags
    from kcli.streams.local.program import load

    rows = [
        {
            "task": str(each.task),
            "topic": each.place.topic,
            "partition": each.place.partition,
            "committed": each.committed,
            "end": each.end,
            "lag": each.lag,
            "member": each.member,
        }
        for each in lags(options.connection(), load(program), application_id)
    ]
    _write_rows(rows, output)


@app.command("store")
@with_options
def store(  # noqa: PLR0913, PLR0917 (one parameter an option)
    application: Application,
    name: Annotated[
        str, typer.Argument(metavar="STORE", show_default=False, help="The store's name.", callback=not_empty)
    ],
    key: Annotated[str | None, typer.Option("--key", metavar="KEY", help="Only this key.")] = None,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="As of this time, by the timestamps of records: as for --from-time."),
    ] = None,
    key_serde: Annotated[
        str, typer.Option("--key-serde", metavar="SERDE", help=f"Of the keys: {', '.join(SERDES)}.")
    ] = "string",
    value_serde: Annotated[
        str, typer.Option("--value-serde", metavar="SERDE", help="The same, of the values.")
    ] = "string",
    windows: Annotated[
        str, typer.Option("--windows", metavar="KIND", help="What keys have: none, time or session windows.")
    ] = "none",
    explain: Annotated[
        Path | None,
        typer.Option(
            "--explain", metavar="FILE.py", help="Show the input records that made the value of --key, by the program."
        ),
    ] = None,
    versioned: Annotated[
        bool,
        typer.Option("--versioned", help="The store is versioned: the latest timestamp is the last."),
    ] = False,
    *,
    options: SourceOptions,
    schemas: SchemasOptions,
) -> None:
    """Show what a store has, by its changelog alone: of a cluster or, with --data-dir, in log directories."""
    if explain is not None:
        if key is None:
            raise UsageError("--explain needs --key")
        if options.data_dirs or at is not None:
            raise UsageError("--explain asks a cluster for what is there now: without --data-dir and --at")
        _explain(explain, application, name, key, options)
        return
    _one_of(windows, WINDOWS, "--windows")
    serdes = _serde(key_serde, "--key-serde"), _serde(value_serde, "--value-serde")
    reader = schemas.reader()
    from kcli.streams.local.changelog import Windows, of_cluster, of_directories, rows_of
    from kcli.streams.topology.topology import changelog_topic

    topic, trouble = changelog_topic(application, name), list[str | KcliError]()
    until_ms = None if at is None else time_ms(at, "--at")
    rows = (
        of_directories(options.data_dirs, topic, trouble.append, until_ms, is_versioned=versioned)
        if options.data_dirs
        else of_cluster(options.connection(), topic, until_ms, is_versioned=versioned)
    )
    entries = [_entry(store_key, row, serdes, reader) for store_key, row in rows_of(rows, Windows(windows))]
    shown = [entry for entry in entries if key is None or str(entry["key"]) == key]
    _write_rows(shown, options.output)
    raise typer.Exit(ErrorReport().status_with(trouble))


def _explain(program: Path, application: str, name: str, key: str, options: SourceOptions) -> None:
    from kcli.streams.local.changelog import key_reader
    from kcli.streams.local.explain import WINDOWS, explain, store_of
    from kcli.streams.local.program import load

    topology = load(program)
    builder = store_of(topology, name)
    read_key, sources = key_reader(WINDOWS[type(builder)]), topology.sources()
    keys, values = builder.key_serde, builder.value_serde

    def shown_key(data: bytes) -> Any:
        return _shown(_readable(read_key(data).key, keys))

    found = explain(options.connection(), topology, application, name, lambda data: str(shown_key(data)) == key)
    rows = []
    for record, (_, data), value, _ in found.causes:
        source, store_key = sources[record.topic], read_key(data)
        windows = {"start": store_key.start, "end": store_key.end}
        rows.append(
            {
                **{each: time for each, time in windows.items() if time is not None},
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp,
                "key": _shown(_readable(record.key, source.key_serde)),
                "value": _shown(_readable(record.value, source.value_serde)),
                "result": _shown(_readable(value, values)),
            }
        )
    _write_rows(rows, options.output)
    for place, start in sorted(found.lost.items()):
        note(f"kcli: {place.topic}, partition {place.partition} begins at offset {start:,}: earlier records are gone")
    for partition, data in found.differing:
        shown = printable(str(shown_key(data)))
        note(f"kcli: partition {partition}, key {shown}: the changelog has another value than these records make")


@app.command("reset")
@with_options
def reset(  # noqa: PLR0913, PLR0917 (one parameter an option)
    application: Application,
    input_topics: Annotated[
        list[str] | None,
        typer.Option("--input-topic", metavar="TOPIC", help="A topic that the program reads, from outside."),
    ] = None,
    to_earliest: Annotated[
        bool, typer.Option("--to-earliest", help="Input topics: to the first offset, the default.")
    ] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="Behind the last.")] = False,
    to_offset: ToOffset = None,
    shift_by: ShiftBy = None,
    to_datetime: ToDatetime = None,
    by_duration: ByDuration = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it; else it is only shown.")] = False,
    *,
    options: ClusterOptions,
) -> None:
    """Set the offsets of an application's input topics and delete its internal topics; without --execute show it."""
    from kcli.cli.groups import method_of
    from kcli.streams.local.reset import execute as do
    from kcli.streams.local.reset import planned

    methods: dict[str, Any] = {
        "--to-earliest": to_earliest or None,
        "--to-latest": to_latest or None,
        "--to-offset": to_offset,
        "--shift-by": shift_by,
        "--to-datetime": to_datetime,
        "--by-duration": by_duration,
    }
    given = {option: value for option, value in methods.items() if value is not None} or {"--to-earliest": True}
    if len(given) != 1:
        raise UsageError(f"give one of {', '.join(methods)}")
    connection, method = options.connection(), method_of(*given.popitem(), [application])
    plan = planned(connection, application, method, input_topics or [], lambda line: note(f"kcli: {line}"))
    rows = [(f"{topic}-{number}", f"offset {offset:,}") for (topic, number), offset in sorted(plan.offsets.items())]
    rows += [(f"{topic}-{number}", "offset deleted") for topic, number in plan.gone]
    rows += [(topic, "topic deleted") for topic in plan.topics]
    write_text(aligned([("WHAT", "RESULT"), *((printable(what), result) for what, result in rows)]) if rows else "")
    report = ErrorReport()
    if execute:
        for error in do(connection, plan):
            report.add(error)
    elif rows:
        note(f"kcli: {count_text(len(rows), 'change')} shown, none made: --execute makes them")
    raise typer.Exit(report.exit_status)


def _write_rows(rows: list[dict[str, Any]], output: Format) -> None:
    if output is Format.JSONL:
        write_text("".join(map(json_line, rows)))
        return
    heads = list(dict.fromkeys(head for row in rows for head in row))
    table = [tuple("-" if row[head] is None else _text(row[head]) for head in heads) for row in rows]
    write_text(aligned([tuple(head.upper() for head in heads), *table]) if rows else "")


def _one_of(value: str, known: tuple[str, ...], option: str) -> None:
    if value not in known:
        raise UsageError(f"{option} {value!r} is none of {', '.join(known)}")


def _serde(name: str, option: str) -> Any:
    _one_of(name, SERDES, option)
    from kcli.streams import serdes

    return getattr(serdes, name.upper())


def _entry(key: StoreKey, row: Logged, serdes: tuple[Any, Any], reader: PayloadReader | None) -> dict[str, Any]:
    """Return what is shown of a row. reader: decodes what begins with a schema's id."""
    windows = {"start": key.start, "end": key.end}
    shown = {
        name: _shown(_decoded(data, serde, reader))
        for name, serde, data in zip(("key", "value"), serdes, (key.key, row.value), strict=True)
    }
    return {
        "partition": row.partition,
        "offset": row.offset,
        "timestamp": row.timestamp,
        "key": shown["key"],
        **{name: time for name, time in windows.items() if time is not None},
        "value": shown["value"],
    }


def _readable(data: bytes | None, serde: Any) -> Any:
    """Return the value of these bytes, or the bytes if the serde does not take them."""
    from kcli.streams.errors import SerializationError

    try:
        return serde.from_bytes(data)
    except SerializationError:
        return data


def _decoded(data: bytes, serde: Any, reader: PayloadReader | None) -> Any:
    found = None if reader is None else reader.read(data)
    return serde.from_bytes(data) if found is None or found.text is None else json.loads(found.text)


def _shown(value: Any) -> Any:
    return value.decode(errors="backslashreplace") if isinstance(value, bytes) else value


def _text(value: Any) -> str:
    return printable(value if isinstance(value, str) else str(value))
