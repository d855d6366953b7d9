"""A client's principal as bytes in an Envelope: version 0, then type and name as compact strings, whether the client
logged in with a delegation token, and no tagged fields. Source: DefaultPrincipalData, DefaultKafkaPrincipalBuilder;
KIP-590."""

from __future__ import annotations

from typing import Final

from formats.errors import FormatError
from formats.message import read_uvarint
from formats.varint import uvarint
from kcli.errors import KcliError

_VERSION: Final = bytes(2)


class BadPrincipal(KcliError):
    """The bytes are not an encoded principal."""


def principal_bytes(principal: str) -> bytes:
    """Return the encoded bytes of a principal, "TYPE:NAME". They say that the client did not log in with a delegation
    token."""
    kind, _, name = principal.partition(":")
    return _VERSION + _compact(kind) + _compact(name) + bytes(2)


def _compact(text: str) -> bytes:
    encoded = text.encode("utf-8", "surrogatepass")
    return uvarint(len(encoded) + 1) + encoded


def principal_of(data: bytes) -> str:
    """Return the principal, "TYPE:NAME", that is encoded in these bytes; the field about delegation tokens is not used.
    Raises BadPrincipal."""
    try:
        if data[: len(_VERSION)] != _VERSION:
            raise BadPrincipal("a principal of another version")
        kind, at = _text(data, len(_VERSION))
        name, at = _text(data, at)
    except (ValueError, FormatError) as error:
        raise BadPrincipal(f"not a principal: {error}") from error
    if len(data) <= at:
        raise BadPrincipal("a principal without its end")
    return f"{kind}:{name}"


def _text(data: bytes, at: int) -> tuple[str, int]:
    length, at = read_uvarint(data, at, "a length")
    end = at + length - 1
    if not at <= end <= len(data):
        raise BadPrincipal("a text beyond the end")
    return data[at:end].decode(), end
