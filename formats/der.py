"""DER, the encoding of certificates and of PKCS #12 files: a tag, a length, and that many bytes of content.

    tag       1 byte: class (2 bits), whether the content consists of elements (1 bit), number (5 bits, up to 30)
    length    1 byte up to 127; else 0x80 + n, and n bytes, big endian, as few as possible
    content   for a SEQUENCE, a SET and an explicit tag: elements

Lengths that DER does not allow (of BER: indefinite, or longer than needed) are refused, and so are tag numbers above
30, which no certificate has. Source: X.690.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from formats.errors import FormatError

INTEGER: Final = 0x02
OCTET_STRING: Final = 0x04
OBJECT_IDENTIFIER: Final = 0x06
SEQUENCE: Final = 0x30
SET: Final = 0x31
EXPLICIT_0: Final = 0xA0
_HIGH_TAG: Final = 0x1F
_LENGTH_BYTES_MAX: Final = 4


class InvalidDer(FormatError):
    """Bytes that are no DER, or DER whose elements are not those that the format being read requires."""


class Element(NamedTuple):
    """An element. tag: its first byte; content: the bytes behind the length; whole: all bytes of the element."""

    tag: int
    content: bytes
    whole: bytes


def elements(data: bytes) -> Iterator[Element]:
    """Yield the elements that follow each other in the data, up to its end. Raises InvalidDer."""
    at = 0
    while at < len(data):
        element = _element(data, at)
        yield element
        at += len(element.whole)


def parts(element: Element, *tags: int) -> list[Element]:
    """Return the elements within a SEQUENCE, a SET or an explicit tag; the first ones must have `tags`, in this order.

    Raises InvalidDer.
    """
    found = list(elements(element.content))
    for number, tag in enumerate(tags):
        if number >= len(found) or found[number].tag != tag:
            raise InvalidDer(f"no element of tag 0x{tag:02X} in place {number}")
    return found


def only(data: bytes, tag: int) -> Element:
    """Return the one element that the data consists of, which must have this tag. Raises InvalidDer."""
    found = _element(data, 0)
    if found.tag != tag or len(found.whole) != len(data):
        raise InvalidDer(f"not one element of tag 0x{tag:02X}")
    return found


def object_identifier(content: bytes) -> str:
    """Return the identifier in the content of an OBJECT IDENTIFIER: numbers with dots between. Raises InvalidDer."""
    if not content or content[-1] & 0x80:
        raise InvalidDer("an object identifier without an end")
    numbers: list[int] = []
    value = 0
    is_first = True
    for byte in content:
        if is_first and byte == 0x80:
            raise InvalidDer("an object identifier with a number that begins with zero")
        value = value << 7 | byte & 0x7F
        is_first = not byte & 0x80
        if is_first:
            numbers.append(value)
            value = 0
    top = min(numbers[0] // 40, 2)
    return ".".join(map(str, [top, numbers[0] - 40 * top, *numbers[1:]]))


def _element(data: bytes, at: int) -> Element:
    if at + 2 > len(data):
        raise InvalidDer(f"an element without a length at byte {at:,}")
    tag, length, begin = data[at], data[at + 1], at + 2
    if tag & _HIGH_TAG == _HIGH_TAG:
        raise InvalidDer(f"a tag number above 30 at byte {at:,}")
    if length & 0x80:
        size = length & 0x7F
        if not 1 <= size <= _LENGTH_BYTES_MAX or begin + size > len(data):
            raise InvalidDer(f"a length of {size} bytes at byte {at:,}")
        length = int.from_bytes(data[begin : begin + size])
        if length < 0x80 or length >> 8 * (size - 1) == 0:
            raise InvalidDer(f"a length longer than needed at byte {at:,}")
        begin += size
    if begin + length > len(data):
        raise InvalidDer(f"{length:,} bytes of content at byte {at:,}, of which {len(data) - begin:,} are there")
    return Element(tag, data[begin : begin + length], data[at : begin + length])
