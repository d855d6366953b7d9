"""The client's side of SCRAM, without channel binding; scram.py has the messages. Source: ScramSaslClient; RFC 5802."""

from __future__ import annotations

import base64
import hmac
from typing import Final

from kcli.security.sasl import Conversation, NotTrusted
from kcli.security.scram import EXTENSION, ScramMechanism, sasl_name

_HEADER: Final = "n,,"
_ITERATIONS_MAX: Final = 1_000_000
"""The maximum number of iterations that kcli's client accepts from a server: more would take the client a second or
longer."""
_SHOWN_MAX: Final = 200


def converse(
    mechanism: ScramMechanism, name: str, password: str, nonce: str, *, with_token: bool = False
) -> Conversation:
    """The client's side of a login, as a Conversation (see kcli.security.sasl). nonce: the client's part of the nonce,
    never used before. with_token: whether the name is the id of a delegation token, and the password its HMAC in
    base64.

    Raises NotTrusted, also if the server demands fewer iterations than the mechanism's minimum: a proof with few
    iterations would help a false server to guess the password.
    """
    first = f"n={sasl_name(name)},r={nonce}" + (f",{EXTENSION}=true" if with_token else "")
    said = (yield f"{_HEADER}{first}".encode()).decode(errors="replace")
    fields = _fields(said)
    iterations = int(fields["i"]) if fields.get("i", "").isdecimal() and len(fields["i"]) < 10 else 0
    if not fields.get("r", "").startswith(nonce) or not mechanism.iterations_min <= iterations <= _ITERATIONS_MAX:
        raise NotTrusted(f"SASL: {said[:_SHOWN_MAX]}")
    salted = mechanism.salted(password, _decoded(fields.get("s", "")), iterations)
    without_proof = f"c={base64.b64encode(_HEADER.encode()).decode()},r={fields['r']}"
    auth_message = f"{first},{said},{without_proof}".encode()
    client_key = mechanism.hmac(salted, b"Client Key")
    signature = mechanism.hmac(mechanism.hash(client_key), auth_message)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    said = (yield f"{without_proof},p={base64.b64encode(proof).decode()}".encode()).decode(errors="replace")
    expected = mechanism.hmac(mechanism.hmac(salted, b"Server Key"), auth_message)
    if not hmac.compare_digest(_decoded(_fields(said).get("v", "")), expected):
        raise NotTrusted(f"SASL: {said[:_SHOWN_MAX]}")


def _fields(message: str) -> dict[str, str]:
    return {part[0]: part[2:] for part in message.split(",") if part[1:2] == "="}


def _decoded(text: str) -> bytes:
    """Return the bytes of a text in base64. Raises NotTrusted."""
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise NotTrusted("SASL: what is said is not base64") from None
