r"""Properties: `meta.properties` of a log directory and `partition.metadata` of a partition.

    meta.properties      a Java properties file
      version            1 (KRaft), or 0 (ZooKeeper) with broker.id in place of node.id; 0 if it is missing
      cluster.id         of the cluster that the directory belongs to; required in version 1
      node.id            of the node that the directory belongs to; required in version 1
      directory.id       22 characters of base64: the id of the log directory (KIP-858), optional
    partition.metadata   two lines `name: value`; Kafka ignores the names and any further lines
      version            0; Kafka reads any version from 0 on
      topic_id           22 characters of base64 (KIP-516)

    properties file      ISO 8859-1; lines end with LF, CR or CR LF
      comment            a line whose first character that is not white is # or !
      entry              key, then =, : or white, then value, to the end of the line
      escapes            \t \n \r \f \uXXXX; \ before any other character stands for that character; \ at the end of
                         a line continues the entry on the next line

Source: java.util.Properties, MetaProperties, PartitionMetadataFile.
"""

import base64
import codecs
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from formats.checkpoint import is_utf16, shown_line
from formats.errors import BadValue, UnknownVersion

_UUID = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?")
_INT = re.compile(r"[+-]?[0-9]{1,100}")
_COLON = re.compile(r":[ \t\n\v\f\r]+")
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_KEY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_TO_ESCAPE = re.compile(r"[\\=:#! \t\n\r\f]|[^ -~]")
_Utf8Decoder = codecs.getincrementaldecoder("utf-8")
BYTE_ORDER_MARK = codecs.BOM_UTF8
"""The byte order mark that some editors write before the first line; Java reads it as a part of that line."""
READ_AT_ONCE_BYTES = 8192
"""How many bytes a Java BufferedReader decodes before it returns the first line: bytes after these may be invalid UTF-8
without an error, as Kafka reads only the first lines."""
ZERO_ID = "A" * 22
"""The zero UUID, which Kafka never assigns to a topic."""
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {char: letter for letter, char in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class Properties:
    """A properties file: its comments (each without its # and line end), its entries in the order of the file."""

    entries: Mapping[str, str]
    comments: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """The entries of meta.properties; None for an entry that the file lacks."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The entries of partition.metadata."""

    version: int
    topic_id: str


def parse(data: bytes) -> Properties:
    """Return the entries of a properties file; a repeated key has its last value.

    Raises BadValue at a malformed escape.
    """
    comments: list[str] = []
    entries: dict[str, str] = {}
    for position, line in _logical_lines(data.decode("latin-1"), comments):
        match = _KEY.match(line)
        assert match, "the pattern matches the empty string"
        entries[_unescape(match[1], position)] = _unescape(line[match.end() :], position)
    return Properties(entries, tuple(comments))


def build(properties: Properties) -> bytes:
    """Return the bytes of a properties file as Java writes it: comments first, then `key=value`, in ASCII."""
    lines = [f"#{comment}\n" for comment in properties.comments]
    lines += [f"{_escape(key, key=True)}={_escape(value)}\n" for key, value in properties.entries.items()]
    return "".join(lines).encode("latin-1", "backslashreplace")


def meta_properties(properties: Properties) -> MetaProperties:
    """Return the entries of a meta.properties file.

    Raises BadValue or UnknownVersion for entries with which Kafka does not start.
    """
    entries = properties.entries
    number = entries.get("version", "0")
    version = _int32(number)
    if version not in (0, 1):
        raise UnknownVersion(f"meta.properties version {number[:100]!r}, not 0 or 1")
    node_key = "node.id" if version == 1 else "broker.id"
    if version == 1:
        for key in ("cluster.id", node_key):
            if key not in entries:
                raise BadValue(f"meta.properties has no {key}")
    text = entries.get(node_key)
    node = None if text is None else _int32(text)
    if text is not None and node is None:
        raise BadValue(f"{node_key} is {text[:100]!r}, not an int32")
    directory = entries.get("directory.id")
    if directory is not None:
        directory = _uuid("directory.id", directory)
    return MetaProperties(version, entries.get("cluster.id"), node, directory)


def legible_meta_properties(data: bytes) -> MetaProperties:
    """Return what can be read in a damaged meta.properties: each id that is valid once white space around it is
    removed, even if the file begins with a byte order mark, also that of UTF-16; None for any other id."""
    if is_utf16(data):
        data = data.decode("utf-16", "replace").encode("latin-1", "replace")
    try:
        entries = parse(data.removeprefix(BYTE_ORDER_MARK)).entries
    except BadValue:
        return MetaProperties(1, None, None, None)
    directory = entries.get("directory.id", "").strip()
    directory_id = _uuid("directory.id", directory) if _UUID.fullmatch(directory) else None
    node_id = _int32(entries.get("node.id", entries.get("broker.id", "")).strip())
    return MetaProperties(1, entries.get("cluster.id", "").strip() or None, node_id, directory_id)


def parse_partition_metadata(data: bytes) -> PartitionMetadata:
    """Return the entries of a partition.metadata file.

    Like Kafka it accepts any version from 0 on, and ignores the names and what follows the second line.
    Raises BadValue, UnknownVersion, with the position of the line.
    """
    try:
        text = _Utf8Decoder().decode(data[:READ_AT_ONCE_BYTES], final=len(data) <= READ_AT_ONCE_BYTES)
    except UnicodeDecodeError as error:
        raise BadValue("not UTF-8", error.start) from None
    first, _, rest = text.replace("\r\n", "\n").replace("\r", "\n").partition("\n")
    number = _value_in("version", first, 0)
    version = _int32(number)
    if version is None:
        raise BadValue(f"version is {number[:100]!r}, not an int32", 0)
    if version < 0:
        raise UnknownVersion(f"partition.metadata version {version}, not 0 or above", 0)
    position = min(len(first.encode()) + 1, len(data))
    topic_id = _uuid("topic_id", _value_in("topic_id", rest.partition("\n")[0], position), position)
    if topic_id == ZERO_ID:
        raise BadValue("topic_id is the id of no topic", position)
    return PartitionMetadata(version, topic_id)


def _value_in(name: str, line: str, position: int) -> str:
    """Return the value in a line `name: value`, whatever the name in it. Java's `split(":\\s+")` must return two parts
    of the line; it drops empty parts at the end. Raises BadValue."""
    parts = _COLON.split(line)
    while len(parts) > 1 and not parts[-1]:
        parts.pop()
    if len(parts) != 2:
        raise BadValue(f"not a line `{name}: value`", position)
    return parts[1]


def build_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """Return the bytes of partition.metadata, without a line end behind the last line, as Kafka writes it."""
    return f"version: {metadata.version}\ntopic_id: {metadata.topic_id}".encode()


def _uuid(name: str, text: str, position: int | None = None) -> str:
    """Return the id as Kafka writes it: unused bits of the last character are 0, and no padding follows. name,
    position: the property and its byte (None: not known), for the error. Raises BadValue."""
    if not _UUID.fullmatch(text):
        raise BadValue(f"{name} is {shown_line(text)}, not 22 characters of base64", position)
    raw = base64.urlsafe_b64decode(f"{text[:22]}==")
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _int32(text: str) -> int | None:
    """Return the number that Java's `Integer.parseInt` returns; None if that throws an exception."""
    number = int(text) if _INT.fullmatch(text) else 2**31
    return number if -(2**31) <= number < 2**31 else None


def _logical_lines(text: str, comments: list[str]) -> Iterator[tuple[int, str]]:
    """Yield position and text of each entry, continued lines joined; append the comments to `comments`."""
    position = 0
    while position < len(text):
        start, line = position, ""
        while True:
            match = _LINE.match(text, position)
            assert match, "the pattern matches up to the end of any text"
            part, position = match[1].lstrip(" \t\f"), match.end()
            if not line and part[:1] in ("#", "!"):
                comments.append(part[1:])
                break
            line += part
            backslashes = len(line) - len(line.rstrip("\\"))
            if backslashes % 2 == 0:
                break
            line = line[:-1]
            if position >= len(text):
                break
        if line:
            yield start, line


def _unescape(text: str, position: int) -> str:
    def char(match: re.Match[str]) -> str:
        escaped: str = match[1]
        if escaped == "u":
            raise BadValue("a malformed \\uXXXX", position)
        return chr(int(escaped[1:], 16)) if len(escaped) > 1 else _LETTERS.get(escaped, escaped)

    units = _ESCAPE.sub(char, text).encode("utf-16-be", "surrogatepass")  # a surrogate pair is two escapes
    return units.decode("utf-16-be", "replace")


def _escape(text: str, *, key: bool = False) -> str:
    def escaped(match: re.Match[str]) -> str:
        char = match[0]
        if char == " " and not key and match.start() > 0:
            return char
        if char in _ESCAPED:
            return f"\\{_ESCAPED[char]}"
        if " " <= char <= "~":
            return f"\\{char}"
        units = char.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at : at + 2].hex().upper()}" for at in range(0, len(units), 2))

    return _TO_ESCAPE.sub(escaped, text)
