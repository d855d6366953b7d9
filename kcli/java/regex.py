"""Java's regular expressions and replacements, as they are in an operator's configuration, matched by RE2.

RE2 finds what Java finds, in time linear in the text, if the text has no line break. RE2 has no look-around, no
reference to a group within the pattern, and no possessive quantifier: a pattern with any of these is refused, and so is
syntax that RE2 reads differently than Java (nested classes, \\b, \\p, flags other than a leading (?i), the repetition
of a group that captures and may be empty).

    .             any character but a line break
    $             the end of the text
    \\d \\w \\s     ASCII digits; ASCII letters, digits and _; ASCII white space
    (?i)          ignore the case of ASCII letters
    (?<name>x)    a capturing group, which ${name} in a replacement refers to
    \\Q..\\E       the text in between, literally

Source: java.util.regex.Pattern, Matcher.appendReplacement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Self

from kcli.java.linear_regex import LENGTH_MAX, MEMORY_BYTES_MAX, PatternError

LINE_BREAKS: Final = frozenset("\n\r\x85\u2028\u2029")
_ANY: Final = r"[^\n\r\x{85}\x{2028}\x{2029}]"
_CLASSES: Final = {
    "d": "0-9",
    "D": r"\D",
    "w": "0-9A-Za-z_",
    "W": r"\W",
    "s": r"\t\n\x{b}\f\r\x{20}",
    "S": r"\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{10ffff}",
}
"""The characters that each escape stands for, as RE2 writes them within [ ]."""
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_DIGITS: Final = frozenset("0123456789")
_LOWER: Final = range(ord("a"), ord("z") + 1)
_UPPER: Final = range(ord("A"), ord("Z") + 1)
_CASE_STEP: Final = ord("a") - ord("A")


class JavaRegex:
    """A pattern of Java's, compiled. Raises PatternError.

    groups: the number of capturing groups. names: the numbers of the named groups, by name.
    """

    def __init__(self, pattern: str) -> None:
        if len(pattern) > LENGTH_MAX:
            raise PatternError(f"{len(pattern):,} characters, {LENGTH_MAX:,} are allowed")
        translation = _Translation(_unquoted(pattern))
        translated = translation.run()
        import re2

        options = re2.Options()
        options.log_errors = False
        options.max_mem = MEMORY_BYTES_MAX
        try:
            self._compiled = re2.compile(translated, options)
        except re2.error as error:
            raise PatternError(str(error.args[0], "utf-8", "replace").split(": ", 1)[0]) from None
        self.pattern = pattern
        self.groups = translation.groups
        self.names = translation.names

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        return self._compiled.fullmatch(text) is not None

    def finds(self, text: str) -> bool:
        """Return whether a part of the text matches."""
        return self._compiled.search(text) is not None

    def replace_first(self, text: str, template: Template) -> str:
        """Return the text with the first match replaced. template: made for this pattern."""
        match = self._compiled.search(text)
        return text if match is None else text[: match.start()] + template.expand(match) + text[match.end() :]

    def replace_all(self, text: str, template: Template) -> str:
        """Return the text with each match replaced. template: made for this pattern."""
        parts: list[str] = []
        end = 0
        for match in self._compiled.finditer(text):
            parts += [text[end : match.start()], template.expand(match)]
            end = match.end()
        return "".join(parts) + text[end:]


@dataclass(frozen=True, slots=True)
class Template:
    """The replacement of a match, as literal texts and the numbers of groups."""

    parts: tuple[str | int, ...]

    @classmethod
    def of(cls, replacement: str, regex: JavaRegex) -> Self:
        """Parse a replacement: $1 and ${name} refer to groups, a backslash makes the next character literal.

        Raises PatternError; Java would fail only at the first match.
        """
        parts: list[str | int] = []
        at = 0
        while at < len(replacement):
            char = replacement[at]
            if char == "\\":
                if at + 1 == len(replacement):
                    raise PatternError("character to be escaped is missing")
                parts.append(replacement[at + 1])
                at += 2
            elif char == "$":
                number, at = _reference(replacement, at + 1, regex)
                parts.append(number)
            else:
                parts.append(char)
                at += 1
        return cls(tuple(parts))

    def expand(self, match: Any) -> str:
        """Return the replacement of one match. A group that did not take part in the match is replaced by nothing."""
        return "".join(part if isinstance(part, str) else match.group(part) or "" for part in self.parts)


def _reference(replacement: str, at: int, regex: JavaRegex) -> tuple[int, int]:
    """Return the number of the group to which a "$" refers, and the index after the reference. at: the index after the
    "$". Raises PatternError."""
    if at == len(replacement):
        raise PatternError("Illegal group reference: group index is missing")
    if replacement[at] == "{":
        name, closed, _ = replacement[at + 1 :].partition("}")
        if not closed or name not in regex.names:
            raise PatternError(f"No group with name {{{name}}}")
        return regex.names[name], at + len(name) + 2
    if replacement[at] not in _DIGITS:
        raise PatternError("Illegal group reference")
    number, at = int(replacement[at]), at + 1
    if number > regex.groups:
        raise PatternError(f"No group {number}")
    while at < len(replacement) and replacement[at] in _DIGITS and number * 10 + int(replacement[at]) <= regex.groups:
        number, at = number * 10 + int(replacement[at]), at + 1
    return number, at


def _unquoted(pattern: str) -> str:
    r"""Return the pattern with the text between \Q and \E written as escapes."""
    parts: list[str] = []
    at = 0
    while at < len(pattern):
        if pattern.startswith(r"\Q", at):
            quoted, _, _ = pattern[at + 2 :].partition(r"\E")
            parts += [f"\\x{{{ord(char):x}}}" for char in quoted]
            at += 2 + len(quoted) + 2
        else:
            width = 2 if pattern[at] == "\\" else 1
            parts.append(pattern[at : at + width])
            at += width
    return "".join(parts)


@dataclass
class _Frame:
    """A group that is not closed yet, or the whole pattern, and whether its alternatives may match the empty text.

    captures: whether the group is a capturing group, or contains one. last_captures: whether its last piece is, or
    contains, a capturing group.
    """

    captures: bool = False
    is_empty: bool = True
    """Whether the alternative, without its last piece, may match the empty text."""
    has_empty: bool = False
    """Whether an earlier alternative may match the empty text."""
    last_is_empty: bool = True
    """Whether the last piece of the alternative may match the empty text."""
    last_captures: bool = False

    def add(self, *, is_empty: bool, captures: bool = False) -> None:
        """Add the next piece (an atom or a group) to the alternative. is_empty: whether the piece may match the empty
        text. captures: whether it is, or contains, a capturing group."""
        self.is_empty &= self.last_is_empty
        self.last_is_empty, self.last_captures = is_empty, captures
        self.captures |= captures

    def end(self) -> bool:
        """End the alternative. Return whether this or an earlier alternative may match the empty text."""
        self.has_empty |= self.is_empty and self.last_is_empty
        self.is_empty = self.last_is_empty = True
        return self.has_empty


@dataclass
class _Translation:
    """One pass over a Java pattern, which translates it to RE2's syntax."""

    pattern: str
    at: int = 0
    groups: int = 0
    names: dict[str, int] = field(default_factory=dict)
    ignore_case: bool = False
    frames: list[_Frame] = field(default_factory=lambda: [_Frame()])

    def run(self) -> str:
        """Return the pattern in RE2's syntax. Raises PatternError."""
        if self._take("(?i)"):
            self.ignore_case = True
        parts: list[str] = []
        repeatable = False
        while self.at < len(self.pattern):
            char = self._next()
            if char in "*+?{":
                if not repeatable:
                    raise PatternError(f"Dangling meta character '{char}'")
                parts.append(self._quantifier(char))
                if char != "?" and self.frames[-1].last_is_empty and self.frames[-1].last_captures:
                    raise PatternError("the repetition of a group that may be empty is not supported")
                self.frames[-1].last_is_empty |= char in "*?" or parts[-1].startswith("{0")
                repeatable = False
            else:
                part, repeatable = self._piece(char)
                if char not in "(|)":
                    self.frames[-1].add(is_empty=not repeatable)
                parts.append(part)
        return "".join(parts)

    def _piece(self, char: str) -> tuple[str, bool]:
        """Return in RE2's syntax the piece that begins with `char`, and whether a quantifier may follow the piece."""
        match char:
            case ".":
                return _ANY, True
            case "^":
                return r"\A", False
            case "$":
                return r"\z", False
            case "|":
                self.frames[-1].end()
                return "|", False
            case "(":
                part = self._group()
                self.frames.append(_Frame(captures=part == "("))
                return part, False
            case ")":
                if len(self.frames) == 1:
                    raise PatternError("Unmatched closing ')'")
                group = self.frames.pop()
                self.frames[-1].add(is_empty=group.end(), captures=group.captures)
                return ")", True
            case "[":
                return self._class(), True
            case "\\":
                return self._escape_outside()
            case _:
                return self._literal(char), True

    def _next(self) -> str:
        if self.at == len(self.pattern):
            raise PatternError("the pattern ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    def _take(self, text: str) -> bool:
        """Return whether the text comes next in the pattern, and move past it if it does."""
        if not self.pattern.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def _digits(self) -> str:
        begin = self.at
        while self.at < len(self.pattern) and self.pattern[self.at] in _DIGITS:
            self.at += 1
        return self.pattern[begin : self.at]

    def _quantifier(self, char: str) -> str:
        text = char
        if char == "{":
            least = self._digits()
            comma = "," if self._take(",") else ""
            most = self._digits() if comma else ""
            if not least or not self._take("}"):
                raise PatternError("Illegal repetition")
            text = f"{{{int(least)}{comma}{most and int(most)}}}"
        if self._take("+"):
            raise PatternError("possessive quantifiers are not supported")
        return text + ("?" if self._take("?") else "")

    def _group(self) -> str:
        if not self._take("?"):
            self.groups += 1
            return "("
        if self._take(":"):
            return "(?:"
        if self._take("<") and self.pattern[self.at : self.at + 1] not in ("=", "!"):
            name, closed, _ = self.pattern[self.at :].partition(">")
            if not closed or not name.isascii() or not name.isalnum() or name[0] in _DIGITS or name in self.names:
                raise PatternError("a group without a name of its own")
            self.at += len(name) + 1
            self.groups += 1
            self.names[name] = self.groups
            return "("
        raise PatternError("groups with ? other than (?:...) and (?<name>...) are not supported")

    def _escape_outside(self) -> tuple[str, bool]:
        char = self._next()
        if char in _CLASSES:
            return f"[{_CLASSES[char]}]", True
        if char == "A":
            return r"\A", False
        if char == "z":
            return r"\z", False
        return self._literal(self._escaped(char)), True

    def _escaped(self, char: str) -> str:
        """Return the character that a backslash and `char` stand for. Raises PatternError."""
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char == "x" and self._take("{"):
            digits, closed, _ = self.pattern[self.at :].partition("}")
            self.at += len(digits) + 1
            return _character(digits if closed else "")
        if char in "xu":
            width = 2 if char == "x" else 4
            self.at += width
            digits = self.pattern[self.at - width : self.at]
            return _character(digits if len(digits) == width else "")
        if char.isascii() and char.isalnum():
            raise PatternError(f"\\{char} is not supported")
        return char

    def _class(self) -> str:
        negated = "^" if self._take("^") else ""
        parts: list[str] = []
        while (char := self._next()) != "]" or not parts:
            if char == "[" or (char == "&" and self.pattern.startswith("&", self.at)):
                raise PatternError("classes within classes are not supported")
            if char == "\\" and self.pattern[self.at : self.at + 1] in _CLASSES:
                parts.append(_CLASSES[self._next()])
                continue
            first = self._member(char)
            last = first
            if self.pattern.startswith("-", self.at) and self.pattern[self.at + 1 : self.at + 2] not in ("]", "", "["):
                self.at += 1
                last = self._member(self._next())
            if last < first:
                raise PatternError("Illegal character range")
            parts += self._range(ord(first), ord(last))
        return f"[{negated}{''.join(parts)}]"

    def _member(self, char: str) -> str:
        return self._escaped(self._next()) if char == "\\" else char

    def _range(self, first: int, last: int) -> list[str]:
        parts = [_hex_range(first, last)]
        for letters, step in ((_LOWER, -_CASE_STEP), (_UPPER, _CASE_STEP)) if self.ignore_case else ():
            low, high = max(first, letters[0]), min(last, letters[-1])
            if low <= high:
                parts.append(_hex_range(low + step, high + step))
        return parts

    def _literal(self, char: str) -> str:
        return f"[{''.join(self._range(ord(char), ord(char)))}]" if self.ignore_case else f"\\x{{{ord(char):x}}}"


def _hex_range(first: int, last: int) -> str:
    return f"\\x{{{first:x}}}-\\x{{{last:x}}}"


def _character(digits: str) -> str:
    """Return the character with this code in hexadecimal digits. Raises PatternError."""
    code = int(digits, 16) if digits and _HEX.issuperset(digits) and len(digits) <= len("10ffff") else -1
    if not 0 <= code < 0x110000 or 0xD800 <= code < 0xE000:
        raise PatternError("Illegal hexadecimal escape sequence")
    return chr(code)
