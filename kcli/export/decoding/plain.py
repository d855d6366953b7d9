"""Decoders without a schema: `raw` (bytes) and `string` (UTF-8 text)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from kcli.export.decoding.decoder import no_reasons


class RawDecoder:
    """Returns payloads unchanged, as bytes."""

    type: pa.DataType = pa.binary()

    def decode(self, payloads: pa.BinaryArray) -> tuple[pa.Array, pa.StringArray]:
        """Return the payloads unchanged, and a null reason for each, as no payload can fail to decode."""
        return payloads, no_reasons(len(payloads))


class StringDecoder:
    """Decodes payloads as UTF-8 text."""

    type: pa.DataType = pa.string()

    def decode(self, payloads: pa.BinaryArray) -> tuple[pa.Array, pa.StringArray]:
        """Decode a column: (values, reasons), as Decoder.decode. Payloads are decoded one by one only if the column
        has a payload that is not UTF-8."""
        try:
            return pc.cast(payloads, pa.string()), no_reasons(len(payloads))
        except pa.ArrowInvalid:
            pass
        reasons = [_reason(payload) for payload in payloads.to_pylist()]
        faulty = pa.array(reasons, pa.string())
        sound = pc.if_else(pc.is_valid(faulty), None, payloads)
        return pc.cast(sound, pa.string()), faulty


def _reason(payload: bytes | None) -> str | None:
    if payload is None:
        return None
    try:
        payload.decode()
    except UnicodeDecodeError as error:
        return f"not UTF-8 at byte {error.start}: {error.reason}"
    return None
