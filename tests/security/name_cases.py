"""Random names of certificates in DER: a case is a question to SecurityOracle.java, with kcli's answer.

Some are damaged: what Java reads in bytes that are no DER is compared only where both accept them as a name. Older
Javas decode every text as UTF-8: `GARBLED` is their result for `LATIN`, and they are asked only about UTF8Strings.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kcli.security.distinguished_name import InvalidCertificate, name_text

Case = dict[str, Any]
LATIN = "300d310b300906035504031402e9e8"
GARBLED = "CN=\ufffd\ufffd"
UTF8 = 0x0C
KINDS = [
    *("550403", "550406", "550407", "550408", "550409", "55040a", "55040b"),
    *("0992268993f22c640101", "0992268993f22c640119"),
    *("55040c", "55042e", "550404", "55042a", "550405", "2a864886f70d010901", "2a8648863702", "883703", "00", "7f"),
]
TAGS = [UTF8, UTF8, UTF8, 0x13, 0x14, 0x16, 0x1B, 0x1E, 0x1C, 0x04, 0x12, 0x02]
TEXTS = [
    "CN=a",
    ",",
    "+",
    '"',
    "\\",
    "<",
    ">",
    ";",
    "#",
    "=",
    " ",
    "  ",
    "\r",
    "\n",
    "\t",
    "\0",
    "é",
    "ß",
    "日本",
    "😀",
    "x",
]
TEXTS += ["alice", "\u00a0", "\u0301", "İ", "\x7f", "\x80", "/", "*", "@", "'", "\ufffd", "\ufeff", "\ue000"]


def case(seed: int, tags: Sequence[int] = TAGS) -> Case:
    """Return a name of 0 to 5 relative names. tags: the kinds of texts in it."""
    chance = random.Random(seed)
    name = _tagged(0x30, b"".join(_relative(chance, tags) for _ in range(chance.choice([0, 1, 1, 2, 3, 5]))))
    if tags is TAGS and chance.random() < 0.1:
        at = chance.randrange(len(name))
        name = name[:at] + bytes([chance.randrange(256)]) + name[at + 1 :]
    return {"ask": "name", "name": name.hex()}


def of_common_name(tag: int, content: bytes) -> Case:
    """A name with one attribute, a common name. tag: the kind of its text."""
    attribute = _tagged(0x30, _tagged(0x06, bytes.fromhex("550403")) + _tagged(tag, content))
    return {"ask": "name", "name": _tagged(0x30, _tagged(0x31, attribute)).hex()}


def answer(of: Case) -> str | None:
    """The name as text; None for no name."""
    try:
        return name_text(bytes.fromhex(of["name"]))
    except InvalidCertificate:
        return None


def compared(of: Case, theirs: str | None) -> bool:
    """Assert that kcli reads the name as Java did, or refuses it. Returns whether kcli read it."""
    ours = answer(of)
    assert ours is None or ours == theirs, of
    return ours is not None


def _relative(chance: random.Random, tags: Sequence[int]) -> bytes:
    return _tagged(0x31, b"".join(_attribute(chance, tags) for _ in range(chance.choice([1, 1, 1, 1, 2, 3]))))


def _attribute(chance: random.Random, tags: Sequence[int]) -> bytes:
    kind = bytes.fromhex(chance.choice(KINDS[:9] if chance.random() < 0.8 else KINDS))
    tag = chance.choice(tags)
    text = "".join(chance.choices(TEXTS, k=chance.choice([0, 1, 2, 3, 4, 60])))
    encoding = {UTF8: "utf-8", 0x1E: "utf-16-be", 0x1C: "utf-32-be"}.get(tag, "latin-1")
    content = text.encode(encoding, "replace")
    if chance.random() < 0.1:
        content = chance.randbytes(chance.randint(0, 8))
    return _tagged(0x30, _tagged(0x06, kind) + _tagged(tag, content))


def _tagged(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = bytes([size]) if size < 0x80 else bytes([0x81, size]) if size < 0x100 else b"\x82" + size.to_bytes(2)
    return bytes([tag]) + length + content
