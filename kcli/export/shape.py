"""From records to rows: keys and values are decoded, and records that do not decode go to the dead-letter table.

A dead letter is a record whose key or value does not decode. Its row in the dead-letter table has key and value as
bytes, and the reasons. Every record is in exactly one of the two tables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from kcli.export.columns import COLUMNS, arrow_schema
from kcli.export.decoding.decoder import Decoder
from kcli.export.decoding.programs import ProgramDecoder

PLACE = ("topic", "partition", "offset", "timestamp")
"""Columns that every batch has while it is processed, even if the table lacks them."""
DEAD_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


@dataclass(frozen=True, slots=True)
class Shape:
    """The table's columns, in order, and the decoders of keys and values (None: they stay bytes)."""

    columns: tuple[str, ...]
    key: Decoder | None = None
    value: Decoder | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns to read from the log for the table and the dead-letter table."""
        dead = DEAD_COLUMNS if self.key or self.value else ()
        return tuple(dict.fromkeys((*self.columns, *PLACE, *dead)))

    @property
    def schema(self) -> pa.Schema:
        """The table's Arrow schema."""
        return self._schema(lambda decoder: decoder.type)

    @property
    def open_schema(self) -> pa.Schema:
        """The table's Arrow schema with null types where the records tell no type, as those of tombstones: whatever an
        existing table has there fits."""
        return self._schema(lambda decoder: decoder.open_type if isinstance(decoder, ProgramDecoder) else decoder.type)

    def _schema(self, type_of: Callable[[Decoder], pa.DataType]) -> pa.Schema:
        decoders = {"key": self.key, "value": self.value}
        return pa.schema(
            [
                pa.field(name, type_of(decoder) if (decoder := decoders.get(name)) else COLUMNS[name].arrow)
                for name in self.columns
            ]
        )

    def apply(self, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch | None]:
        """Return the rows of the table and the rows of the dead-letter table (None if there are none) for a batch with
        the columns of `reads`. The rows of the table have the columns of PLACE (topic, partition, offset, timestamp)
        even if the table lacks them."""
        arrays = {name: batch.column(name) for name in dict.fromkeys((*self.columns, *PLACE))}
        reasons: dict[str, pa.Array] = {}
        for name, decoder in (("key", self.key), ("value", self.value)):
            if decoder is not None:
                arrays[name], reasons[name] = decoder.decode(batch.column(name))
        rows = pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))
        failed = [pc.is_valid(reason) for reason in reasons.values() if reason.null_count < len(reason)]
        if not failed:
            return rows, None
        dead = failed[0] if len(failed) == 1 else pc.or_(*failed)
        return rows.filter(pc.invert(dead)), dead_rows(batch, dead, reasons)


def dead_schema() -> pa.Schema:
    """Return the Arrow schema of the table of dead letters: the records whose key or value does not decode, and the
    reasons."""
    reasons = [pa.field("keyReason", pa.string()), pa.field("valueReason", pa.string())]
    return pa.schema([*arrow_schema(DEAD_COLUMNS), *reasons])


def dead_rows(batch: pa.RecordBatch, dead: pa.Array, reasons: dict[str, pa.Array]) -> pa.RecordBatch:
    """Return the rows of the dead-letter table for the records that the mask `dead` marks.

    reasons: by "key" and "value", an array with the reason why each record's key or value does not decode, null if it
    decodes. No entry for "key" or "value" means that keys or values are not decoded, but stay bytes.
    """
    none = pa.nulls(batch.num_rows, pa.string())
    arrays: Sequence[pa.Array] = [
        *(batch.column(name) for name in DEAD_COLUMNS),
        reasons.get("key", none),
        reasons.get("value", none),
    ]
    return pa.RecordBatch.from_arrays(list(arrays), schema=dead_schema()).filter(dead)
