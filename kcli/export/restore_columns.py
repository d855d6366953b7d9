"""The columns of an export that a restore reads, converted to the input of formats.kernels.arrow.builder.

    needed     topic, partition (or directories topic=…, partition=…), offset, timestamp or timestampMs, key, value
    headers    headers, if the column exists
    batches    batchOffset, batchLastOffset, batchPosition, batchTimestamp: records return to their original batches
    producers  attributes, producerId, producerEpoch, sequence: with all four columns transactions and control records
               are restored; without one of them producers, transactions and control records are left out
    segments   segment: segments get their original base offsets

Keys and values that an export has decoded as `string` are text columns; their text is encoded as UTF-8 again. Columns
of other types than text and binary cannot be converted back to bytes. Records of magic 0 and 1 become magic 2, because
Kafka 4 does not write the old formats (KIP-724); the base timestamp of such batches is not restored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from formats.compression import CODEC_NAMES
from formats.file_name import FileKind, parse
from formats.kernels.arrow.builder import BUILD_COLUMNS, BUILD_UNKNOWN_TIMESTAMP
from kcli.errors import UnreadableInput
from kcli.protocol.topic_partition import TopicPartition

KEY_COLUMNS: Final = ("topic", "partition", "offset")
PRODUCER_COLUMNS: Final = ("attributes", "producerId", "producerEpoch", "sequence")
BATCH_COLUMNS: Final = ("batchOffset", "batchLastOffset", "batchPosition", "batchTimestamp")
MORE_COLUMNS: Final = ("timestampType", "headers", "leaderEpoch", "magic", "codec", "segment", "isControl")
TRANSACTIONAL, CONTROL, DELETE_HORIZON, APPEND_TIME = 0x10, 0x20, 0x40, 8
CODEC_AND_TIME_TYPE = 0x0F
NO_SEGMENT = LEFT_OUT = -1

_ITEM = pa.struct([pa.field("key", pa.large_binary()), pa.field("value", pa.large_binary())])
_BYTES = {"key": pa.large_binary(), "value": pa.large_binary(), "headers": pa.large_list(_ITEM)}
BUILD_SCHEMA: Final = pa.schema([(name, _BYTES.get(name, pa.int64())) for name in BUILD_COLUMNS])
ROW_SCHEMA: Final = BUILD_SCHEMA.append(pa.field("segment", pa.int64()))


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one Parquet file that a restore reads.

    names: columns in the file. constants: topic and partition from the names of its directories. text: which of the
    columns key and value are text. has_producers: whether all of PRODUCER_COLUMNS exist.
    """

    path: str
    names: tuple[str, ...]
    constants: Mapping[str, str]
    text: tuple[str, ...]
    has_producers: bool

    def has(self, name: str) -> bool:
        """Whether the file has the column."""
        return name in self.names

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch's rows with ROW_SCHEMA; records that are not restored have LEFT_OUT as attributes.

        Raises UnreadableInput.
        """
        try:
            return self._rows(batch)
        except pa.ArrowException as error:
            raise UnreadableInput(self.path, str(error)) from None

    def keys(self, batch: pa.RecordBatch) -> pa.Table:
        """Return topic, partition and offset of the batch's rows. Raises UnreadableInput."""
        if "topic" in self.constants:
            topics = pa.repeat(self.constants["topic"], batch.num_rows)
        else:
            topics = batch.column("topic").cast(pa.string())
            if topics.null_count:
                raise UnreadableInput(self.path, "column topic has nulls")
        if "partition" in self.constants:
            partitions = _constant(int(self.constants["partition"]), batch.num_rows)
        else:
            partitions = self._numbers(batch, "partition")
        return pa.table([topics, partitions, self._numbers(batch, "offset")], names=list(KEY_COLUMNS))

    def having(self, batch: pa.RecordBatch, bit: int, keys: pa.Table) -> list[TopicPartition]:
        """Return the partitions with at least one row in whose attributes `bit`, a mask, is set. keys: the table that
        the method `keys` returns for the batch."""
        found = keys.filter(pc.not_equal(pc.bit_wise_and(self._numbers(batch, "attributes", 0), bit), 0))
        groups = found.group_by(["topic", "partition"]).aggregate([]).to_pylist() if found.num_rows else []
        return [TopicPartition(row["topic"], row["partition"]) for row in groups]

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        attributes = self._attributes(batch)
        if not self.has_producers:
            plain = pc.bit_wise_and(attributes, CODEC_AND_TIME_TYPE)
            attributes = pc.if_else(self._is_control(batch, attributes), LEFT_OUT, plain)
        columns = {
            "offset": self._numbers(batch, "offset"),
            "timestamp": self._timestamps(batch),
            "key": self._bytes(batch, "key"),
            "value": self._bytes(batch, "value"),
            "headers": self._headers(batch),
            "batch_base": self._numbers(batch, "batchOffset", -1),
            "batch_last": self._numbers(batch, "batchLastOffset", -1),
            "batch_id": self._numbers(batch, "batchPosition", -1),
            "base_timestamp": self._base_timestamps(batch),
            "leader_epoch": self._numbers(batch, "leaderEpoch", -1),
            "attributes": attributes,
            "segment": self._segments(batch),
        }
        for name, given in (
            ("producer_id", "producerId"),
            ("producer_epoch", "producerEpoch"),
            ("sequence", "sequence"),
        ):
            columns[name] = self._numbers(batch, given, -1) if self.has_producers else _constant(-1, batch.num_rows)
        return pa.record_batch([columns[name] for name in ROW_SCHEMA.names], schema=ROW_SCHEMA)

    def _numbers(self, batch: pa.RecordBatch, name: str, default: int | None = None) -> pa.Array:
        if not self.has(name):
            assert default is not None, f"{name} is always there"
            return _constant(default, batch.num_rows)
        column = batch.column(name).cast(pa.int64())
        if column.null_count:
            if default is None:
                raise UnreadableInput(self.path, f"column {name} has nulls")
            column = column.fill_null(default)
        return column

    def _timestamps(self, batch: pa.RecordBatch) -> pa.Array:
        if self.has("timestampMs"):
            return self._numbers(batch, "timestampMs", -1)
        column = batch.column("timestamp")
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        return column.cast(pa.int64()).fill_null(-1)

    def _base_timestamps(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the base timestamps of magic 2 batches, BUILD_UNKNOWN_TIMESTAMP for records of magic 0 and 1."""
        known = self._numbers(batch, "batchTimestamp", BUILD_UNKNOWN_TIMESTAMP)
        if not self.has("magic"):
            return known
        return pc.if_else(pc.less(self._numbers(batch, "magic", 2), 2), BUILD_UNKNOWN_TIMESTAMP, known)

    def _bytes(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        column = batch.column(name)
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return column.cast(pa.large_binary())

    def _headers(self, batch: pa.RecordBatch) -> pa.Array:
        if not self.has("headers"):
            return pa.nulls(batch.num_rows, BUILD_SCHEMA.field("headers").type)
        return batch.column("headers").cast(BUILD_SCHEMA.field("headers").type)

    def _attributes(self, batch: pa.RecordBatch) -> pa.Array:
        """Return the attributes of each row's batch: the column `attributes`; without it, attributes with only the bits
        that the columns codec and timestampType give. Raises UnreadableInput for an unknown codec.

        Without the column batchTimestamp, which has the delete horizon, the delete horizon's bit is cleared.
        """
        if self.has("attributes"):
            attributes = self._numbers(batch, "attributes", 0)
            return attributes if self.has("batchTimestamp") else pc.bit_wise_and(attributes, ~DELETE_HORIZON)
        attributes = _constant(0, batch.num_rows)
        if self.has("codec"):
            codecs = batch.column("codec").cast(pa.string())
            found = pc.index_in(codecs, pa.array(CODEC_NAMES))
            unknown = pc.and_(pc.is_null(found), pc.is_valid(codecs))
            if pc.any(unknown).as_py():
                name = codecs.filter(unknown)[0].as_py()
                raise UnreadableInput(self.path, f"column codec: {name!r} is none of {', '.join(CODEC_NAMES)}")
            attributes = found.cast(pa.int64()).fill_null(0)
        is_append_time = pc.equal(self._numbers(batch, "timestampType", 0), 1)
        return pc.bit_wise_or(attributes, pc.if_else(is_append_time, APPEND_TIME, 0).cast(pa.int64()))

    def _is_control(self, batch: pa.RecordBatch, attributes: pa.Array) -> pa.Array:
        if self.has("isControl"):
            return batch.column("isControl").fill_null(pa.scalar(value=False))
        return pc.not_equal(pc.bit_wise_and(attributes, CONTROL), 0)

    def _segments(self, batch: pa.RecordBatch) -> pa.Array:
        """Return, for each row, the base offset in the file name in column `segment`; NO_SEGMENT for a row without a
        file name."""
        if not self.has("segment"):
            return _constant(NO_SEGMENT, batch.num_rows)
        names = batch.column("segment").cast(pa.string()).dictionary_encode()
        bases = pa.array([_base_offset(name) for name in names.dictionary.to_pylist()], pa.int64())
        return bases.take(names.indices).fill_null(NO_SEGMENT)


def layout(path: str, schema: pa.Schema, directories: Mapping[str, str]) -> Layout:
    """Return the columns that a restore reads of a file with this schema. path: the file's path, for errors.

    directories: the values of the columns in the names of its directories (date=2026-11-20), by column name. Raises
    UnreadableInput if a needed column is missing, or has a type that cannot be converted back.
    """
    present = set(schema.names)
    constants = {
        name: directories[name] for name in ("topic", "partition") if name not in present and name in directories
    }
    time = "timestampMs" if "timestampMs" in present else "timestamp"
    needed = [*(name for name in KEY_COLUMNS if name not in constants), time, "key", "value"]
    missing = [name for name in needed if name not in present]
    if missing:
        columns = f"column{'' if len(missing) == 1 else 's'} {', '.join(missing)}"
        raise UnreadableInput(path, f"no {columns}: there is nothing to restore records from")
    has_producers = present.issuperset(PRODUCER_COLUMNS)
    names = (*needed, *(name for name in (*MORE_COLUMNS, *PRODUCER_COLUMNS, *BATCH_COLUMNS) if name in present))
    text = tuple(name for name in ("key", "value") if _is_text(schema.field(name).type))
    for name in names:
        _check_type(path, name, schema.field(name).type)
    if "partition" in constants and not constants["partition"].isdecimal():
        raise UnreadableInput(path, f"the directory partition={constants['partition']} names no partition")
    return Layout(path, names, constants, text, has_producers)


def notes(layouts: Sequence[Layout]) -> list[str]:
    """Return notes for the user: about the parts of records that are not restored because a file lacks columns, and
    about columns that are text; [] if there is nothing to note."""

    def lacking(names: tuple[str, ...]) -> list[str]:
        return [name for name in names if not all(each.has(name) for each in layouts)]

    found = []
    if any(not each.has_producers for each in layouts):
        names = ", ".join(lacking(PRODUCER_COLUMNS))
        found.append(f"without {names}: no producers, transactions and control records")
    if missing := lacking(BATCH_COLUMNS):
        found.append(f"without {', '.join(missing)}: batches are put together anew")
    if missing := [name for name in lacking(MORE_COLUMNS) if name not in ("magic", "isControl", "codec")]:
        found.append(f"without {', '.join(missing)}")
    if lacking(("attributes",)) and lacking(("codec",)):
        found.append("without attributes or codec: batches are not compressed, unless --codec says how")
    text = [name for name in ("key", "value") if any(name in each.text for each in layouts)]
    found += [f"{name} is text: encoded as UTF-8" for name in text]
    return found


def _constant(value: int, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, pa.int64()), count)


def _base_offset(name: str | None) -> int:
    parsed = None if name is None else parse(name)
    if parsed is None or parsed.kind is not FileKind.LOG or parsed.base_offset is None:
        return NO_SEGMENT
    return parsed.base_offset


def _value_type(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def _is_text(type_: pa.DataType) -> bool:
    plain = _value_type(type_)
    return bool(pa.types.is_string(plain) or pa.types.is_large_string(plain) or pa.types.is_string_view(plain))


def _is_bytes(type_: pa.DataType) -> bool:
    plain = _value_type(type_)
    checks: list[Any] = [
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_fixed_size_binary,
        pa.types.is_binary_view,
    ]
    return any(check(plain) for check in checks) or _is_text(plain)


def _check_type(path: str, name: str, type_: pa.DataType) -> None:
    if name in {"key", "value"}:
        if not _is_bytes(type_):
            reason = f"column {name} is decoded ({type_}), its bytes are not known: export it raw, or as string"
            raise UnreadableInput(path, reason)
    elif name == "headers":
        if not _is_headers(type_):
            raise UnreadableInput(path, f"column headers is {type_}, not a list of key (text) and value (binary)")
    elif name in {"topic", "codec", "segment"}:
        if not _is_text(type_):
            raise UnreadableInput(path, f"column {name} is {type_}, not text")
    elif name == "isControl":
        if not pa.types.is_boolean(type_):
            raise UnreadableInput(path, f"column {name} is {type_}, not boolean")
    elif not (pa.types.is_integer(type_) or (name == "timestamp" and pa.types.is_timestamp(type_))):
        raise UnreadableInput(path, f"column {name} is {type_}, not a number{' or a time' * (name == 'timestamp')}")


def _is_headers(type_: pa.DataType) -> bool:
    if not (pa.types.is_list(type_) or pa.types.is_large_list(type_)) or not pa.types.is_struct(type_.value_type):
        return False
    item = type_.value_type
    return [field.name for field in item] == ["key", "value"] and all(_is_bytes(field.type) for field in item)
