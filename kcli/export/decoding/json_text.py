"""JSON texts as values of one type."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class JsonDecoder:
    """JSON, one text a payload, as values of `type`."""

    type: pa.DataType

    def decode(self, payloads: pa.BinaryArray) -> tuple[pa.Array, pa.StringArray]:
        """Decode a column of JSON texts."""
        values: list[Any] = []
        reasons: list[str | None] = []
        for payload in payloads.to_pylist():
            value, reason = None, None
            if payload is not None:
                try:
                    value = pa.scalar(json.loads(payload), self.type).as_py()
                except (ValueError, TypeError, RecursionError, pa.ArrowException) as error:
                    reason = str(error)
            values.append(value)
            reasons.append(reason)
        return pa.array(values, self.type), pa.array(reasons, pa.string())
