"""Options shared by the commands that ask a schema registry."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.options import not_empty
from kcli.cli.output import note
from kcli.errors import UnreadableInput, UsageError

if TYPE_CHECKING:
    from kcli.schema_client.client import RegistryClient
    from kcli.schema_client.http import Access, Transport
    from kcli.schema_client.reading import PayloadReader
    from kcli.schema_client.sources import Registry

REGISTRY = "Schema registry"
URL_VARIABLE = "KCLI_REGISTRY_URL"
LOGIN_MAX = 64 << 10

Url = Annotated[
    str | None,
    typer.Option(
        "--registry",
        envvar=URL_VARIABLE,
        metavar="URL",
        rich_help_panel=REGISTRY,
        help="A registry with Confluent's API.",
        callback=not_empty,
        show_default=False,
    ),
]
CaFile = Annotated[
    Path | None,
    typer.Option(
        "--registry-ca",
        envvar="KCLI_REGISTRY_CA",
        exists=True,
        dir_okay=False,
        metavar="FILE",
        rich_help_panel=REGISTRY,
        help="Authorities (PEM) to trust for https.",
    ),
]
LoginFile = Annotated[
    Path | None,
    typer.Option(
        "--registry-login",
        envvar="KCLI_REGISTRY_LOGIN",
        exists=True,
        dir_okay=False,
        metavar="FILE",
        rich_help_panel=REGISTRY,
        help="Its first line is USER:PASSWORD.",
    ),
]
Schemas = Annotated[
    str | None,
    typer.Option(
        "--schemas",
        metavar="URL|DIR",
        rich_help_panel=REGISTRY,
        help="Decode by schema id: a registry, a dump of one, or a broker's log directory.",
        callback=not_empty,
        show_default=False,
    ),
]


@dataclass(frozen=True, slots=True)
class AccessOptions:
    """The options with which a command connects to a registry."""

    ca: CaFile = None
    login: LoginFile = None

    def access(self) -> Access:
        """Return the login and the authorities that the options name. Raises UsageError, UnreadableInput."""
        from kcli.schema_client.http import Access

        login = None if self.login is None else _login(self.login)
        return Access(None if self.ca is None else str(self.ca), login)


@dataclass(frozen=True, slots=True)
class SchemasOptions(AccessOptions):
    """The options of a command that decodes keys and values."""

    schemas: Schemas = None

    def reader(self) -> PayloadReader | None:
        """Return a reader that decodes keys and values with the schemas of --schemas; None without this option. Raises
        UsageError, UnreadableInput, SchemaError."""
        if self.schemas is None:
            return None
        from kcli.schema_client.reading import PayloadReader

        return PayloadReader(opened(self.schemas, self.access()))


@dataclass(frozen=True, slots=True)
class RegistryOptions(AccessOptions):
    """The options of a command that asks a registry."""

    url: Url = None

    def transport(self) -> Transport:
        """Return the transport that sends requests to the registry. Raises UsageError, also if no URL is given;
        UnreadableInput."""
        from kcli.schema_client.http import HttpTransport

        if self.url is None:
            raise UsageError(f"no registry given: --registry URL, or {URL_VARIABLE}")
        return HttpTransport(self.url, self.access())

    def client(self) -> RegistryClient:
        """Return the registry's client. Raises UsageError, UnreadableInput."""
        from kcli.schema_client.client import RegistryClient

        return RegistryClient(self.transport())


def opened(place: str, access: Access) -> Registry:
    """Return the schemas of a registry (a URL), of a dump (a file or directory), or of a broker's log directory. Raises
    UsageError, UnreadableInput, SchemaError."""
    from kcli.schema_client.registry import is_log_directory, open_registry

    if is_log_directory(place):
        from kcli.registry.files import registry_of

        return registry_of([Path(place)], note)
    return open_registry(place, access)


def _login(path: Path) -> str:
    try:
        with path.open("rb") as file:
            line = file.readline(LOGIN_MAX).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not UTF-8") from None
    except OSError as error:
        raise UnreadableInput.of(path, error) from None
    if ":" not in line:
        raise UsageError(f"{path}: its first line is not USER:PASSWORD")
    return line
