"""The arguments of --add-scram, the first users of a new cluster: `SCRAM-SHA-256=[name=alice,password=...]`.

    name             the user's name
    password         the password, or
    saltedpassword   the salted password, base64, which needs the salt too; ignored if there is a password
    salt             base64; random if it is not given
    iterations       4,096 to 16,384; 4,096 if it is not given

Components are separated by commas; a value may be in quotation marks. Messages are Kafka's. Source: ScramParser;
KIP-900.
"""

from __future__ import annotations

import base64
import binascii
from typing import NamedTuple

from kcli.errors import UsageError
from kcli.java.values import java_integer, java_trim
from kcli.security.scram import MECHANISMS, ScramCredential, ScramMechanism, new_nonce


class ScramArgument(NamedTuple):
    """A user, and the credential that the metadata log stores in place of the password."""

    name: str
    mechanism: ScramMechanism
    credential: ScramCredential


def parse_scram_argument(text: str) -> ScramArgument:
    """Return the user of an argument. Raises UsageError."""
    text = java_trim(text)
    word, equals, configured = text.partition("=")
    if not equals:
        raise UsageError(f"Failed to find equals sign in SCRAM argument '{text}'")
    mechanism = MECHANISMS.get(word)
    if mechanism is None:
        raise UsageError(f"The add-scram mechanism {word} is not supported.")
    if not configured.startswith("["):
        raise UsageError("Expected configuration string to start with [")
    if not configured.endswith("]"):
        raise UsageError("Expected configuration string to end with ]")
    return _argument(mechanism, dict(map(_component, _words(configured[1:-1]))))


def _words(text: str) -> list[str]:
    """Return the texts between the commas, as Java's split does: without empty ones at the end."""
    words = text.split(",")
    while len(words) > 1 and not words[-1]:
        words.pop()
    return words


def _component(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"No equals sign found in SCRAM component: {text}")
    is_quoted = len(value) >= 2 and value[0] == value[-1] == '"'
    return name, value[1:-1] if is_quoted else value


def _argument(mechanism: ScramMechanism, components: dict[str, str]) -> ScramArgument:
    if "name" not in components:
        raise UsageError("You must supply 'name' to add-scram")
    name = components.pop("name")
    salt = _decoded("salt", components.pop("salt", None))
    count = components.pop("iterations", str(mechanism.iterations_min))
    iterations = java_integer(count)
    if iterations is None:
        raise UsageError(f"Failed to parse iterations count: {count}")
    password, salted_text = components.pop("password", None), components.pop("saltedpassword", None)
    if password is None and salted_text is None:
        raise UsageError("You must supply one of 'password' or 'saltedpassword' to add-scram")
    if password is None and salt is None:
        raise UsageError("You must supply 'salt' with 'saltedpassword' to add-scram")
    salted = _decoded("saltedPassword", salted_text) if password is None else None
    if components:
        raise UsageError(f"Unknown SCRAM configurations: {', '.join(sorted(components))}")
    _check_iterations(mechanism, iterations)
    salt = new_nonce().encode() if salt is None else salt
    if not (salted if password is None else password):
        raise UsageError("Empty key")
    if password is not None:
        salted = mechanism.salted(password, salt, iterations)
    assert salted is not None, "one of them is there"
    return ScramArgument(name, mechanism, ScramCredential.of_salted(mechanism, salt, salted, iterations))


def _check_iterations(mechanism: ScramMechanism, iterations: int) -> None:
    constant = mechanism.name.replace("-", "_")
    if iterations < mechanism.iterations_min:
        bound = f">= {mechanism.iterations_min}"
    elif iterations > mechanism.iterations_max:
        bound = f"<= {mechanism.iterations_max}"
    else:
        return
    raise UsageError(f"The 'iterations' value must be {bound} for add-scram using {constant}")


def _decoded(name: str, text: str | None) -> bytes | None:
    """Return the bytes of a text in base64, with or without = at its end, as Java's decoder accepts it; None for None.
    Raises UsageError. name: that of the component, for the error."""
    if text is None:
        return None
    padded = text if "=" in text else text + "=" * (-len(text) % 4)
    try:
        return base64.b64decode(padded, validate=True)
    except (binascii.Error, ValueError):
        raise UsageError(f"Failed to decode given {name}: {text}") from None
