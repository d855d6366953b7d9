"""sasl.jaas.config: the login module of a SASL mechanism, with its options.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" user_admin="secret" ;

    entry    module flag option* ";"        flag: required, requisite, sufficient, optional, in any case
    option   key "=" value

A word consists of letters, digits and . - _ $; one that begins with a digit, "." or "-" is a number, which Kafka takes
for no value. Everything else is quoted, by " or ', on one line, with the escapes of C. // and /* */ are comments, and
any other slash outside quotes comments out the rest of its line.

No error of this module has a part of the text in it: it may be a secret. Source: JaasConfig, JaasContext;
java.io.StreamTokenizer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from string import ascii_letters
from typing import Final, NamedTuple

from kcli.errors import KcliError

_FLAGS: Final = frozenset({"REQUIRED", "REQUISITE", "SUFFICIENT", "OPTIONAL"})
_DISALLOWED: Final = frozenset(
    {"com.sun.security.auth.module.JndiLoginModule", "com.sun.security.auth.module.LdapLoginModule"}
)
_SPACE: Final = frozenset(map(chr, range(0x21)))
_DIGITS: Final = frozenset("0123456789")
_NUMBER: Final = _DIGITS | frozenset(".-")
_LETTERS: Final = frozenset(ascii_letters + "-_$") | frozenset(map(chr, range(0xA0, 0x100)))
_OCTAL: Final = frozenset("01234567")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LINE_ENDS: Final = frozenset("\n\r")
_PAST_THE_END: Final = "\uffff"
"""What Java takes for the character behind a backslash at the end of the text."""


class InvalidJaasConfig(KcliError):
    """A text that is no JAAS configuration, or not one of a single login module that is allowed."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry: the class of a login module, its control flag in lower case, its options. `repr` has no values."""

    name: str
    flag: str
    options: Mapping[str, str] = field(repr=False)


class _Token(NamedTuple):
    """kind: "word" (with quotes or without), "number", or a character that is a token of its own."""

    kind: str
    text: str | None = None


def login_module(text: str) -> LoginModule:
    """Return the login module of a sasl.jaas.config, which names exactly one. Raises InvalidJaasConfig."""
    modules = parse_jaas(text)
    if len(modules) != 1:
        raise InvalidJaasConfig(f"JAAS config property contains {len(modules)} login modules, should be 1 module")
    if modules[0].name.strip() in _DISALLOWED:
        raise InvalidJaasConfig(f"login module {modules[0].name.strip()} is not allowed")
    return modules[0]


def parse_jaas(text: str) -> list[LoginModule]:
    """Return all entries. Raises InvalidJaasConfig."""
    tokens = _tokens(text)
    modules = [_entry(first.text, tokens) for first in tokens]
    if not modules:
        raise InvalidJaasConfig("Login module not specified in JAAS config")
    return modules


def _entry(name: str | None, tokens: Iterator[_Token]) -> LoginModule:
    flag = next(tokens, None)
    if flag is None:
        raise InvalidJaasConfig("Login module control flag not specified in JAAS config")
    if flag.text is None:
        raise InvalidJaasConfig("Login module control flag is not available in the JAAS config")
    if flag.text.upper() not in _FLAGS:
        raise InvalidJaasConfig("Invalid login module control flag in JAAS config")
    options: dict[str, str] = {}
    for key in tokens:
        if key.kind == ";":
            break
        equals, value = next(tokens, None), None
        if equals is not None and equals.kind == "=":
            value = next(tokens, None)
        if value is None or value.text is None:
            raise InvalidJaasConfig("Value not specified for key in JAAS config")
        if key.text is not None:
            options[key.text] = value.text
    else:
        raise InvalidJaasConfig("JAAS config entry not terminated by semi-colon")
    if not name:
        raise InvalidJaasConfig("Login module not specified in JAAS config")
    return LoginModule(name, flag.text.upper().lower(), options)


def _tokens(text: str) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        char = text[at]
        if char in _SPACE:
            at += 1
        elif char in _NUMBER:
            token, at = _number(text, at)
            yield token
        elif _is_letter(char):
            begin = at
            while at < len(text) and (_is_letter(text[at]) or text[at] in _NUMBER):
                at += 1
            yield _Token("word", text[begin:at])
        elif char in "\"'":
            token, at = _quoted(text, at)
            yield token
        elif char == "/":
            at = _behind_comment(text, at)
        else:
            yield _Token(char)
            at += 1


def _is_letter(char: str) -> bool:
    return char in _LETTERS or char > "\xff"


def _number(text: str, at: int) -> tuple[_Token, int]:
    if text[at] == "-":
        at += 1
        if text[at : at + 1] not in _DIGITS | {"."}:
            return _Token("-"), at
    has_point = False
    while at < len(text) and (text[at] in _DIGITS or (text[at] == "." and not has_point)):
        has_point |= text[at] == "."
        at += 1
    return _Token("number"), at


def _quoted(text: str, at: int) -> tuple[_Token, int]:
    """The word between the quote at `at` and the next one, or the end of the line; and the index behind it."""
    quote, at = text[at], at + 1
    parts: list[str] = []
    while at < len(text) and text[at] != quote and text[at] not in _LINE_ENDS:
        char, at = _escaped(text, at + 1) if text[at] == "\\" else (text[at], at + 1)
        parts.append(char)
    return _Token("word", "".join(parts)), at + (text[at : at + 1] == quote)


def _escaped(text: str, at: int) -> tuple[str, int]:
    r"""What a backslash before `at` stands for, and the index behind it: \n, \101, \", ..."""
    if at == len(text):
        return _PAST_THE_END, at
    if text[at] not in _OCTAL:
        return _ESCAPES.get(text[at], text[at]), at + 1
    end = at + 1
    while end < len(text) and text[end] in _OCTAL and end - at < (3 if text[at] <= "3" else 2):
        end += 1
    return chr(int(text[at:end], 8)), end


def _behind_comment(text: str, at: int) -> int:
    """The index behind the comment that begins at `at`."""
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return len(text) if end < 0 else end + 2
    at += 2  # as in Java, also past the end of the line: a slash that ends its line comments out the next one
    while at < len(text) and text[at] not in _LINE_ENDS:
        at += 1
    return at
