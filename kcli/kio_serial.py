"""kio's readers and writers. kio loads hypothesis where that is installed, for a quarter of a second: not here."""

from __future__ import annotations

import sys

_HIDE = "hypothesis" not in sys.modules
if _HIDE:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
try:
    from kio.serial import entity_reader, entity_writer
    from kio.serial.errors import SerialError
finally:
    if _HIDE:
        del sys.modules["hypothesis"]

__all__ = ["SerialError", "entity_reader", "entity_writer"]
