"""The interface of decoders, which convert payloads to values of one type, and give a reason for each payload that does
not decode."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Decoder(Protocol):
    """Converts payloads to values of one type. A decoder is picklable: it holds no connection and no open file."""

    @property
    def type(self) -> pa.DataType:
        """The Arrow type of all values."""
        ...

    def decode(self, payloads: pa.BinaryArray) -> tuple[pa.Array, pa.StringArray]:
        """Decode a column of payloads: (values, reasons), both as long as the payloads.

        The value of a null payload (a tombstone) is null, without a reason. The value of a payload that does not decode
        is null, and its reason says why.
        """
        ...


def no_reasons(count: int) -> pa.StringArray:
    """Return `count` null reasons, for payloads that all decode."""
    return pa.nulls(count, pa.string())
