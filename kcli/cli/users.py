"""kcli users: list, add and remove the users who log in by SCRAM."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kcli.cli.client_options import ClusterOptions, Output, with_options
from kcli.cli.error_report import ErrorReport
from kcli.cli.options import Format, not_empty
from kcli.cli.output import aligned, json_line, note, write_text
from kcli.cli.secrets import read_secret
from kcli.errors import KcliError

if TYPE_CHECKING:
    from kcli.client.users import Users

EPILOG = """
Examples:

kcli users add alice                               asks for the password

kcli users add alice bob --password-file password  its first line; - is standard input

PASSWORD=... kcli users add alice --password-env PASSWORD --mechanism SCRAM-SHA-256 --iterations 8192

kcli users list

kcli users remove alice
"""

app = typer.Typer(help="List, add and remove the users who log in by SCRAM.", epilog=EPILOG, no_args_is_help=True)


class Mechanism(StrEnum):
    """A mechanism of SCRAM, by Kafka's name."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"


Names = Annotated[list[str], typer.Argument(metavar="USER...", help="Names, without User:.", callback=not_empty)]


def _users(options: ClusterOptions) -> Users:
    from kcli.client.users import Users

    return Users(options.any_broker())


@app.command("list")
@with_options
def list_users(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="[USER...]", help="Names.", show_default=False, callback=not_empty),
    ] = None,
    output: Output = Format.TABLE,
    *,
    options: ClusterOptions,
) -> None:
    """List users, all if none is named, with mechanism and iterations."""
    errors = ErrorReport()
    rows = errors.results(_users(options).described(list(dict.fromkeys(names or []))))
    if output is Format.JSONL:
        write_text("".join(json_line(each._asdict()) for each in rows))
    elif rows:
        shown = [(each.user, each.mechanism, str(each.iterations)) for each in rows]
        write_text(aligned([("USER", "MECHANISM", "ITERATIONS"), *shown]))
    raise typer.Exit(errors.exit_status)


@app.command("add")
@with_options
def add(
    names: Names,
    mechanisms: Annotated[
        list[Mechanism] | None,
        typer.Option("--mechanism", help="How the user logs in; again for both. [SCRAM-SHA-512]"),
    ] = None,
    iterations: Annotated[
        int, typer.Option("--iterations", min=4096, max=16_384, help="How often the password is hashed.")
    ] = 4096,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            exists=True,
            dir_okay=False,
            allow_dash=True,
            help="The password is its first line; - is standard input.",
        ),
    ] = None,
    password_env: Annotated[
        str | None, typer.Option("--password-env", metavar="NAME", help="The environment's variable with the password.")
    ] = None,
    *,
    options: ClusterOptions,
) -> None:
    """Add users, or give them another password.

    The password comes from the terminal, a file or the environment: in a command line every user of the machine would
    see it.
    """
    from kcli.security.principals import user
    from kcli.security.scram import MECHANISMS

    password = read_secret("password", password_file, password_env)
    users = _users(options)
    errors = ErrorReport()
    for name in dict.fromkeys(names):
        for mechanism in dict.fromkeys(mechanisms or [Mechanism.SHA_512]):
            try:
                users.add(name, password, MECHANISMS[mechanism], iterations)
            except KcliError as error:
                errors.add(error)
            else:
                if options.command_config is not None and options.own_principal() == user(name):
                    note(f"kcli: {options.command_config} has the password that {name} had: write the new one into it")
    raise typer.Exit(errors.exit_status)


@app.command("remove")
@with_options
def remove(
    names: Names,
    mechanisms: Annotated[
        list[Mechanism] | None,
        typer.Option("--mechanism", help="Only the credential for this mechanism; again for both."),
    ] = None,
    *,
    options: ClusterOptions,
) -> None:
    """Remove users: their credentials for all mechanisms."""
    from kcli.security.scram import MECHANISMS

    users = _users(options)
    errors = ErrorReport()
    for each in errors.results(users.described(list(dict.fromkeys(names)))):
        if mechanisms is None or each.mechanism in mechanisms:
            try:
                users.remove(each.user, MECHANISMS[each.mechanism])
            except KcliError as error:
                errors.add(error)
    raise typer.Exit(errors.exit_status)
