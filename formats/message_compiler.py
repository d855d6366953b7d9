"""The fast reader of messages: Python source made from a message's layout, compiled once for each version and cached.

Runs of fixed-size fields become one `struct.Struct`; everything else calls the small functions below. The Construct
definition (`formats.message_construct`) takes tens of microseconds for a record, this reader about two; property tests
check that both return the same values and errors. The reader accepts what Kafka's generated classes accept
(`ByteBufferAccessor`, `ByteUtils`): any negative length is null, any byte but zero is true, the size of a known tag is
ignored, the last of equal tags counts.
"""

import struct
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from typing import Any, Final

from formats.errors import BadValue
from formats.message_schema import (
    FIXED,
    UNKNOWN_TAGS,
    Layout,
    Slot,
    cut,
    is_null,
    long_array,
    long_string,
    long_varint,
    refused_tag,
    refused_version,
    short_bytes,
)

Reader = Callable[[bytes, int], tuple[dict[str, Any], int]]
"""A function of bytes and of the position where a message begins; returns the message's value and the position behind
the message."""

_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")


def uuid_text(raw: bytes) -> str:
    """Return the text of a uuid of sixteen bytes as Kafka prints it: 22 characters of url-safe base64."""
    return b2a_base64(raw, newline=False)[:22].translate(_URL_SAFE).decode("ascii")


def uuid_bytes(text: str) -> bytes:
    """Return the sixteen bytes of a uuid, the inverse of `uuid_text`. Raises BadValue for any other text."""
    try:
        raw = a2b_base64(text.encode("ascii").translate(_STANDARD) + b"==", strict_mode=True)
    except ValueError:
        raw = b""
    if len(raw) != 16:
        raise BadValue(f"{text!r} is not a uuid in 22 characters of base64")
    return raw


def read_uvarint(data: bytes, position: int, name: str = "a varint") -> tuple[int, int]:
    """Return the unsigned varint of at most five bytes at a position as a signed 32-bit integer, as Kafka reads it,
    and the position behind it.

    name: the varint's name in the error. Raises Truncated, BadVarint.
    """
    begin = position
    end = len(data)
    if begin < end and data[begin] < 0x80:
        return data[begin], begin + 1
    value = shift = 0
    while shift <= 28:
        if position >= end:
            raise cut(name, begin)
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return _int32(value), position
        shift += 7
    raise long_varint(value, begin)


def _int32(value: int) -> int:
    return value if value < 0x80000000 else ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def _compact_length(data: bytes, position: int, name: str) -> tuple[int, int]:
    if position < len(data) and data[position] < 0x80:
        return data[position] - 1, position + 1
    length, after = read_uvarint(data, position, name)
    # In Java, the smallest integer minus one is the largest.
    return (length - 1 if length > -0x80000000 else 0x7FFFFFFF), after


def _short_length(data: bytes, position: int, name: str) -> tuple[int, int]:
    if len(data) - position < 2:
        raise cut(name, position)
    return _INT16.unpack_from(data, position)[0], position + 2


def _long_length(data: bytes, position: int, name: str) -> tuple[int, int]:
    if len(data) - position < 4:
        raise cut(name, position)
    return _INT32.unpack_from(data, position)[0], position + 4


def _string(data: bytes, begin: int, position: int, length: int, name: str, nullable: bool) -> tuple[str | None, int]:
    if length < 0:
        if nullable:
            return None, position
        raise is_null(name, begin)
    if length > 0x7FFF:
        raise long_string(name, length, begin)
    after = position + length
    if after > len(data):
        raise short_bytes(length, len(data) - position, begin)
    return str(data[position:after], "utf-8", "surrogateescape"), after


def _bytes(data: bytes, begin: int, position: int, length: int, name: str, nullable: bool) -> tuple[bytes | None, int]:
    if length < 0:
        if nullable:
            return None, position
        raise is_null(name, begin)
    after = position + length
    if after > len(data):
        raise short_bytes(length, len(data) - position, begin)
    return data[position:after], after


def _count(data: bytes, begin: int, position: int, count: int, name: str, nullable: bool) -> tuple[int, int]:
    if count < 0:
        if nullable:
            return -1, position
        raise is_null(name, begin)
    if count > len(data) - position:
        raise long_array(count, len(data) - position, begin)
    return count, position


