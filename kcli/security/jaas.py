"""sasl.jaas.config: the login module of a SASL mechanism, with its options; and JAAS files, with sections of such
modules.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" user_admin="secret" ;

    section  name "{" entry* "}" ";"        in files only; each name occurs once
    entry    module flag option* ";"        flag: required, requisite, sufficient, optional, in any case
    option   key "=" value

A word consists of letters, digits and . - _ $; a word that begins with a digit, "." or "-" is a number, which Kafka
does not accept as a value. Everything else is quoted, by " or ', on one line, with the escapes of C. // and /* */ are
comments, and any other slash outside quotes comments out the rest of its line. In a file * is a letter too, words are
quoted by " alone, and Java replaces ${name} in a value by a system property; kcli has no system properties, and refuses
such a value.

The errors of this module quote nothing of the text, which may be a secret. Source: JaasConfig, JaasContext;
java.io.StreamTokenizer, sun.security.provider.ConfigFile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
_LETTERS_OF_FILES: Final = _LETTERS | {"*"}
_OCTAL: Final = frozenset("01234567")
_ESCAPES: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_LINE_ENDS: Final = frozenset("\n\r")
_PAST_THE_END: Final = "\uffff"
"""The character that Java reads after a backslash at the end of the text."""


class InvalidJaasConfig(KcliError):
    """A text is not a JAAS configuration, does not have exactly one login module, or has one that Kafka disallows."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry: the class of a login module, its control flag in lower case, its options. `repr` omits the options."""

    name: str
    flag: str
    options: Mapping[str, str] = field(repr=False)


class _Token(NamedTuple):
    """A token of the text. at: the index where it begins. kind: "word" (with quotes or without), "number", or a
    character that is a token of its own."""

    at: int
    kind: str
    text: str | None = None


def login_module(text: str) -> LoginModule:
    """Return the login module of a sasl.jaas.config, which names exactly one. Raises InvalidJaasConfig."""
    modules = parse_jaas(text)
    if len(modules) != 1:
        raise InvalidJaasConfig(f"JAAS config property contains {len(modules)} login modules, should be 1 module")
    check_allowed(modules)
    return modules[0]


def check_allowed(modules: Iterable[LoginModule]) -> None:
    """Raise InvalidJaasConfig for a login module that Kafka does not allow."""
    for each in modules:
        if each.name.strip() in _DISALLOWED:
            raise InvalidJaasConfig(f"login module {each.name.strip()} is not allowed")


def parse_jaas(text: str) -> list[LoginModule]:
    """Return the login modules that the value of a sasl.jaas.config has. Raises InvalidJaasConfig, also if it has
    none."""
    tokens = _tokens(text)
    modules = [_entry(first.text, tokens) for first in tokens]
    if not modules:
        raise InvalidJaasConfig("Login module not specified in JAAS config")
    return modules


def parse_jaas_file(text: str) -> dict[str | None, list[LoginModule]]:
    """Return the sections of a JAAS file: the entries by the section's name. The name is None if the text in its place
    is not a word. Raises InvalidJaasConfig, whose message names the line."""
    return _JaasFile(text).sections()


