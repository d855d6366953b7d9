r"""Properties: `meta.properties` of a log directory and `partition.metadata` of a partition.

    meta.properties      a Java properties file
      version            1 (KRaft), or 0 (ZooKeeper) with broker.id in place of node.id; 0 where it is missing
      cluster.id         of the cluster that the directory belongs to; required in version 1
      node.id            of the node that the directory belongs to; required in version 1
      directory.id       22 characters of base64: which directory of the node this is (KIP-858), optional
    partition.metadata   lines `name: value`
      version            0
      topic_id           22 characters of base64 (KIP-516)

    properties file      ISO 8859-1; lines end with LF, CR or CR LF
      comment            a line whose first character that is not white is # or !
      entry              key, then =, : or white, then value, to the end of the line
      escapes            \t \n \r \f \uXXXX; \ before any other character means that character, before the end of the
                         line that the entry goes on with the next line

Source: java.util.Properties, MetaProperties, PartitionMetadataFile.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from formats.errors import BadValue, UnknownVersion

_UUID = re.compile(r"[A-Za-z0-9_-]{22}")
_INT = re.compile(r"[+-]?[0-9]{1,10}")
_LINE = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_KEY = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_TO_ESCAPE = re.compile(r"[\\=:#! \t\n\r\f]|[^ -~]")
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED = {char: letter for letter, char in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class Properties:
    """A properties file: its comments (each without its # and line end), its entries in the order of the file."""

    entries: Mapping[str, str]
    comments: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class MetaProperties:
    """What meta.properties says; None for what it does not."""

    version: int
    cluster_id: str | None
    node_id: int | None
    directory_id: str | None


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """What partition.metadata says."""

    version: int
    topic_id: str


def parse(data: bytes) -> Properties:
    """The entries of a properties file; of a repeated key the last. Raises BadValue at a malformed escape."""
    comments: list[str] = []
    entries: dict[str, str] = {}
    for position, line in _logical_lines(data.decode("latin-1"), comments):
        match = _KEY.match(line)
        assert match, "the pattern matches the empty string"
        entries[_unescape(match[1], position)] = _unescape(line[match.end() :], position)
    return Properties(entries, tuple(comments))


def build(properties: Properties) -> bytes:
    """The bytes of a properties file as Java writes it: comments first, then `key=value`, in ASCII."""
    lines = [f"#{comment}\n" for comment in properties.comments]
    lines += [f"{_escape(key, key=True)}={_escape(value)}\n" for key, value in properties.entries.items()]
    return "".join(lines).encode("latin-1", "backslashreplace")


def meta_properties(properties: Properties) -> MetaProperties:
    """What a meta.properties file says. Raises BadValue, UnknownVersion where a broker would not start with it."""
    entries = properties.entries
    version = entries.get("version", "0")
    if version not in ("0", "1"):
        raise UnknownVersion(f"meta.properties version {version!r}, not 0 or 1")
    node_key = "node.id" if version == "1" else "broker.id"
    if version == "1":
        for key in ("cluster.id", node_key):
            if key not in entries:
                raise BadValue(f"meta.properties has no {key}")
    node = entries.get(node_key)
    if node is not None and not (_INT.fullmatch(node) and -(2**31) <= int(node) < 2**31):
        raise BadValue(f"{node_key} is {node!r}, not an int32")
    directory = entries.get("directory.id")
    if directory is not None:
        _uuid("directory.id", directory)
    return MetaProperties(int(version), entries.get("cluster.id"), None if node is None else int(node), directory)


def parse_partition_metadata(data: bytes) -> PartitionMetadata:
    """What partition.metadata says. Raises BadValue, UnknownVersion, with the position of the line."""
    values: dict[str, str] = {}
    position = 0
    for name in ("version", "topic_id"):
        match = re.compile(rb"([a-z_]+)\s*:\s*([^\s:]+)[ \t]*(?:\r\n|\r|\n|\Z)").match(data, position)
        if not match or match[1] != name.encode():
            raise BadValue(f"not a line `{name}: value`", position)
        values[name] = match[2].decode("latin-1")
        if name == "version" and values[name] != "0":
            raise UnknownVersion(f"partition.metadata version {values[name]!r}, not 0", position)
        if name == "topic_id":
            _uuid(name, values[name], position)
        position = match.end()
    if position < len(data):
        raise BadValue("more than version and topic_id", position)
    return PartitionMetadata(0, values["topic_id"])


def build_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """The bytes of partition.metadata; no line end behind the last line, as Kafka writes it."""
    return f"version: {metadata.version}\ntopic_id: {metadata.topic_id}".encode()


def _uuid(name: str, text: str, position: int | None = None) -> None:
    if not _UUID.fullmatch(text):
        raise BadValue(f"{name} is {text[:100]!r}, not 22 characters of base64", position)


def _logical_lines(text: str, comments: list[str]) -> Iterator[tuple[int, str]]:
    """Position and text of each entry, continued lines joined; comments go to `comments`."""
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

    units = _ESCAPE.sub(char, text).encode("utf-16-be", "surrogatepass")  # an escape is half of what is beyond 16 bits
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
