"""kcli connect: run a worker of Kafka Connect, look at its connectors, and check a configuration."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from kcli.cli.client_options import ClusterOptions, Output, with_options
from kcli.cli.options import Format, not_empty, pairs, time_text, utf8_path
from kcli.cli.output import aligned, count_text, json_line, write_text
from kcli.cli.serve import LogFormat
from kcli.cli.spark_options import SparkConf
from kcli.errors import KcliError, UnreadableInput, UsageError, needing
from kcli.printable import printable

if TYPE_CHECKING:
    from kcli.connect.plugins import Plugins
    from kcli.connect.worker.server import WorkerServer
    from kcli.connect.worker.settings import Settings
    from kcli.connect.worker.validation import ConfigInfos

URL_VARIABLE = "KCLI_CONNECT_URL"
DEFAULT_URL = "http://127.0.0.1:8083"
STATUS_TOPIC = "connect-status"

EPILOG = """
Examples:

kcli connect run worker.properties lines.properties       a standalone worker with one connector

kcli connect run connect-distributed.properties           a member of the group that group.id names

kcli connect run worker.properties lines.json --dry-run

kcli connect status

kcli connect status lines

kcli connect logs lines --topic connect-status

kcli connect validate lines.json
"""

app = typer.Typer(
    help="Run a worker of Kafka Connect, look at its connectors, and check a configuration.",
    epilog=EPILOG,
    no_args_is_help=True,
)

Url = Annotated[
    str, typer.Option("--url", envvar=URL_VARIABLE, metavar="URL", help=f"A worker's REST API. [{DEFAULT_URL}]")
]


class InvalidConnector(KcliError):
    """A connector's configuration is invalid."""


@app.command("run")
def run(
    worker: Annotated[
        Path,
        typer.Argument(
            metavar="WORKER.properties", show_default=False, help="The worker's configuration.", callback=utf8_path
        ),
    ],
    connectors: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="CONNECTOR...", show_default=False, help="Connectors of a standalone worker: properties or JSON."
        ),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", metavar="NAME=VALUE", help="A configuration; may be repeated.")
    ] = None,
    master: Annotated[str, typer.Option(metavar="URL", help="Spark's master.")] = "local[*]",
    spark_conf: SparkConf = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the configurations, say what would run, and start nothing.")
    ] = False,
    log_format: Annotated[LogFormat, typer.Option(help="How log lines on stderr look.")] = LogFormat.TEXT,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log more.")] = False,
) -> None:
    """Run a worker: standalone, or distributed if its configuration has a group.id.

    Prints one line on stdout when it serves; logs go to stderr. SIGTERM or SIGINT ends it in order, a second one at
    once. Connectors in files are created when the worker starts, or get the configuration of the file.
    """
    from kcli.broker.process.log_lines import set_up_logging

    settings = _settings(worker, pairs(option, "-o"))
    if connectors and settings.group_id is not None:
        raise UsageError(
            "a distributed worker takes its connectors by the REST API: `kcli connect validate` checks one"
        )
    found = [_connector(each) for each in connectors or ()]
    _refuse_repeated(found)
    if not dry_run:
        set_up_logging(json_lines=log_format is LogFormat.JSON, verbose=verbose)
        logging.getLogger("py4j").setLevel(logging.WARNING)
    plugins = _plugins(settings)
    if dry_run:
        _show_plan(settings, plugins, found)
        return
    with needing("spark"):
        from kcli.connect.engine.spark_engine import SparkEngine
        from kcli.export.session import SparkSettings
    with needing("registry"):
        from kcli.connect.worker.server import serve

    engine = SparkEngine(plugins, SparkSettings(master, pairs(spark_conf, "--spark-conf")))
    serve(settings, plugins, engine, found, _ready)


def _ready(server: WorkerServer) -> None:
    mode = "standalone" if server.settings.group_id is None else f"of group {server.settings.group_id}"
    write_text(f"a worker {mode} serves {server.url}\n")


def _settings(worker: Path, options: Mapping[str, str]) -> Settings:
    """Return a worker's configuration, with the values of config providers. Raises KcliError."""
    from kcli.connect.worker.settings import read_settings
    from kcli.log.config import InvalidConfig
    from kcli.log.config_providers import resolve
    from kcli.log.log_directory import read_properties

    try:
        properties = resolve({**read_properties(worker), **options}).properties
    except InvalidConfig as error:
        raise UsageError(f"{worker}: {error}") from None
    return read_settings(properties, str(worker))


