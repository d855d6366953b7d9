"""Java's regular expressions in a schema: whether a pattern is valid, and whether it matches a part of a property's
name."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from kcli.java.linear_regex import PatternError
from kcli.java.regex import JavaRegex

_ESCAPES: Final = frozenset("tnrfaedDsSwWhHvV")
_OUTSIDE: Final = frozenset("AbBGRXzZ123456789")
_FLAGS: Final = re.compile(r"[idmsuxU]*(?:-[idmsuxU]*)?([:)])")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_COUNT: Final = re.compile(r"\{(\d+)(,?)(\d*)(\}?)", re.ASCII)
_PROPERTY: Final = re.compile(
    r"[A-Z]|\{(?:C[cfnos]?|L[lmotu1CD]?|M[cen]?|N[dlo]?|P[cdefios]?|S[ckmo]?|Z[lps]?|all|Lower|Upper|ASCII|Alpha|Digit|Alnum"
    r"|Punct|Graph|Print|Blank|Cntrl|XDigit|Space|(?:Is|In|java)\w+|\w+=[\w -]+)\}",
    re.ASCII,
)
_NAMED: Final = {"p": _PROPERTY, "P": _PROPERTY, "N": re.compile(r"\{[A-Z0-9 -]+\}")}
_HEX: Final = {
    "x": re.compile(r"[0-9A-Fa-f]{2}|\{0*(?:10[0-9A-Fa-f]{4}|[0-9A-Fa-f]{1,5})\}"),
    "u": re.compile("[0-9A-Fa-f]{4}"),
}
_OCTAL: Final = re.compile("[0-3][0-7]{0,2}|[4-7][0-7]?")
_CONTROLS: Final = {"t": 9, "n": 10, "r": 13, "f": 12, "a": 7, "e": 27}


def found_in(pattern: str, text: str) -> bool:
    """Return whether a pattern matches a part of a text. A pattern that needs more than linear time, such as one with a
    look-ahead, never matches."""
    try:
        return _compiled(pattern).finds(text)
    except PatternError:
        return False


@lru_cache(64)
def _compiled(pattern: str) -> JavaRegex:
    return JavaRegex(pattern)


def syntax_error(pattern: str) -> str | None:
    """Return the reason why java.util.regex.Pattern refuses a pattern, None if it accepts it."""
    try:
        _Syntax(pattern).check()
    except PatternError as error:
        return str(error)
    return None


@dataclass
class _Syntax:
    """Checks a pattern in one pass. open: the number of open groups."""

    pattern: str
    at: int = 0
    open: int = 0
    names: set[str] = field(default_factory=set)

    def check(self) -> None:
        """Raises PatternError."""
        while self.at < len(self.pattern):
            char = self.pattern[self.at]
            self.at += 1
            match char:
                case "*" | "+" | "?":
                    raise PatternError(f"Dangling meta character '{char}'")
                case "|":
                    continue
                case "(":
                    self._group()
                    continue
                case ")":
                    if not self.open:
                        raise PatternError("Unmatched closing ')'")
                    self.open -= 1
                case "[":
                    self._class()
                case "\\":
                    if self._take("Q"):
                        end = self.pattern.find("\\E", self.at)
                        self.at = len(self.pattern) if end < 0 else end + 2
                    else:
                        self._escape(in_class=False)
                case "{":
                    self.at -= 1
            self._quantifier()
        if self.open:
            raise PatternError("Unclosed group")

    def _take(self, text: str) -> bool:
        if not self.pattern.startswith(text, self.at):
            return False
        self.at += len(text)
        return True

    def _peek(self) -> str:
        return self.pattern[self.at : self.at + 1]

    def _quantifier(self) -> None:
        char = self._peek()
        if char == "{":
            match = _COUNT.match(self.pattern, self.at)
            if match is None:
                raise PatternError("Illegal repetition")
            if not match[4]:
                raise PatternError("Unclosed counted closure")
            least, most = int(match[1][:20]), int(match[3][:20] or match[1][:20])
            if max(least, most) >= 2**31 or most < least:
                raise PatternError("Illegal repetition range")
            self.at = match.end()
        elif char and char in "*+?":
            self.at += 1
        else:
            return
        if self._peek() in ("?", "+"):
            self.at += 1

    def _group(self) -> None:
        if self._take("?"):
            if self._take("<"):
                if not (self._take("=") or self._take("!")):
                    self._name(">")
            elif not (self._take("=") or self._take("!") or self._take(">")):
                flags = _FLAGS.match(self.pattern, self.at)
                if flags is None:
                    raise PatternError("Unknown inline modifier")
                self.at = flags.end()
                if flags[1] == ")":
                    return
        self.open += 1

    def _name(self, end: str) -> None:
        match = _NAME.match(self.pattern, self.at)
        if match is None or not self.pattern.startswith(end, match.end()):
            raise PatternError("a capturing group without a name")
        if match[0] in self.names:
            raise PatternError(f"Named capturing group <{match[0]}> is already defined")
        self.names.add(match[0])
        self.at = match.end() + len(end)

    def _escape(self, *, in_class: bool) -> int | None:
        """Read an escape after its backslash. Return the code of the character that it stands for; None if it stands
        for several characters or none."""
        char = self._peek()
        if not char:
            raise PatternError("Unexpected internal error")
        self.at += 1
        if not (char.isascii() and char.isalnum()):
            return ord(char)
        if char in _ESCAPES:
            return _CONTROLS.get(char)
        if char in _HEX or char == "0":
            match = _HEX.get(char, _OCTAL).match(self.pattern, self.at)
            if match is None:
                raise PatternError("Illegal hexadecimal, octal or Unicode escape sequence")
            self.at = match.end()
            return int(match[0].strip("{}"), 8 if char == "0" else 16)
        if char == "c":
            if not self._peek():
                raise PatternError("Illegal control escape sequence")
            self.at += 1
            return ord(self.pattern[self.at - 1]) ^ 64
        if char in _NAMED:
            match = _NAMED[char].match(self.pattern, self.at)
            if match is None:
                raise PatternError("Unknown character property name, or character name")
            self.at = match.end()
            return None
        if char == "k" and not in_class and self._take("<"):
            match = _NAME.match(self.pattern, self.at)
            if match is None or match[0] not in self.names or not self.pattern.startswith(">", match.end()):
                raise PatternError("a reference to no named group")
            self.at = match.end() + 1
            return None
        if char in _OUTSIDE and not in_class:
            return None
        raise PatternError("Illegal/unsupported escape sequence")

    def _class(self) -> None:
        """Read a class in brackets, with the classes within it."""
        depth = 1
        self._take("^")
        is_empty = True
        while depth:
            char = self._peek()
            if not char:
                raise PatternError("Unclosed character class")
            self.at += 1
            if char == "]" and not is_empty:
                depth -= 1
            elif char == "[":
                depth += 1
                self._take("^")
                is_empty = True
                continue
            elif char == "&" and self._take("&"):
                while self._take("&"):
                    pass
                continue
            else:
                self._member(char)
            is_empty = False

    def _member(self, char: str) -> None:
        if char == "\\" and self._take("Q"):
            end = self.pattern.find("\\E", self.at)
            self.at = len(self.pattern) if end < 0 else end + 2
            return
        first = self._escape(in_class=True) if char == "\\" else ord(char)
        following = self.pattern[self.at + 1 : self.at + 2]
        if first is None or self._peek() != "-" or following in ("", "]", "["):
            return
        self.at += 2
        last = self._escape(in_class=True) if following == "\\" else ord(following)
        if last is None or last < first:
            raise PatternError("Illegal character range")
