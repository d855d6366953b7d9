"""URIs as java.net.URI reads and resolves them (RFC 2396, with Java's deviations)."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_URI: Final = re.compile(r"(?:([^:/?#]*):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?\Z", re.DOTALL)
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*\Z")
_ILLEGAL: Final = re.compile(
    r"[\x00-\x20\x7f-\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\"<>\\^`{|}]|%(?![0-9A-Fa-f]{2})"
)


class Uri(NamedTuple):
    """The parts of a URI; a part that it does not have is None, a missing path is "".

    is_opaque: whether it has a scheme that no path follows, as in urn:x.
    """

    scheme: str | None
    authority: str | None
    path: str
    query: str | None
    fragment: str | None

    @property
    def is_opaque(self) -> bool:
        return self.scheme is not None and self.authority is None and not self.path.startswith("/")

    def __str__(self) -> str:
        parts = [
            "" if self.scheme is None else self.scheme + ":",
            "" if self.authority is None else "//" + self.authority,
        ]
        parts += [self.path, "" if self.query is None else "?" + self.query]
        return "".join(parts) + ("" if self.fragment is None else "#" + self.fragment)


def parse_uri(text: str) -> Uri:
    """Return the parts of a URI. Raises ValueError."""
    illegal = _ILLEGAL.search(text)
    if illegal:
        raise ValueError(f"illegal character {illegal[0][0]!r} in the URI {text!r}")
    match = _URI.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no URI")
    uri = Uri(match[1], match[2], match[3], match[4], match[5])
    if uri.scheme is not None and not _SCHEME.match(uri.scheme):
        raise ValueError(f"illegal scheme in the URI {text!r}")
    if (uri.scheme is not None and not uri.authority and not uri.path) or (uri.authority == "" and not uri.path):
        raise ValueError(f"nothing follows the scheme in the URI {text!r}")
    if re.search(r"[\[\]]", uri.path) or (uri.fragment and "#" in uri.fragment):
        raise ValueError(f"illegal character in the URI {text!r}")
    return uri


def resolve(base: str | None, reference: str) -> str:
    """Resolve a reference against a base URI. Raises ValueError."""
    child = parse_uri(reference)
    if base is None:
        return reference
    parent = parse_uri(base)
    if child.is_opaque or parent.is_opaque or child.scheme is not None:
        return reference
    if child[:4] == (None, None, "", None) and child.fragment is not None:
        return str(parent._replace(fragment=child.fragment))
    if child.authority is not None:
        return str(child._replace(scheme=parent.scheme))
    path = child.path if child.path.startswith("/") else parent.path[: parent.path.rfind("/") + 1] + child.path
    return str(Uri(parent.scheme, parent.authority, _normalized(path), child.query, child.fragment))


def without_fragment(uri: str) -> str:
    """Return a URI without its fragment."""
    return uri.partition("#")[0]


def _normalized(path: str) -> str:
    """Return the path without the parts ".", and without each ".." after a name, with that name."""
    if "." not in path and "//" not in path:
        return path
    absolute = path.startswith("/")
    segments = [each for each in path.split("/") if each]
    trailing = path.endswith(("/", "/.", "/..")) or path in (".", "..")
    kept: list[str] = []
    for each in segments:
        if each == ".":
            continue
        if each == ".." and kept and kept[-1] != "..":
            kept.pop()
        else:
            kept.append(each)
    if not absolute and kept and ":" in kept[0]:
        kept.insert(0, ".")
    normal = ("/" if absolute else "") + "/".join(kept)
    return normal + "/" if trailing and kept and kept[-1] != ".." else normal
