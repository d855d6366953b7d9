"""`kcli serve`: a Kafka 4.3 node in this process."""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.options import pairs
from kcli.cli.output import write_text
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.broker.node import Node

EPILOG = """
Examples:

    kcli serve                                     on 127.0.0.1:9092, with a temporary directory

    kcli serve --data-dir data --listen 0.0.0.0:9092 --advertise kafka.test:9092

    kcli serve --listen 127.0.0.1:0 -o num.partitions=3 -o auto.create.topics.enable=false

    kcli serve --config server.properties          Kafka's own file

    kcli serve --read-only --data-dir /backup/kafka  any log directory, also a damaged one or one in use
"""


class LogFormat(StrEnum):
    """How log lines look."""

    TEXT = "text"
    JSON = "json"


def serve(
    data_dir: Annotated[
        Path | None, typer.Option(help="Log directory, formatted if it is new. Default: a temporary one.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Address for clients; port 0: any free one. [127.0.0.1:9092]"),
    ] = None,
    advertise: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Address that clients are told, if it is another one.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", exists=True, dir_okay=False, help="Kafka's server.properties.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", metavar="NAME=VALUE", help="A broker configuration; may be repeated.")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Serve what is there and change not a byte; writes are refused.")
    ] = False,
    log_format: Annotated[LogFormat, typer.Option(help="How log lines on stderr look.")] = LogFormat.TEXT,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log more.")] = False,
) -> None:
    """Run a Kafka 4.3 node: broker and controller in one process, no JVM.

    Prints one line on stdout when it is ready; logs go to stderr. SIGTERM or SIGINT ends it in order, a second one at
    once. Real Kafka can go on with the data directory, and this node with one of Kafka's.

    With --read-only the directory may be any that has partitions in it, or one partition's own: crashed, damaged,
    without metadata, or of a running Kafka. Every sound record is served, those behind damage too. No file is made or
    changed.
    """
    from kcli.broker.serve import serve as run
    from kcli.broker.single_node import single_node_config
    from kcli.log.log_directory import read_properties

    _set_up_logging(log_format, verbose=verbose)
    file = None if config is None else read_properties(config)
    options = pairs(option, "-o")
    where = None if listen is None else _address(listen, "--listen")
    told = None if advertise is None else _address(advertise, "--advertise")
    has_directory = data_dir is not None or "log.dirs" in options or (file is not None and _names_directory(file))
    if read_only:
        if not has_directory:
            raise UsageError("--read-only serves what is there: give --data-dir, or log.dirs")
        if file is None and data_dir is not None and "node.id" not in options:
            from kcli.broker.read_only.node import known_node_id

            options["node.id"] = str(known_node_id([data_dir]))
        run(single_node_config(data_dir, where, told, file, options), _ready, read_only=True)
        return
    if has_directory:
        run(single_node_config(data_dir, where, told, file, options), _ready)
        return
    with tempfile.TemporaryDirectory(prefix="kcli-") as temporary:
        run(single_node_config(Path(temporary), where, told, file, options), _ready)


def _names_directory(file: Mapping[str, str]) -> bool:
    return "log.dirs" in file or "log.dir" in file


def _ready(node: Node) -> None:
    host, port = next(iter(node.addresses.values()))
    broker = node.broker
    write_text(
        f"kcli ready {host}:{port}  node {broker.node_id}  cluster {broker.cluster_id}"
        f"  data {','.join(node.config.log_dirs)}  (Kafka 4.3 protocol)\n"
    )


def _address(text: str, option: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
        raise UsageError(f"{option} {text!r} is not HOST:PORT")
    return host.strip("[]"), int(port)


class _JsonLines(logging.Formatter):
    """One object a line: time, level, logger, message, and the trace of an error."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _set_up_logging(log_format: LogFormat, *, verbose: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)s %(message)s", "%Y-%m-%d %H:%M:%S")
    handler.setFormatter(_JsonLines() if log_format is LogFormat.JSON else text)
    logging.basicConfig(handlers=[handler], level=logging.DEBUG if verbose else logging.INFO)
