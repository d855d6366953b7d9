"""Converts Kafka's messages (objects of kio's classes) to plain values; kcli.broker.wire.plain_values converts back.

A uuid becomes 22 characters, a timedelta or datetime milliseconds, bytes base64, an error code its number.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import uuid
from base64 import b64encode
from typing import Any

from formats.message import uuid_text
from kcli.broker.wire.messages import EPOCH
from kcli.broker.wire.plain_values import ZERO, hints, item_of, message, without_none

__all__ = ["ZERO", "hints", "item_of", "message", "plain", "without_none"]


def plain(value: Any) -> Any:
    """Return a message, or a part of one, as JSON values."""
    match value:
        case enum.Enum():
            return value.value
        case uuid.UUID():
            return uuid_text(value.bytes)
        case dt.timedelta():
            return round(value.total_seconds() * 1000)
        case dt.datetime():
            return round((value - EPOCH).total_seconds() * 1000)
        case bytes():
            return b64encode(value).decode()
        case tuple():
            return [plain(each) for each in value]
        case _ if dataclasses.is_dataclass(value):
            return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return value
