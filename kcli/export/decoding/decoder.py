"""What a decoder is: payloads in, typed values out, and beside each payload that does not decode the reason."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa


class Decoder(Protocol):
    """Turns payloads into values of one type. Picklable; holds no connection and no open file."""

    @property
    def type(self) -> pa.DataType:
        """The type of all values, whatever the payloads are."""
        ...

    def decode(self, payloads: pa.BinaryArray) -> tuple[pa.Array, pa.StringArray]:
        """Decode a column of payloads: (values, reasons), both as long as the payloads.

        A null payload (a tombstone) is a null value. A payload that does not decode is a null value with a reason.
        """
        ...


def no_reasons(count: int) -> pa.StringArray:
    """Reasons for payloads that all decoded."""
    return pa.nulls(count, pa.string())
