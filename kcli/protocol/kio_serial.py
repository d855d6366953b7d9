"""kio's readers, writers and type of an error code. A module that uses kio imports this module before any module of
kio.

kio imports hypothesis if it is installed. The import takes a quarter of a second and writes a cache of characters to
`.hypothesis` in the working directory. This module hides hypothesis from kio."""

from __future__ import annotations

import sys

_HIDE = "hypothesis" not in sys.modules
if _HIDE:
    sys.modules["hypothesis"] = None  # type: ignore[assignment]
try:
    from kio.schema.errors import ErrorCode as KioErrorCode
    from kio.serial import entity_reader, entity_writer
    from kio.serial.errors import SerialError
finally:
    if _HIDE:
        del sys.modules["hypothesis"]

__all__ = ["KioErrorCode", "SerialError", "entity_reader", "entity_writer"]
