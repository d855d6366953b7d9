"""The subject of a certificate as text, which is the name of its owner's principal: "CN=alice,OU=Sales,O=Acme".

    Name                        SEQUENCE of relative names, shown from the last to the first, "," between them
    RelativeDistinguishedName   SET of attributes, shown in their order, "+" between them
    Attribute                   SEQUENCE of an object identifier and a value: KEYWORD=text, or NUMBERS=#HEX of the
                                value's DER if the attribute has no keyword of RFC 2253 or the value is no text

Source: Java's X500Principal.getName() (AVA.toRFC2253String), called by Kafka's DefaultKafkaPrincipalBuilder; RFC 2253,
RFC 5280. Java 17 decodes every string type as UTF-8, which garbles names that are neither ASCII nor of type UTF8String;
newer versions of Java decode each string by its type, and so does kcli.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from formats.der import EXPLICIT_0, OBJECT_IDENTIFIER, SEQUENCE, SET, Element, InvalidDer, elements, only, parts
from formats.der import object_identifier as identifier
from formats.java_text import java_utf8
from kcli.errors import KcliError

_KEYWORDS: Final[Mapping[str, str]] = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""The attributes that RFC 2253 has a keyword for."""
_UTF8, _PRINTABLE, _T61, _IA5, _GENERAL, _BMP = 0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E
_LATIN: Final = frozenset((_PRINTABLE, _T61, _IA5, _GENERAL))
"""Tags of the kinds of text that Java decodes as Latin-1."""
_REPLACEMENT: Final = "\ufffd"
_ESCAPED: Final[Mapping[int, str]] = str.maketrans({**{each: "\\" + each for each in ',=+<>#;"\\'}, "\0": "\\00"})
_MARGIN: Final = " \r"
"""Characters that are escaped at the beginning and at the end of a text."""


class InvalidCertificate(KcliError):
    """Bytes that are no certificate, or a certificate whose subject Java cannot parse either."""


def subject_name(certificate: bytes) -> str:
    """Return the subject of a certificate (DER) as RFC 2253 text. Raises InvalidCertificate."""
    try:
        to_be_signed = parts(only(certificate, SEQUENCE), SEQUENCE)[0]
        fields = parts(to_be_signed)
        has_version = bool(fields) and fields[0].tag == EXPLICIT_0
        return name_text(fields[5 if has_version else 4].whole)
    except (InvalidDer, IndexError) as error:
        raise InvalidCertificate(f"no certificate: {error}") from None


def name_text(name: bytes) -> str:
    """Return a Name (DER) as RFC 2253 text. Raises InvalidCertificate."""
    try:
        return ",".join(_relative(each) for each in reversed(parts(only(name, SEQUENCE))))
    except InvalidDer as error:
        raise InvalidCertificate(f"no name of a certificate: {error}") from None


def _relative(element: Element) -> str:
    if element.tag != SET:
        raise InvalidDer("a relative name that is no SET")
    return "+".join(_attribute(each) for each in elements(element.content))


def _attribute(element: Element) -> str:
    if element.tag != SEQUENCE:
        raise InvalidDer("an attribute that is no SEQUENCE")
    kind, value, *others = [*parts(element, OBJECT_IDENTIFIER), None][:3]
    if value is None or others != [None]:
        raise InvalidDer("an attribute that is not a kind and a value")
    assert kind is not None
    text = _text(value)
    numbers = identifier(kind.content)
    keyword = _KEYWORDS.get(numbers)
    if keyword is None or text is None:
        return f"{keyword or numbers}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(text)}"


def _text(value: Element) -> str | None:
    """Return the text of a value; None for a value that is no text. Raises InvalidDer."""
    if value.tag == _BMP:
        return _bmp_text(value.content)
    if value.tag == _UTF8:
        return java_utf8(value.content)
    return value.content.decode("latin-1") if value.tag in _LATIN else None


def _bmp_text(content: bytes) -> str:
    """Return the text of a BMPString, which has two bytes for a character. Raises InvalidDer for a surrogate pair.

    As in Java's decoder, U+FFFD stands for a high surrogate together with the character after it, for a lone low
    surrogate, and for the remaining bytes if they end within a character.
    """
    text: list[str] = []
    at = 0
    while at < len(content):
        unit, behind = int.from_bytes(content[at : at + 2]), content[at + 2 : at + 4]
        is_first_half = 0xD800 <= unit < 0xDC00
        if len(content) - at < 2 or (is_first_half and len(behind) < 2):
            text.append(_REPLACEMENT)
            break
        if is_first_half and 0xDC <= behind[0] < 0xE0:
            raise InvalidDer("a BMPString with a character outside the basic plane")
        text.append(_REPLACEMENT if 0xD800 <= unit < 0xE000 else chr(unit))
        at += 4 if is_first_half else 2
    return "".join(text)


def _escaped(text: str) -> str:
    """Return the text escaped as RFC 2253 demands; blanks and carriage returns at both ends are escaped too, as in
    Java."""
    inner = text.translate(_ESCAPED)
    begin = len(inner) - len(inner.lstrip(_MARGIN))
    end = max(begin, len(inner.rstrip(_MARGIN)))
    return (
        "".join(f"\\{each}" for each in inner[:begin]) + inner[begin:end] + "".join(f"\\{each}" for each in inner[end:])
    )
