"""Options shared by the commands that read from a cluster, or from log directories instead."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, get_annotations, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from kcli.cli.options import Format, not_empty, pairs
from kcli.errors import UsageError

if TYPE_CHECKING:
    from kcli.client.connection import Connection
    from kcli.client.wire import AnyBroker

CONNECTION = "Connection"
TIMEOUT_MAX_S = 3600  # the maximum of the client library
BOOTSTRAP_VARIABLE = "KCLI_BOOTSTRAP_SERVER"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar=BOOTSTRAP_VARIABLE,
        metavar="HOST:PORT,...",
        rich_help_panel=CONNECTION,
        help="Brokers to begin with.",
        callback=not_empty,
    ),
]
Properties = Annotated[
    list[str] | None,
    typer.Option("-X", metavar="NAME=VALUE", rich_help_panel=CONNECTION, help="A property of librdkafka."),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        exists=True,
        dir_okay=False,
        metavar="FILE",
        rich_help_panel=CONNECTION,
        help="Properties of a client of Kafka: TLS and login.",
    ),
]
Timeout = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.1,
        max=TIMEOUT_MAX_S,
        metavar="SECONDS",
        rich_help_panel=CONNECTION,
        help="How long to wait for answers.",
    ),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", rich_help_panel=CONNECTION, help="Show the log lines of the client library.")
]
Output = Annotated[Format, typer.Option("--format", help="How to show the result.")]
DataDirs = Annotated[
    list[Path] | None,
    typer.Option(
        "--data-dir",
        metavar="DIR",
        help="Read a broker's log directory instead of asking a cluster; again for more of that broker.",
    ),
]
DEFAULT_TIMEOUT_S = 10.0


def written_config(data_dir: Path | None, command_config: Path | None) -> Path | None:
    """Return the file of client properties for a command: that of --command-config, else the admin's client.properties
    that `kcli serve --secure` has written beside `data_dir`; None if there is neither."""
    if command_config is not None or data_dir is None:
        return command_config
    from kcli.broker.startup.secure import client_beside

    found = client_beside(data_dir.absolute())
    return found if found.is_file() else None


def client_properties(command_config: Path | None, properties: list[str] | None) -> dict[str, str]:
    """Return properties of librdkafka: those of the file of --command-config, and those of the options -X, which
    override the file's; empty if both are None. Raises UsageError, UnreadableInput."""
    given = pairs(properties, "-X")
    if given:
        from kcli.client.connection import check_properties

        try:
            check_properties(given)
        except UsageError as error:
            raise UsageError(f"-X: {error}") from None
    if command_config is None:
        return given
    from kcli.client.command_config import read_command_config

    return {**read_command_config(command_config), **given}


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The options of a connection to a cluster: bootstrap servers, a file of client properties, librdkafka's
    properties, timeout (s)."""

    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP
    command_config: CommandConfig = None
    properties: Properties = None
    timeout: Timeout = DEFAULT_TIMEOUT_S
    verbose: Verbose = False

    def connection(self) -> Connection:
        """Return a connection with these options. Raises UsageError, UnreadableInput."""
        from kcli.client.connection import Connection

        properties = client_properties(self.command_config, self.properties)
        return Connection(self.bootstrap, properties, self.timeout, self.verbose)

    def repeated(self) -> list[str]:
        """Return the options of the connection for a suggested command, so that it reaches the same cluster; without
        the options -X, as their values may be secrets."""
        default = os.environ.get(BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP)
        words = [] if self.bootstrap == default else ["--bootstrap-server", self.bootstrap]
        return words + ([] if self.command_config is None else ["--command-config", str(self.command_config)])

    def own_principal(self) -> str | None:
        """Return the principal under which a broker knows this client; None if only the broker can tell, as for a
        client that logs in with a certificate or a token. Raises UsageError, UnreadableInput."""
        from kcli.client.security import TOKEN_AUTH
        from kcli.security.principals import ANONYMOUS, user

        properties = client_properties(self.command_config, self.properties)
        protocol = properties.get("security.protocol", "plaintext").lower()
        if protocol == "plaintext":
            return ANONYMOUS
        name = properties.get("sasl.username")
        is_named = protocol.startswith("sasl") and name and properties.get(TOKEN_AUTH) != "true"
        return user(name) if name and is_named else None

    def any_broker(self) -> AnyBroker:
        """Return kcli's own connection to any of the brokers, without librdkafka. Raises UsageError, UnreadableInput,
        KcliError."""
        from kcli.client.security import security_of
        from kcli.client.wire import AnyBroker

        security = security_of(client_properties(self.command_config, self.properties))
        return AnyBroker(self.bootstrap, self.timeout, security)


@dataclass(frozen=True, slots=True)
class SourceOptions(ClusterOptions):
    """The options of a command that reads from a cluster or, with --data-dir, from log directories."""

    data_dirs: DataDirs = None
    output: Output = Format.TABLE


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Return a function for Typer: each parameter of `command` that is a dataclass is replaced by its fields, as
    options.

    A dataclass's own fields come before those of its base; --help lists the options in that order.
    """
    classes: dict[str, type[Any]] = {}
    parameters: list[Parameter] = []
    hints: dict[str, Any] = get_type_hints(command, include_extras=True)
    for parameter in signature(command).parameters.values():
        hint = hints[parameter.name]
        if isinstance(hint, type) and is_dataclass(hint):
            classes[parameter.name] = hint
            parameters += _option_parameters(hint)
        else:
            parameters.append(parameter.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY))

    @wraps(command)
    def run(**values: Any) -> None:
        for name, options in classes.items():
            values[name] = options(**{field.name: values.pop(field.name) for field in fields(options)})
        command(**values)

    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _option_parameters(options: type[Any]) -> list[Parameter]:
    hints = get_type_hints(options, include_extras=True)
    own = get_annotations(options)
    ordered = sorted(fields(options), key=lambda field: field.name not in own)
    return [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in ordered
    ]
