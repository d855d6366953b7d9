"""Valid and invalid regular expressions, on which the tests of this package compare kcli with Kafka."""

from collections.abc import Iterable

from kcli.group.consumer.topic_regex import Search

TOPICS = [
    "a",
    "ab",
    "abc",
    "A",
    "a.b",
    "a-b_c",
    "orders",
    "orders-eu",
    "orders.eu.v1",
    "__consumer_offsets",
    "0",
    "007",
    "x" * 249,
]

VALID = [
    r"a",
    r"a.*",
    r".*",
    r"",
    r"^a$",
    r"orders(-|\.)eu.*",
    r"(?i)a",
    r"(?i)(?-s:A.B)",
    r"[[:alpha:]]+",
    r"[[:^alpha:]]+",
    r"[^a]*",
    r"[]a]",
    r"\d+",
    r"\w{3}",
    r"\pL+",
    r"\PL+",
    r"\p{Greek}|a",
    r"\Qa.b\E",
    r"\Qa.b",
    r"\Q\C\E|a",
    r"\\C|a",
    r"\Aa\z",
    r"(?<n>a)b",
    r"(?P<n>a)(?P<m>b)",
    r"(?U)a+",
    r"a{0}",
    r"a{,2}",
    r"x{249}",
    r"(x{10}){24}x*",
    r"(|a)*",
    r"(?:a*)*",
    r"^*a",
    r"\bab\b",
    r"\x61|\x{62}",
    "(" * 500 + "a" + ")" * 500,
    r"(a|ab)(c|bcd)?",
    r"(a*)*b",
    r"[a-z]+([._-][a-z0-9]+)*",
]

INVALID = {
    "(": "missing closing )",
    "(?P<n>a": "missing closing )",
    ")": "regexp/syntax: internal error",
    "a)": "regexp/syntax: internal error",
    "[": "missing closing ]",
    "[a": "missing closing ]",
    "[]": "missing closing ]",
    "[[:alpha:]": "missing closing ]",
    "*a": "missing argument to repetition operator",
    "a|*": "missing argument to repetition operator",
    "a**": "invalid nested repetition operator",
    "a++": "invalid nested repetition operator",
    "a{2}{3}": "invalid nested repetition operator",
    "a{1001}": "invalid repeat count",
    "x{2,1}": "invalid repeat count",
    "\\": "trailing backslash at end of expression",
    "[\\": "trailing backslash at end of expression",
    r"\8": "invalid escape sequence",
    r"\Z": "invalid escape sequence",
    r"\C": "invalid escape sequence",
    r"a\Cb": "invalid escape sequence",
    r"\x{110000}": "invalid escape sequence",
    r"[a-\d]": "invalid escape sequence",
    "[b-a]": "invalid character class range",
    "[[:foo:]]": "invalid character class range",
    r"\p{Foo}": "invalid character class range",
    "(?=a)": "invalid or unsupported Perl syntax",
    "(?!a)": "invalid or unsupported Perl syntax",
    "(?>a)": "invalid or unsupported Perl syntax",
    "(?z)a": "invalid or unsupported Perl syntax",
    "(?": "invalid or unsupported Perl syntax",
    "(?P=n)": "invalid or unsupported Perl syntax",
    "(?P<>a)": "invalid named capture",
    "(?P<n": "invalid named capture",
    "(?P<a b>x)": "invalid named capture",
    "(?P<n>a)(?P<n>b)": "duplicate capture group name",
    "(?P<n>a)|(?<n>b)": "duplicate capture group name",
}


def matching(topic_names: Iterable[str], patterns: Iterable[str]) -> dict[str, set[str]]:
    """Return the topics that a search of the whole name finds for each pattern."""
    search = Search(topic_names, patterns)
    while not search.is_over:
        search.go_on()
    return search.matched
