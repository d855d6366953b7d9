"""The name and version of a client's software in an ApiVersions request. Source: ApiVersionsRequest; KIP-511."""

from __future__ import annotations

import string
from typing import Final

_ALPHANUMERIC: Final = frozenset(string.ascii_letters + string.digits)
_ALLOWED: Final = _ALPHANUMERIC | {"-", "."}


def names_software(request: object) -> bool:
    """Whether an ApiVersions request has a valid name and version of the client's software; True if its version has no
    fields for them. request: an object of kio's."""
    return _is_software(getattr(request, "client_software_name", "any")) and _is_software(
        getattr(request, "client_software_version", "any")
    )


def _is_software(text: str) -> bool:
    """Whether a name or version has only letters and digits, with `-` and `.` allowed between them."""
    return text != "" and _ALLOWED.issuperset(text) and _ALPHANUMERIC.issuperset(text[0] + text[-1])
