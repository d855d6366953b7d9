"""kcli tokens: create, renew, expire and describe delegation tokens."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kcli.cli.client_options import ClusterOptions, Output, with_options
from kcli.cli.error_report import ErrorReport, cell
from kcli.cli.options import Format, not_empty, time_text
from kcli.cli.output import PipeClosed, WriteFailed, aligned, json_line, note, write_text
from kcli.cli.secrets import read_secret
from kcli.errors import KcliError, UsageError
from kcli.security.acl_options import parse_principal

if TYPE_CHECKING:
    from kcli.client.tokens import Token, Tokens

EPILOG = """
Examples:

kcli tokens create --renewer-principal User:bob      shows the HMAC: the password of the token

kcli tokens describe --owner-principal User:alice

kcli tokens renew pWfPvbjJQPKJYOB4DFdRFw --renew-time-period 3600000

kcli tokens expire pWfPvbjJQPKJYOB4DFdRFw            at once

kcli tokens expire --hmac-file hmac                  - is standard input
"""
HEAD = ("TOKEN-ID", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "MAX")
BROKERS_PERIOD_MS = -1

app = typer.Typer(help="Create, renew, expire and describe delegation tokens.", epilog=EPILOG, no_args_is_help=True)

TokenIds = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TOKEN-ID...]", help="Tokens, by their ids.", show_default=False, callback=not_empty),
]
HmacFile = Annotated[
    Path | None,
    typer.Option(
        "--hmac-file",
        exists=True,
        dir_okay=False,
        allow_dash=True,
        help="Instead of an id: the token's HMAC is its first line; - is standard input.",
    ),
]
HmacEnv = Annotated[
    str | None,
    typer.Option("--hmac-env", metavar="NAME", help="Instead of an id: the environment's variable with the HMAC."),
]


def _period(option: str, text: str) -> Any:
    return typer.Option(option, min=BROKERS_PERIOD_MS, metavar="MS", help=text)


def _tokens(options: ClusterOptions) -> Tokens:
    from kcli.client.tokens import Tokens

    return Tokens(options.any_broker())


@app.command("create")
@with_options
def create(
    renewers: Annotated[
        list[str] | None,
        typer.Option("--renewer-principal", metavar="PRINCIPAL", help="Who may renew the token, too: User:bob."),
    ] = None,
    owner: Annotated[
        str | None,
        typer.Option("--owner-principal", metavar="PRINCIPAL", help="Who logs in with the token. [the user]"),
    ] = None,
    lifetime_ms: Annotated[
        int, _period("--max-life-time-period", "How long the token can be renewed; -1 is as long as the broker allows.")
    ] = BROKERS_PERIOD_MS,
    output: Output = Format.TABLE,
    *,
    options: ClusterOptions,
) -> None:
    """Create a token, and show it with its HMAC, the secret with which it logs in.

    No other command shows the HMAC.
    """
    named = [parse_principal(each, "--renewer-principal") for each in renewers or []]
    of = None if owner is None else parse_principal(owner, "--owner-principal")
    made = _tokens(options).create(of, named, lifetime_ms)
    hmac = base64.b64encode(made.hmac).decode()
    is_json = output is Format.JSONL
    try:
        write_text(json_line({**_object(made), "hmac": hmac}) if is_json else _table(made, hmac))
    except (WriteFailed, PipeClosed):
        note(f"kcli: the token {made.token_id} is made, but not shown: kcli tokens expire {made.token_id}")
        raise


@app.command("describe")
@with_options
def describe(
    owners: Annotated[
        list[str] | None,
        typer.Option(
            "--owner-principal",
            metavar="PRINCIPAL",
            help="Only tokens that this principal owns, has made or may renew.",
        ),
    ] = None,
    output: Output = Format.TABLE,
    *,
    options: ClusterOptions,
) -> None:
    """Describe the tokens that the user may describe: all of them, or those of the given principals."""
    found = _tokens(options).described([parse_principal(each, "--owner-principal") for each in owners or []])
    if output is Format.JSONL:
        write_text("".join(json_line(_object(each)) for each in found))
    elif found:
        write_text(aligned([HEAD, *map(_row, found)]))


@app.command("renew")
@with_options
def renew(
    ids: TokenIds = None,
    hmac_file: HmacFile = None,
    hmac_env: HmacEnv = None,
    period_ms: Annotated[
        int, _period("--renew-time-period", "After how long they expire; -1 is as long as the broker allows.")
    ] = BROKERS_PERIOD_MS,
    output: Output = Format.TABLE,
    *,
    options: ClusterOptions,
) -> None:
    """Let tokens expire later, but never after the end of their lifetime; show when."""
    tokens = _tokens(options)
    _for_each(tokens, ids or [], (hmac_file, hmac_env), lambda hmac: tokens.renew(hmac, period_ms), output)


@app.command("expire")
@with_options
def expire(
    ids: TokenIds = None,
    hmac_file: HmacFile = None,
    hmac_env: HmacEnv = None,
    period_ms: Annotated[
        int, _period("--expiry-time-period", "After how long they expire; -1 is at once, for good.")
    ] = BROKERS_PERIOD_MS,
    output: Output = Format.TABLE,
    *,
    options: ClusterOptions,
) -> None:
    """Let tokens expire, at once or after a time; show when."""
    tokens = _tokens(options)
    _for_each(tokens, ids or [], (hmac_file, hmac_env), lambda hmac: tokens.expire(hmac, period_ms), output)


def _for_each(
    tokens: Tokens,
    ids: list[str],
    hmac_source: tuple[Path | None, str | None],
    act: Callable[[bytes], int],
    output: Format,
) -> None:
    """Call `act` with the HMAC of each of these tokens, and show when each expires. Raises UsageError.

    The tokens are those with the ids in `ids`, or the one whose HMAC is in the file or environment variable of
    `hmac_source` (the values of --hmac-file and --hmac-env); exactly one of the two has to be given. act: returns the
    time at which the token expires, ms since 1970.
    """
    by_hmac = hmac_source != (None, None)
    if by_hmac == bool(ids):
        raise UsageError("which tokens? give TOKEN-ID, or one of --hmac-file and --hmac-env")
    chosen: list[tuple[str | None, bytes]] = [(None, _decoded(read_secret("hmac", *hmac_source)))] if by_hmac else []
    errors = ErrorReport()
    if ids:
        hmacs = {each.token_id: each.hmac for each in tokens.described([])}
        for name in dict.fromkeys(ids):
            if name in hmacs:
                chosen.append((name, hmacs[name]))
            else:
                errors.add(KcliError(f"{name}: DELEGATION_TOKEN_NOT_FOUND"))
    expiries = []
    for token_id, hmac in chosen:
        try:
            expiries.append((token_id, act(hmac)))
        except KcliError as error:
            errors.add(KcliError(f"{token_id}: {error}") if token_id else error)
    if output is Format.JSONL:
        known = [({} if name is None else {"token_id": name}) | {"expires_ms": at_ms} for name, at_ms in expiries]
        write_text("".join(map(json_line, known)))
    elif expiries:
        write_text(aligned([("TOKEN-ID", "EXPIRES"), *((cell(name), time_text(at_ms)) for name, at_ms in expiries)]))
    raise typer.Exit(errors.exit_status)


def _decoded(hmac: str) -> bytes:
    """Return the bytes of an HMAC that is given as base64. Raises UsageError."""
    try:
        return base64.b64decode(hmac, validate=True)
    except binascii.Error:
        raise UsageError("the hmac is not base64") from None


def _row(token: Token) -> tuple[str, ...]:
    times = (token.issued_ms, token.expires_ms, token.max_ms)
    return token.token_id, token.owner, token.requester, ",".join(token.renewers) or "-", *map(time_text, times)


def _table(token: Token, hmac: str) -> str:
    return aligned([(*HEAD, "HMAC"), (*_row(token), hmac)])


def _object(token: Token) -> dict[str, Any]:
    """Return a token as a JSON object, without its HMAC."""
    return {name: value for name, value in token._asdict().items() if name != "hmac"}