class _JaasFile:
    """The parser of a file, which reads one token ahead."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text, _LETTERS_OF_FILES)
        self._ahead = next(self._tokens, None)

    def sections(self) -> dict[str | None, list[LoginModule]]:
        found: dict[str | None, list[LoginModule]] = {}
        while self._ahead is not None:
            first = self._next("a section")
            entries: list[LoginModule] = []
            self._match("{")
            while not self._is_ahead("}"):
                entries.append(self._entry())
            self._match("}")
            self._match(";")
            if first.text in found:
                raise self._error("the section of this name is there twice", first)
            found[first.text] = entries
        return found

    def _entry(self) -> LoginModule:
        name, at = self._word("the class of a login module"), self._ahead
        flag = self._word("a control flag").upper()
        if flag not in _FLAGS:
            raise self._error("the control flag is not required, requisite, sufficient or optional", at)
        options: dict[str, str] = {}
        while not self._is_ahead(";"):
            key = self._word("the name of an option")
            self._match("=")
            at = self._ahead
            options[key] = self._word("the value of an option")
            if "}" in options[key].partition("${")[2]:
                raise self._error("a value has ${...}, a system property of Java, which is not there", at)
        self._match(";")
        return LoginModule(name, flag.lower(), options)

    def _is_ahead(self, kind: str) -> bool:
        return self._ahead is not None and self._ahead.kind == kind

    def _word(self, what: str) -> str:
        token = self._next(what)
        if token.kind != "word" or token.text is None or self._text[token.at] == "'":
            raise self._error(f"expected {what}", token)
        return token.text

    def _match(self, kind: str) -> None:
        token = self._next(kind)
        if token.kind != kind:
            raise self._error(f"expected {kind}", token)

    def _next(self, what: str) -> _Token:
        token = self._ahead
        if token is None:
            raise InvalidJaasConfig(f"expected {what} at the end of the file")
        self._ahead = next(self._tokens, None)
        return token

    def _error(self, reason: str, token: _Token | None) -> InvalidJaasConfig:
        before = self._text[: 0 if token is None else token.at]
        line = before.count("\n") + before.replace("\r\n", "").count("\r") + 1
        return InvalidJaasConfig(f"line {line}: {reason}")


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


def _tokens(text: str, letters: frozenset[str] = _LETTERS) -> Iterator[_Token]:
    at = 0
    while at < len(text):
        char = text[at]
        if char in _SPACE:
            at += 1
        elif char in _NUMBER:
            token, at = _number(text, at)
            yield token
        elif _is_letter(char, letters):
            begin = at
            while at < len(text) and (_is_letter(text[at], letters) or text[at] in _NUMBER):
                at += 1
            yield _Token(begin, "word", text[begin:at])
        elif char in "\"'":
            token, at = _quoted(text, at)
            yield token
        elif char == "/":
            at = _behind_comment(text, at)
        else:
            yield _Token(at, char)
            at += 1


def _is_letter(char: str, letters: frozenset[str]) -> bool:
    return char in letters or char > "\xff"


def _number(text: str, at: int) -> tuple[_Token, int]:
    begin = at
    if text[at] == "-":
        at += 1
        if text[at : at + 1] not in _DIGITS | {"."}:
            return _Token(begin, "-"), at
    has_point = False
    while at < len(text) and (text[at] in _DIGITS or (text[at] == "." and not has_point)):
        has_point |= text[at] == "."
        at += 1
    return _Token(begin, "number"), at


def _quoted(text: str, at: int) -> tuple[_Token, int]:
    """Return the word in quotes that begins at `at` and ends at the next quote or the end of the line, and the index
    after it."""
    begin, quote, at = at, text[at], at + 1
    parts: list[str] = []
    while at < len(text) and text[at] != quote and text[at] not in _LINE_ENDS:
        char, at = _escaped(text, at + 1) if text[at] == "\\" else (text[at], at + 1)
        parts.append(char)
    return _Token(begin, "word", "".join(parts)), at + (text[at : at + 1] == quote)


def _escaped(text: str, at: int) -> tuple[str, int]:
    r"""Return the character that a backslash and the text at `at` stand for (\n, \101, \", ...), and the index after
    it. at: the index after the backslash."""
    if at == len(text):
        return _PAST_THE_END, at
    if text[at] not in _OCTAL:
        return _ESCAPES.get(text[at], text[at]), at + 1
    end = at + 1
    while end < len(text) and text[end] in _OCTAL and end - at < (3 if text[at] <= "3" else 2):
        end += 1
    return chr(int(text[at:end], 8)), end


def _behind_comment(text: str, at: int) -> int:
    """Return the index after the comment that begins at `at`."""
    if text.startswith("/*", at):
        end = text.find("*/", at + 2)
        return len(text) if end < 0 else end + 2
    at += 2  # as in Java, also past the end of the line: a slash that ends its line comments out the next one
    while at < len(text) and text[at] not in _LINE_ENDS:
        at += 1
    return at
