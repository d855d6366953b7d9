"""Principals: the authenticated identity of a connection. Source: KafkaPrincipal, SecurityUtils.parseKafkaPrincipal."""

from __future__ import annotations

from typing import Final

from kcli.errors import KcliError

USER: Final = "User"
"""The type of the principals that Kafka's own listeners authenticate."""
ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a connection without authentication: PLAINTEXT, or SSL without a client's certificate."""
EVERYBODY: Final = "User:*"
"""The principal of an ACL that concerns all principals, of whatever type."""


class InvalidPrincipal(KcliError):
    """A text that names no principal."""


def check_principal(text: str) -> str:
    """Return the text if it is a principal, "TYPE:NAME". Either part may be empty; the name may hold colons.

    Raises InvalidPrincipal.
    """
    if ":" not in text:
        raise InvalidPrincipal(f"expected a string in format principalType:principalName but got {text}")
    return text


def user(name: str) -> str:
    """Return the principal of the user of that name."""
    return f"{USER}:{name}"


def parts_of(principal: str) -> tuple[str, str]:
    """Return the type and the name of a principal."""
    kind, _, name = principal.partition(":")
    return kind, name