def _compact_string(data: bytes, position: int, name: str, nullable: bool) -> tuple[str | None, int]:
    if position < len(data) and 0 < (more := data[position]) < 0x80 and position + more <= len(data):
        return str(data[position + 1 : position + more], "utf-8", "surrogateescape"), position + more
    length, after = _compact_length(data, position, name)
    return _string(data, position, after, length, name, nullable)


def _plain_string(data: bytes, position: int, name: str, nullable: bool) -> tuple[str | None, int]:
    after = position + 2
    if after <= len(data) and (end := after + (data[position] << 8 | data[position + 1])) <= min(
        len(data), after + 0x7FFF
    ):
        return str(data[after:end], "utf-8", "surrogateescape"), end
    length, after = _short_length(data, position, name)
    return _string(data, position, after, length, name, nullable)


def _compact_bytes(data: bytes, position: int, name: str, nullable: bool) -> tuple[bytes | None, int]:
    length, after = _compact_length(data, position, name)
    return _bytes(data, position, after, length, name, nullable)


def _plain_bytes(data: bytes, position: int, name: str, nullable: bool) -> tuple[bytes | None, int]:
    length, after = _long_length(data, position, name)
    return _bytes(data, position, after, length, name, nullable)


def _compact_count(data: bytes, position: int, name: str, nullable: bool) -> tuple[int, int]:
    if position < len(data) and 0 < (more := data[position]) < 0x80 and position + more <= len(data):
        return more - 1, position + 1
    count, after = _compact_length(data, position, name)
    return _count(data, position, after, count, name, nullable)


def _plain_count(data: bytes, position: int, name: str, nullable: bool) -> tuple[int, int]:
    count, after = _long_length(data, position, name)
    return _count(data, position, after, count, name, nullable)


def _tag_bytes(data: bytes, position: int, size: int, begin: int) -> tuple[bytes, int]:
    if size < 0 or size > len(data) - position:
        raise short_bytes(size, len(data) - position, begin)
    return data[position : position + size], position + size


def _fixed_array(data: bytes, position: int, count: int, code: str, size: int, name: str) -> tuple[list[Any], int]:
    fit = (len(data) - position) // size
    if count > fit:
        raise cut(name, position + fit * size)
    values = list(struct.unpack_from(f">{code * count if code == '16s' else f'{count}{code}'}", data, position))
    return values if code != "16s" else [uuid_text(value) for value in values], position + count * size


def _run_cut(data: bytes, position: int, run: tuple[tuple[str, int], ...]) -> Exception:
    fields = iter(run)
    name, size = next(fields)
    while size <= len(data) - position:
        position += size
        name, size = next(fields)
    return cut(name, position)


_NAMES: Final = {
    "read_uvarint": read_uvarint,
    "uuid_text": uuid_text,
    "plain_string": _plain_string,
    "compact_string": _compact_string,
    "plain_bytes": _plain_bytes,
    "compact_bytes": _compact_bytes,
    "plain_count": _plain_count,
    "compact_count": _compact_count,
    "tag_bytes": _tag_bytes,
    "fixed_array": _fixed_array,
    "run_cut": _run_cut,
    "refused_tag": refused_tag,
    "refused_version": refused_version,
    "cut": cut,
}


def compile_reader(layout: Layout) -> Reader:
    """Return the reader of one message in one version."""
    source = _Source()
    name = source.reader(layout)
    exec(compile("\n".join(source.lines), f"<reader of {layout.name} v{layout.version}>", "exec"), source.names)  # noqa: S102 (source made from Kafka's field tables alone)
    return source.names[name]  # type: ignore[no-any-return]


