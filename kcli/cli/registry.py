"""`kcli registry`: a schema registry, on the topic `_schemas` of any Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.client_options import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP, client_properties
from kcli.cli.options import pairs
from kcli.cli.output import write_text
from kcli.cli.serve import LogFormat
from kcli.errors import UsageError, needing

if TYPE_CHECKING:
    from kcli.registry.server import RegistryServer

EPILOG = """
Examples:

    kcli registry                                  on port 8081, with the broker at 127.0.0.1:9092

    kcli registry -b kafka-1:9092,kafka-2:9092 --listeners http://127.0.0.1:8081

    kcli registry --config schema-registry.properties    Confluent's file

    kcli registry --command-config client.properties -o schema.registry.group.id=tests

    kcli registry --listeners https://0.0.0.0:8081 -o ssl.keystore.type=PEM -o ssl.keystore.location=server.pem

    kcli registry -o authentication.method=BASIC -o authentication.users.file=users -o authorization.acl.file=acls
"""


def registry(
    bootstrap: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            envvar=BOOTSTRAP_VARIABLE,
            metavar="HOST:PORT,...",
            help=f"Brokers to begin with. [{DEFAULT_BOOTSTRAP}]",
        ),
    ] = None,
    command_config: Annotated[
        Path | None,
        typer.Option(
            "--command-config",
            exists=True,
            dir_okay=False,
            metavar="FILE",
            help="Properties of a client of Kafka: TLS and login.",
        ),
    ] = None,
    listeners: Annotated[
        str | None,
        typer.Option(
            metavar="URL,...", help="http:// or https://HOST:PORT to serve; port 0: any. [http://0.0.0.0:8081]"
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", exists=True, dir_okay=False, help="Confluent's schema-registry.properties."),
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option("-o", metavar="NAME=VALUE", help="A configuration; may be repeated.")
    ] = None,
    log_format: Annotated[LogFormat, typer.Option(help="How log lines on stderr look.")] = LogFormat.TEXT,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log more.")] = False,
) -> None:
    """Run a schema registry that keeps its schemas in a topic of any Kafka, as Confluent's does.

    Prints one line on stdout when it serves; logs go to stderr. SIGTERM or SIGINT ends it in order, a second one at
    once. Registries with one group id elect a leader, also together with Confluent's; the others forward to it
    requests that change anything.
    """
    from kcli.broker.process.log_lines import set_up_logging

    with needing("registry"):
        from kcli.registry.config import registry_config
        from kcli.registry.server import serve
        from kcli.service.outbound import outbound_of
    set_up_logging(json_lines=log_format is LogFormat.JSON, verbose=verbose)
    properties = registry_properties(config, pairs(option, "-o"))
    if listeners is not None:
        properties["listeners"] = listeners
    servers = bootstrap or properties.get("kafkastore.bootstrap.servers") or DEFAULT_BOOTSTRAP
    configured = registry_config(properties)
    if configured.client:
        if command_config is not None:
            raise UsageError("--command-config: the configurations kafkastore.* say how to connect")
        from kcli.client.command_config import librdkafka_properties

        client = librdkafka_properties(configured.client)
    else:
        client = client_properties(command_config, None)
    from kcli.client.security import security_of

    serve(configured, addresses(servers), outbound_of(security_of(client)), _ready)


def registry_properties(config: Path | None, options: dict[str, str]) -> dict[str, str]:
    """Return the configurations of a file and of options, which override the file's. Raises UsageError,
    UnreadableInput."""
    from kcli.log.config import InvalidConfig
    from kcli.log.config_providers import resolve
    from kcli.log.log_directory import read_properties

    if config is None:
        return options
    try:
        return {**resolve(read_properties(config)).properties, **options}
    except InvalidConfig as error:
        raise UsageError(f"{config}: {error}") from None


def addresses(servers: str) -> list[tuple[str, int]]:
    """Return the brokers' addresses. servers: HOST:PORT,..., each perhaps with a security protocol and :// before it,
    as kafkastore.bootstrap.servers has them. Raises UsageError."""
    found = []
    for each in servers.split(","):
        text = each.strip().rpartition("://")[2]
        host, colon, port = text.rpartition(":")
        if not colon or not port.isascii() or not port.isdecimal() or int(port) > 65535:
            raise UsageError(f"--bootstrap-server {each.strip()!r} is not HOST:PORT")
        found.append((host.strip("[]") or "127.0.0.1", int(port)))
    return found


def _ready(server: RegistryServer) -> None:
    topic, group = server.config.log.topic, server.config.group.group_id
    write_text(f"kcli registry ready {','.join(server.urls)}  topic {topic}  group {group}\n")
