r"""Files whose bytes a program has written as text, in digits that it can turn back into the bytes.

    base64          AAAAAAAAEvwAAAi1AAAACAIF...                  lines of any length
    xxd             00000000: 0000 0000 0000 12fc  ........      the address, two bytes a word, the bytes as characters
    xxd -p          00000000000012fc000008b5...                  lines of any length
    hexdump -C      00000000  00 00 00 00 00 00 12 fc  |........|
    hexdump         0000000 0000 0000 0000 fc12                  two bytes a word, the lower one first
    UTF-16          FF FE, then two bytes for each               as after a conversion of ISO-8859-1

In a dump with addresses, a line `*` stands for lines that repeat the one before, up to the next address; the last line
of hexdump is the size alone. Whether a text is one of a log, its first bytes tell: they must be the header of a batch.
"""

from __future__ import annotations

import re
from binascii import Error as Base64Error
from binascii import a2b_base64
from collections.abc import Callable, Iterable, Iterator

from formats.batch_prefix import size_at
from formats.errors import BadCompression

BYTE_ORDER_MARKS = b"\xff\xfe", b"\xfe\xff"
SPACES = b" \t\r\n"
ADDRESS_MAX = 2**31 - 1
"""Kafka opens no segment with more bytes."""
REPEATED_AT_ONCE = 1 << 16
LINE_BYTES_MAX = 1 << 20
"""The largest line of a dump."""
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
_DUMPED = re.compile(rb"(?m)^([0-9A-Fa-f]{4,16})(:? .*|\s*)$")

Decoder = Callable[[Iterable[bytes]], Iterator[bytes]]


def of_base64(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a text in base64. Raises BadCompression."""
    yield from _of_digits(chunks, 4, lambda text: a2b_base64(text.translate(_TO_STANDARD), strict_mode=True))


def of_hex(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a text in hexadecimal digits alone. Raises BadCompression."""
    yield from _of_digits(chunks, 2, lambda text: bytes.fromhex(text.decode("ascii")))


def _of_digits(chunks: Iterable[bytes], unit: int, decode: Callable[[bytes], bytes]) -> Iterator[bytes]:
    left, position = b"", 0
    for chunk in chunks:
        text = left + chunk.translate(None, SPACES)
        whole = len(text) - len(text) % unit
        left = text[whole:]
        yield _decoded(decode, text[:whole], position)
        position += len(chunk)
    if left:
        raise BadCompression("the text ends inside a group of digits", position)


def of_xxd(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a dump of xxd. Raises BadCompression."""
    yield from _of_dump(chunks, _digits_of_xxd)


def _digits_of_xxd(text: bytes) -> bytes:
    if not text.startswith(b": "):
        raise ValueError("no colon behind the address")
    return text[2:].partition(b"  ")[0]


def of_hexdump(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a dump of `hexdump -C`, or of od with addresses and bytes in hexadecimal. Raises
    BadCompression."""
    yield from _of_dump(chunks, lambda text: text.partition(b"|")[0].partition(b">")[0])


def of_words(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a dump of hexdump in words. Raises BadCompression."""
    yield from _of_dump(chunks, lambda text: text, swapped=True)


def of_utf_16(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the bytes of a text in UTF-16, with a byte order mark, whose characters are all below 0x100. Raises
    BadCompression."""
    left, position, is_little = b"", 0, False
    for chunk in chunks:
        text = left + chunk
        if position == 0 and len(text) >= 2:
            if text[:2] not in BYTE_ORDER_MARKS:
                raise BadCompression("no byte order mark", 0)
            is_little, text = text.startswith(BYTE_ORDER_MARKS[0]), text[2:]
        position += len(chunk)
        whole = len(text) // 2 * 2 if position >= 2 else 0
        left = text[whole:]
        low, high = (0, 1) if is_little else (1, 0)
        if any(text[high:whole:2]):
            raise BadCompression("a character that is no byte", position)
        yield text[low:whole:2]
    if left:
        raise BadCompression("the text ends inside a character", position)


def _of_dump(chunks: Iterable[bytes], digits_of: Callable[[bytes], bytes], *, swapped: bool = False) -> Iterator[bytes]:
    """Yield the bytes of a dump with addresses. digits_of: returns the digits in a line without its address. swapped:
    whether the lower byte of each word comes first."""
    made, last, position, is_repeated = 0, b"", 0, False
    data = bytearray()  # all bytes made so far but those yielded, at least one: the size may be less by one
    for lines in _lines(chunks):
        for line in lines:
            at, position = position, position + len(line) + 1
            text = line.rstrip(b"\r")
            if text == b"*":
                is_repeated = True
                continue
            found = _DUMPED.match(text)
            if found is None:
                if text.strip():
                    raise BadCompression("a line that is none of a dump", at)
                continue
            address = int(found[1], 16)
            if address > ADDRESS_MAX:
                raise BadCompression(f"address {address:,} is beyond the end of any segment", at)
            while is_repeated and last and made + len(data) + len(last) <= address:
                data += last * min((address - made - len(data)) // len(last), REPEATED_AT_ONCE)
                yield bytes(data[:-1])
                made += len(data[:-1])
                del data[:-1]
            is_repeated = False
            if not found[2].strip():  # the size
                del data[max(0, address - made) :]
                continue
            last = _decoded(lambda text: bytes.fromhex(digits_of(text).decode("ascii")), found[2], at)
            last = _swapped(last) if swapped else last
            data += last
        yield bytes(data[:-1])
        made += len(data[:-1])
        del data[:-1]
    yield bytes(data)


def _lines(chunks: Iterable[bytes]) -> Iterator[list[bytes]]:
    """Yield the whole lines of a text, those of each chunk together. Raises BadCompression for a line without end."""
    left, position = b"", 0
    for chunk in chunks:
        *lines, left = (left + chunk).split(b"\n")
        if len(left) > LINE_BYTES_MAX:
            raise BadCompression("a line that is none of a dump", position)
        position += len(chunk)
        yield lines
    yield [left]


def _swapped(data: bytes) -> bytes:
    words = bytearray(data)
    words[0::2], words[1::2] = data[1::2], data[0::2]
    return bytes(words)


def _decoded(decode: Callable[[bytes], bytes], text: bytes, position: int) -> bytes:
    try:
        return decode(text)
    except (ValueError, Base64Error) as error:
        raise BadCompression(f"not a sound text of bytes: {error}", position) from None


def begins_log(decode: Decoder, head: bytes) -> bool:
    """Whether a text in the form that `decode` reads begins with the header of a batch. head: its first bytes; the last
    line of them, and the last group of digits or character, may be incomplete."""
    lines = head.split(b"\n")
    texts = [b"\n".join(lines[:-1]) + b"\n"] if len(lines) > 1 else []
    digits = head.translate(None, SPACES)
    for text in (*texts, digits[: len(digits) // 4 * 4], head[: len(head) // 2 * 2]):
        try:
            if size_at(b"".join(decode([text]))) is not None:
                return True
        except BadCompression:
            continue
    return False