class _Source:
    """The Python source of the functions that read one message type: its lines, and the constants that they use."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = dict(_NAMES)
        self._done: dict[int, str] = {}

    def constant(self, value: object) -> str:
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def reader(self, layout: Layout) -> str:
        """Append the function that reads a struct, after the functions of the structs within it; return its name."""
        if id(layout) in self._done:
            return self._done[id(layout)]
        body: list[str] = []
        values = {slot.name: f"v{number}" for number, slot in enumerate((*layout.slots, *layout.tagged))}
        if not layout.readable:
            body.append(f"raise refused_version({self.constant(layout)}, p)")
        run: list[Slot] = []
        for slot in layout.slots:
            if slot.type in FIXED and not slot.is_array:
                run.append(slot)
                continue
            self._fixed_run(body, run, values)
            run = []
            self._slot(body, slot, values[slot.name])
        self._fixed_run(body, run, values)
        if layout.flexible:
            self._tags(body, layout, values)
        body.append(f"value = {{{', '.join(f'{name!r}: {values[name]}' for name in layout.names)}}}")
        if layout.flexible:
            body += ["if unknown:", f"    value[{UNKNOWN_TAGS!r}] = unknown"]
        body.append("return value, p")
        name = self._done[id(layout)] = f"read{len(self._done)}"
        self.lines += [f"def {name}(data, p):", *(f"    {line}" for line in body)]
        return name

    def _fixed_run(self, body: list[str], run: list[Slot], values: dict[str, str]) -> None:
        if not run:
            return
        fused = struct.Struct(">" + "".join(FIXED[slot.type][0] for slot in run))
        sizes = self.constant(tuple((slot.name, FIXED[slot.type][1]) for slot in run))
        body.append(f"if len(data) - p < {fused.size}: raise run_cut(data, p, {sizes})")
        body.append(f"{', '.join(values[slot.name] for slot in run)}, = {self.constant(fused.unpack_from)}(data, p)")
        body.append(f"p += {fused.size}")
        body += [f"{values[slot.name]} = uuid_text({values[slot.name]})" for slot in run if slot.type == "uuid"]

    def _slot(self, body: list[str], slot: Slot, value: str) -> None:
        """Append to `body` the lines that read a field outside of a fixed-size run into the variable `value`."""
        compact = "compact_" if slot.flexible else "plain_"
        if slot.is_array:
            body.append(f"n, p = {compact}count(data, p, {slot.name!r}, {slot.nullable})")
            body += [f"if n < 0: {value} = None", "else:"]
            self._elements(body, slot, value, compact)
        elif slot.element is not None:
            self._struct(body, slot, value, self.reader(slot.element))
        elif slot.type in FIXED:
            self._fixed_run(body, [slot], {slot.name: value})
        else:
            function = f"{compact}{slot.type}"
            body.append(f"{value}, p = {function}(data, p, {slot.name!r}, {slot.nullable})")

    def _elements(self, body: list[str], slot: Slot, value: str, compact: str) -> None:
        if slot.type in FIXED:
            code, size = FIXED[slot.type]
            body.append(f"    {value}, p = fixed_array(data, p, n, {code!r}, {size}, {slot.name!r})")
            return
        if slot.element is not None:
            call = f"{self.reader(slot.element)}(data, p)"
        else:
            function = f"{compact}{slot.type}"
            call = f"{function}(data, p, {slot.name + ' element'!r}, False)"
        body += [
            f"    {value} = []",
            "    for _ in range(n):",
            f"        x, p = {call}",
            f"        {value}.append(x)",
        ]

    def _struct(self, body: list[str], slot: Slot, value: str, reader: str) -> None:
        if not slot.nullable:
            body.append(f"{value}, p = {reader}(data, p)")
            return
        if slot.tag is not None:
            body += [f"n, p = read_uvarint(data, p, {slot.name!r})", f"if n <= 0: {value} = None"]
        else:
            body.append(f"if p >= len(data): raise cut({slot.name!r}, p)")
            body += ["n = data[p]", "p += 1", f"if n > 127: {value} = None"]
        body.append(f"else: {value}, p = {reader}(data, p)")

    def _tags(self, body: list[str], layout: Layout, values: dict[str, str]) -> None:
        body += [f"{values[slot.name]} = {slot.default!r}" for slot in layout.tagged]
        body += ["unknown = []", "tags, p = read_uvarint(data, p, 'the count of tagged fields')"]
        body += ["for _ in range(tags):", "    q = p", "    tag, p = read_uvarint(data, p, 'a tag')"]
        body.append("    size, p = read_uvarint(data, p, 'the size of a tagged field')")
        word = "if"
        for slot in layout.tagged:
            inner: list[str] = []
            self._slot(inner, slot, values[slot.name])
            body += [f"    {word} tag == {slot.tag}:", *(f"        {line}" for line in inner)]
            word = "elif"
        if layout.refused_tags:
            body.append(f"    {word} tag in {layout.refused_tags!r}: raise refused_tag(tag, {layout.version}, q)")
            word = "elif"
        inner = ["x, p = tag_bytes(data, p, size, q)", "unknown.append((tag, x))"]
        body += ["    else:", *(f"        {line}" for line in inner)] if word == "elif" else [f"    {i}" for i in inner]
