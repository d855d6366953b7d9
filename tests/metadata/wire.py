"""Metadata records as the log has them."""

from __future__ import annotations

from typing import Any

from formats.message import build, parse


def whole(name: str, version: int, value: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a metadata record as the log gives them back."""
    return parse(name, version, build(name, version, value))
