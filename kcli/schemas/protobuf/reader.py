"""Reads the words, numbers and strings of a .proto file, and reports where its syntax is wrong.

    word     letters, digits, `_`, `-` and `.`
    integer  decimal, or hexadecimal with `0x`: a signed 32-bit integer
    string   in `"` or `'`, with C's escapes; adjacent strings are one

White space and comments separate them. Source: protobuf.dev, "Protocol Buffers Language Specification". Other texts are
accepted or refused, and the messages written, as by Wire's parser, which Confluent's registry uses.
"""

from __future__ import annotations

import re

from kcli.schemas.schema import InvalidSchema

NESTING_MAX = 100
"""How deep messages, groups, maps and the values of options may be nested. protoc allows 32 messages."""

MESSAGE_MAX = 1_000
"""The longest message, in characters."""

_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z0-9_.-]+")
_DECIMAL = re.compile(r"-?0*([0-9]{1,10})")
_HEXADECIMAL = re.compile(r"-?0*([0-9a-fA-F]{1,8})")
_PLAIN = re.compile(r"[^\"'\\]*")
_ESCAPED_NUMBER = re.compile(r"[xX]([0-9a-fA-F]{1,2})|([0-7]{1,3})")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_BLANKS = re.compile(r"[ \t]*")
_REST_OF_LINE = re.compile(r"[ \t\r]*")


class BadSyntax(InvalidSchema):
    """A text that is no .proto file."""


def shortened(message: str) -> str:
    """Return a message in which a very long word is cut."""
    return message if len(message) <= MESSAGE_MAX else message[:MESSAGE_MAX] + "..."