def _connector(path: Path) -> dict[str, str]:
    """Return a connector's configuration: properties, or JSON as a worker's REST API takes it, with or without name
    and config around it. Raises UnreadableInput."""
    from kcli.log.log_directory import read_properties
    from kcli.service.json_text import BadJson, loads

    if path.suffix != ".json":
        return dict(read_properties(path))
    try:
        found = loads(path.read_bytes(), numbers_as_text=True)
    except OSError as error:
        raise UnreadableInput.of(path, error) from None
    except BadJson as error:
        raise UnreadableInput(str(path), f"no JSON: {error}") from None
    inner = found.get("config", found) if isinstance(found, dict) else None
    if not isinstance(inner, dict) or any(isinstance(each, dict | list) for each in inner.values()):
        raise UnreadableInput(str(path), "no JSON object of texts, or of name and config")
    texts = {str(key): each if isinstance(each, str) else json.dumps(each) for key, each in inner.items()}
    name = found.get("name") if isinstance(found, dict) else None
    if name is None or inner is found:
        return texts
    if texts.get("name", str(name)) != str(name):
        raise UnreadableInput(str(path), f"the name {name} is another than {texts['name']}, that of its config")
    return {"name": str(name), **texts}


def _refuse_repeated(connectors: Iterable[Mapping[str, str]]) -> None:
    """Raise UsageError for the second connector of a name, which would take the place of the first one."""
    seen: set[str] = set()
    for name in (each["name"] for each in connectors if "name" in each):
        if name in seen:
            raise UsageError(f"two files have a connector {name}")
        seen.add(name)


def _plugins(settings: Settings | None) -> Plugins:
    """Return kcli's plug-ins, and the connectors of a worker's plugin.path."""
    from kcli.connect.builtin import built_in
    from kcli.connect.plugin_path import OPTION, plugins_of

    return built_in(plugins_of("" if settings is None else settings.properties.get(OPTION, "")))


def _infos(plugins: Plugins, settings: Settings | None, connector: Mapping[str, str]) -> ConfigInfos:
    from kcli.connect.worker.settings import Clients
    from kcli.connect.worker.validation import Defaults, validate
    from kcli.connect.worker.variables import Variables

    variables = Variables({} if settings is None else settings.properties)
    defaults = Defaults() if settings is None else Clients(settings).defaults
    if settings is None:
        return validate(plugins, connector, defaults).without_providers(connector)
    resolved = variables(connector)
    return validate(plugins, resolved, defaults).hidden(variables.hide, connector, resolved)


def _show_plan(settings: Settings, plugins: Plugins, connectors: list[dict[str, str]]) -> None:
    """Write what a worker would run. Raises InvalidConnector."""
    values = settings.values
    where = f"{settings.scheme}://{settings.host or '*'}:{settings.port}"
    servers = ",".join(values["bootstrap.servers"])
    if settings.group_id is None:
        lines = [f"a standalone worker at {where}, with the brokers {servers}", f"offsets: {settings.offsets_file}"]
    else:
        topics = ", ".join(str(values[f"{kind}.storage.topic"]) for kind in ("config", "offset", "status"))
        lines = [
            f"a worker of group {settings.group_id} at {where}, with the brokers {servers}",
            f"topics: {topics}; those that do not exist are created, compacted",
        ]
    wrong = 0
    for each in connectors:
        infos = _infos(plugins, settings, each)
        wrong += infos.error_count
        lines.append(f"{each.get('name', '')}: {each.get('connector.class', '')}: {_verdict(infos)}")
        lines += [f"  {error}" for error in _errors(infos)]
    write_text("".join(f"{printable(line)}\n" for line in [*lines, "nothing was started"]))
    if wrong:
        raise InvalidConnector(f"{count_text(wrong, 'error')} in the configurations of connectors")


def _verdict(infos: ConfigInfos) -> str:
    return count_text(infos.error_count, "error") if infos.error_count else "valid"


