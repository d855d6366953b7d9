"""ssl.principal.mapping.rules: maps the distinguished name of a client's certificate to the name of its principal.

    RULE:pattern/replacement/[LU]    a name that the pattern matches as a whole: each match within it is replaced
                                     ($1, ${name}), the result in lower or upper case
    DEFAULT                          the distinguished name as it is

Rules are separated by commas; the first that applies decides. A slash within a rule is written "\\/". Patterns are
Java's, as far as kcli.java.regex has them. Source: SslPrincipalMapper; KIP-371.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kcli.errors import KcliError
from kcli.java.linear_regex import PatternError
from kcli.java.regex import LINE_BREAKS, JavaRegex, Template
from kcli.java.values import java_trim

_DOT: Final = r"[^\n\r\x85\u2028\u2029]"
_END: Final = r"(?=[\x85\u2028\u2029]?\Z)"
_RULE: Final = rf"(DEFAULT)|RULE:((?:\\{_DOT}|[^\\/])*)/((?:\\{_DOT}|[^\\/])*)/([LU]?){_DOT}*?|({_DOT}*?)"
_SPLITTER: Final = re.compile(rf"\s*({_RULE})\s*(,\s*|{_END})", re.ASCII)
_PARSER: Final = re.compile(_RULE, re.ASCII)
_REFERENCE: Final = re.compile(r"\$([0-9]+)")
_DIGITS_MAX: Final = 9
"""The maximum number of digits in a reference to a group, which Java reads as an int."""


class InvalidMappingRule(KcliError):
    """A text is not a valid rule of ssl.principal.mapping.rules, or its pattern is invalid or not supported."""


class InvalidReplacement(InvalidMappingRule):
    """A rule has an invalid replacement: Kafka starts with such a rule, and refuses every client that the pattern
    matches."""


class NoMatchingRule(KcliError):
    """No rule applies to a distinguished name: a client with such a certificate cannot connect."""


@dataclass(frozen=True, slots=True)
class _Rule:
    text: str
    regex: JavaRegex
    replacement: Template
    case: str

    def apply(self, name: str) -> str | None:
        """Return the name of the principal; None if the rule does not apply."""
        if not self.regex.matches(name):
            return None
        result = self.regex.replace_all(name, self.replacement)
        return result.lower() if self.case == "L" else result.upper() if self.case == "U" else result


class PrincipalMapping:
    """The rules of ssl.principal.mapping.rules. Raises InvalidMappingRule. rules: the value of that configuration."""

    def __init__(self, rules: str = "DEFAULT") -> None:
        self._rules = [rule for text in _split(java_trim(rules)) if (rule := _parse(text)) is not None]

    def name(self, distinguished_name: str) -> str:
        """Return the name of the principal whose certificate has this subject.

        Raises NoMatchingRule. No pattern matches a distinguished name with a line break.
        """
        has_line_break = not LINE_BREAKS.isdisjoint(distinguished_name)
        for rule in self._rules:
            if isinstance(rule, _Rule):
                name = None if has_line_break else rule.apply(distinguished_name)
            else:
                name = distinguished_name
            if name is not None:
                return name
        rules = ", ".join(rule.text if isinstance(rule, _Rule) else rule for rule in self._rules)
        raise NoMatchingRule(f"No rules apply to {distinguished_name}, rules [{rules}]")


def _split(rules: str) -> list[str]:
    return [found[1] for found in _SPLITTER.finditer(rules)]


def _parse(text: str) -> _Rule | str | None:
    """Return the rule in a text: a _Rule, the text DEFAULT, or None for an empty text. Raises InvalidMappingRule."""
    found = _PARSER.match(text)
    end = found.end() if found else 0
    if found is None or end != len(text):
        raise InvalidMappingRule(f"Invalid rule: `{text}`, unmatched substring: `{text[end:]}`")
    default, pattern, replacement, case, _ = found.groups()
    if default is not None:
        return default
    if pattern is None:
        return None
    try:
        regex = JavaRegex(pattern)
    except PatternError as error:
        raise InvalidMappingRule(f"ssl.principal.mapping.rules: {text}: {error}") from None
    try:
        template = Template.of(_with_literal_references(replacement, regex.groups), regex)
    except PatternError as error:
        raise InvalidReplacement(f"ssl.principal.mapping.rules: {text}: {error}") from None
    shown = f"RULE:{pattern}/{replacement}{f'/{case}' if case else ''}"
    return _Rule(shown, regex, template, case)


def _with_literal_references(replacement: str, groups: int) -> str:
    """Return the replacement with a backslash before each reference to a group that the pattern does not have.

    With two such references the second backslash comes one character too early, as in Kafka. Source:
    Rule.escapeLiteralBackReferences. Raises PatternError.
    """
    if groups == 0:
        return replacement
    value = replacement
    for found in _REFERENCE.finditer(replacement):
        if found[1].startswith("0"):
            continue
        if len(found[1]) > _DIGITS_MAX:
            raise PatternError(f"no group has the number {found[1]}")
        number = int(found[1])
        while number > groups and number >= 10:
            number //= 10
        if number > groups:
            value = value[: found.start()] + "\\" + value[found.start() :]
    return value
