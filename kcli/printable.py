r"""Text from logs, brokers and disks, made safe to show.

Names in Kafka's logs are what any client sent: a group may be called `\x1b]0;title\x07`, or hold line ends that forge
rows of a table. A hidden character would move the cursor, colour a terminal, change the order of what is read, or
begin a line:

    C0, DEL, C1   U+0000..U+001F, U+007F..U+009F, with line feed, carriage return, escape and next line (U+0085)
    separators    U+2028 line, U+2029 paragraph
    bidirectional U+061C, U+200E, U+200F, U+202A..U+202E, U+2066..U+2069

They are escaped wherever text leaves kcli for people: `\x1b`, `\n`, `\u202e`; in JSON as `\u001b`.
formats.kernels.text escapes keys and values in the same way (`hidden_size`). --format kafka and the format strings of
`kcli consume` do not escape them: programs read that output as they read the output of Kafka's tools and of kcat.
"""

import re
from collections.abc import Sequence

HIDDEN = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
"""Hidden characters, as a class of a regular expression."""

_LINE = re.compile(f"[{HIDDEN}\ud800-\udc9f]")
_HIDDEN = re.compile(f"[{HIDDEN}]")
_JSON = re.compile(f"[{HIDDEN}\ud800-\udfff]")
_QUOTED = re.compile(f'["\\\\{HIDDEN}]')
_NAMED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def is_utf8(name: str) -> bool:
    """Whether the name of a file or an argument is UTF-8. Python replaces bytes that are not UTF-8 by surrogates."""
    return not any("\ud800" <= char <= "\udfff" for char in name)


def has_hidden(text: str) -> bool:
    """Whether the text contains a hidden character (HIDDEN)."""
    return _HIDDEN.search(text) is not None


def printable(text: object) -> str:
    """Return a text (a path, an error) as one line, in which hidden characters are escaped as Python escapes them.

    Bytes of a file's name that are not UTF-8, which Python has as surrogates, are kept, except C1 control characters.
    """
    return _LINE.sub(lambda found: repr(found[0])[1:-1], str(text))


def printable_json(text: str) -> str:
    """Return JSON as one line, in which hidden characters are escaped as JSON escapes them, so that its value is
    unchanged.

    Surrogates, by which Python replaces bytes of a file's name that are not UTF-8, are escaped too: the JSON is always
    valid UTF-8.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return _JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def shown(data: bytes | None, fold: int = -1) -> str:
    """Return bytes as text for a terminal: printable text as it is, quoted if it is ambiguous; 0x... for other bytes;
    null for None.

    fold: the maximum number of bytes shown, -1 for all. dump-segment prints the same text, from compiled code of its
    own.
    """
    if data is None:
        return "null"
    cut = data if fold < 0 else data[:fold]
    more = f"... ({len(data):,} B)" if len(cut) < len(data) else ""
    try:
        data.decode()
    except UnicodeDecodeError:
        return f"0x{cut.hex()}{more}"
    text = cut.decode(errors="ignore")
    if not text or text == "null" or text[0] in ' "' or text[-1] == " " or text[:2] == "0x" or has_hidden(text):
        text = '"' + _QUOTED.sub(lambda found: _escape(found[0]), text) + '"'
    return text + more


def _escape(char: str) -> str:
    return _NAMED.get(char) or f"\\u{ord(char):04x}"


def names_text(names: Sequence[object], shown: int) -> str:
    """Return the first `shown` of the names, and how many more there are: `a, b and 3 more`."""
    text = ", ".join(map(str, names[:shown]))
    return f"{text} and {len(names) - shown:,} more" if len(names) > shown else text