def _errors(infos: ConfigInfos) -> Iterator[str]:
    for _, value in infos.configs:
        if value is not None:
            yield from (f"{value.name}: {error}" for error in value.errors)


@app.command("validate")
def validate_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="CONNECTOR", show_default=False, help="A connector: properties or JSON.", callback=utf8_path
        ),
    ],
    worker: Annotated[
        Path | None,
        typer.Option(
            "--worker",
            metavar="FILE",
            help="The worker's properties: converters, config providers, plugin.path.",
            callback=utf8_path,
        ),
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", metavar="URL", help="Have a worker check it, in place of kcli itself.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Say all that is wrong with a connector's configuration; without --url no worker is needed."""
    if worker is not None and url is not None:
        raise UsageError("--worker says with what kcli checks, --url has a worker check: give one of them")
    connector = _connector(file)
    if url is None:
        settings = None if worker is None else _settings(worker, {})
        found = _infos(_plugins(settings), settings, connector).to_json()
    else:
        from kcli.connect.rest_client import ask

        plugin = quote(connector.get("connector.class", "none"), safe="")
        found = ask(url, "PUT", f"/connector-plugins/{plugin}/config/validate", connector)
    rows = [
        {"option": each["value"]["name"], "value": each["value"]["value"], "error": error}
        for each in found["configs"]
        if each["value"] is not None
        for error in each["value"]["errors"]
    ]
    if output is Format.JSONL:
        write_text("".join(json_line(row) for row in rows))
    else:
        write_text("".join(f"{printable(row['option'])}: {printable(row['error'])}\n" for row in rows) or "valid\n")
    if rows:
        raise InvalidConnector(f"{file}: {count_text(found['error_count'], 'error')}")


@app.command("status")
def status(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="CONNECTOR...", show_default=False, help="Only these, with the errors of their tasks."),
    ] = None,
    url: Url = DEFAULT_URL,
    output: Output = Format.TABLE,
) -> None:
    """Show connectors and their tasks, as a worker knows them."""
    from kcli.connect.rest_client import ask

    found: dict[str, Any] = ask(url, "GET", "/connectors?expand=status&expand=info")
    missing = [each for each in names or () if each not in found]
    if missing:
        raise KcliError(f"{url} has no connector {', '.join(map(printable, missing))}")
    shown = [found[name]["status"] for name in (names or sorted(found)) if "status" in found[name]]
    if output is Format.JSONL:
        write_text("".join(json_line(each) for each in shown))
        return
    rows = [("connector", "type", "state", "tasks", "worker")] if shown else []
    rows += [
        (each["name"], each["type"], each["connector"]["state"], _tasks_text(each), each["connector"]["worker_id"])
        for each in shown
    ]
    write_text(aligned(rows))
    for each in shown if names else ():
        states = [
            (each["name"], each["connector"]),
            *((f"{each['name']}-{task['id']}", task) for task in each["tasks"]),
        ]
        for what, state in states:
            if state.get("trace"):
                write_text(f"{printable(what)}: {printable(state['trace'].splitlines()[0])}\n")


def _tasks_text(found: Mapping[str, Any]) -> str:
    states = [task["state"].lower() for task in found["tasks"]]
    return ", ".join(f"{states.count(each)} {each}" for each in dict.fromkeys(states)) or "none"


@app.command("logs")
@with_options
def logs(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="CONNECTOR...", show_default=False, help="Only these.", callback=not_empty),
    ] = None,
    topic: Annotated[str, typer.Option("--topic", metavar="TOPIC", help="The workers' status.storage.topic.")] = (
        STATUS_TOPIC
    ),
    output: Output = Format.TABLE,
    *,
    options: ClusterOptions,
) -> None:
    """Tell what happened to connectors and tasks, and with which errors, from the workers' topic of statuses.

    Kafka compacts the topic: of what is long ago only the last state of each is left.
    """
    from kcli.connect.history import history

    for each in history(options.connection(), topic, frozenset(names or ())):
        if output is Format.JSONL:
            write_text(json_line(each._asdict()))
            continue
        trace = f": {each.trace.splitlines()[0]}" if each.trace else ""
        line = f"{time_text(each.time_ms)}  {each.what}  {each.state}  {each.worker_id}{trace}"
        write_text(f"{printable(line)}\n")