class Reader:
    """Reads a text from its start to its end."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._end = len(text)
        self.at = 0
        self.depth = 0

    def error(self, message: str, at: int | None = None) -> BadSyntax:
        """Return the error at position `at`; None for the reader's position."""
        return BadSyntax(f"Syntax error in {self.location(self.at if at is None else at)}: {shortened(message)}")

    def location(self, at: int) -> str:
        """Return `:line:column` of a position."""
        return f":{self._text.count(chr(10), 0, at) + 1}:{at - self._text.rfind(chr(10), 0, at)}"

    def enter(self) -> None:
        """Count one more level of nesting. Raises BadSyntax."""
        self.depth += 1
        if self.depth > NESTING_MAX:
            raise self.error(f"more than {NESTING_MAX} levels are nested")

    def leave(self) -> None:
        self.depth -= 1

    def is_at_end(self) -> bool:
        """Skip white space and comments; return whether the text ends there."""
        text = self._text
        while True:
            match = _SPACE.match(text, self.at)
            self.at = match.end() if match else self.at
            if self.at == self._end:
                return True
            if text[self.at] != "/":
                return False
            comment = _COMMENT.match(text, self.at)
            if comment is None:
                is_open = text.startswith("/*", self.at)
                self.at = self._end - 1 if is_open else min(self.at + 2, self._end)
                raise self.error("unterminated comment" if is_open else "unexpected '/'")
            self.at = comment.end()

    def peek(self) -> str:
        """Return the next character that is no white space, without reading it. Raises BadSyntax at the end."""
        at = self.at
        if at < self._end:
            char = self._text[at]
            if char not in " \t\r\n/":
                return char
        if self.is_at_end():
            raise self.error("unexpected end of file")
        return self._text[self.at]

    def take(self, char: str) -> bool:
        """Read the next character if it is `char`; return whether it is."""
        if self.peek() != char:
            return False
        self.at += 1
        return True

    def next(self) -> str:
        """Read the next character that is no white space."""
        char = self.peek()
        self.at += 1
        return char

    def require(self, char: str) -> None:
        """Read the next character. Raises BadSyntax if it is not `char`."""
        found = self.next()
        if found != char:
            raise self.error(f"expected '{char}' but was '{found}'")

    def word(self, *, may_start_with_digit: bool = True) -> str:
        """Read a word, which may have dots."""
        if not self.is_at_end() and (match := _WORD.match(self._text, self.at)):
            word = match.group()
            if not may_start_with_digit and word[0].isdigit():
                raise self.error("field and constant names cannot start with a digit", self.at - 1)
            self.at = match.end()
            return word
        raise self.error("expected a word")

    def name(self, *, may_start_with_digit: bool = True, keeps_brackets: bool = False) -> str:
        """Read a word, which may stand in parentheses or brackets."""
        opening = self.peek()
        closing = {"(": ")", "[": "]"}.get(opening)
        if closing is None:
            return self.word(may_start_with_digit=may_start_with_digit)
        self.at += 1
        word = self.word(may_start_with_digit=may_start_with_digit)
        if self.next() != closing:
            raise self.error(f"expected '{closing}'")
        return f"{opening}{word}{closing}" if keeps_brackets else word

    def type(self, word: str | None = None) -> str:
        """Read a type: a word or `map<K, V>`. word: the first word if it is read already."""
        word = self.word() if word is None else word
        if word != "map":
            return word
        self.enter()
        self._angle("<")
        key = self.type()
        self._angle(",")
        value = self.type()
        self._angle(">")
        self.leave()
        return f"map<{key}, {value}>"

    def _angle(self, char: str) -> None:
        if self.next() != char:
            raise self.error(f"expected '{char}'")

    def integer(self) -> int:
        """Read a signed 32-bit integer."""
        word = self.word()
        is_hexadecimal = word[:2] in ("0x", "0X")
        value = _number(word[2:], 16) if is_hexadecimal else _number(word, 10)
        if value is None:
            raise self.error(f"expected an integer but was {word[2:] if is_hexadecimal else word}")
        return value

    def last_number(self, largest: int) -> int:
        """Read the end of a range: a number, or `max`, which is `largest`."""
        word = self.word()
        if word == "max":
            return largest
        value = _number(word, 10)
        if value is None:
            raise BadSyntax(shortened(f'For input string: "{word}"'))
        return value

    def string_or_word(self) -> str:
        """Read a string, or a word without quotes."""
        return self.string() if self.peek() in "\"'" else self.word()

    def string(self) -> str:
        """Read a string, and the adjacent ones."""
        text = self._text
        quote = self.next()
        if quote not in "\"'":
            raise BadSyntax("Check failed.")
        parts: list[str] = []
        while True:
            plain = _PLAIN.match(text, self.at)
            if plain is not None and plain.end() > self.at:
                parts.append(plain.group())
                self.at = plain.end()
            if self.at == self._end:
                raise self.error("unterminated string")
            char = text[self.at]
            self.at += 1
            if char == "\\":
                parts.append(self._escape())
            elif char != quote:
                parts.append(char)
            elif self.peek() in "\"'":
                quote = self.next()
            else:
                return "".join(parts)

    def _escape(self) -> str:
        if self.at == self._end:
            raise self.error("unexpected end of file")
        if number := _ESCAPED_NUMBER.match(self._text, self.at):
            self.at = number.end()
            return chr(int(number[1], 16) if number[1] else int(number[2], 8))
        char = self._text[self.at]
        self.at += 1
        if char in "xX":
            raise self.error("expected a digit after \\x or \\X")
        return _ESCAPES.get(char, char)

    def end_declaration(self) -> None:
        """Skip a comment on the same line after a declaration. Raises BadSyntax if another declaration follows on that
        line."""
        text = self._text
        blanks = _BLANKS.match(text, self.at)
        at = blanks.end() if blanks else self.at
        if at == self._end:
            raise self.error("expected '//' or '/*'", at)
        if text[at] != "/":
            return
        if text.startswith("//", at):
            end = text.find("\n", at)
            self.at = self._end if end < 0 else end + 1
            return
        if not text.startswith("/*", at):
            raise self.error("expected '//' or '/*'", at)
        end = text.find("*/", at + 2)
        if end < 0:
            raise self.error("trailing comment must be closed", self._end)
        self.at = end + 2
        rest = _REST_OF_LINE.match(text, self.at)
        self.at = min(rest.end() + 1 if rest else self.at, self._end)
        if self.at < self._end and text[self.at - 1] != "\n":
            raise self.error("no syntax may follow trailing comment")


def _number(word: str, base: int) -> int | None:
    """Return a word's value if it is a signed 32-bit integer, otherwise None."""
    match = (_HEXADECIMAL if base == 16 else _DECIMAL).fullmatch(word)
    if match is None:
        return None
    value = int(match[1], base)
    value = -value if word[0] == "-" else value
    return value if -(1 << 31) <= value < 1 << 31 else None
