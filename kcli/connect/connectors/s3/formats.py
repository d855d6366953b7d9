"""Files of records, on this machine until they are whole.

    Json       a line for each value, as JsonConverter has it without schemas                   .json
    ByteArray  the bytes of values, each with format.bytearray.separator behind it              .bin
    Avro       an object container file, with the Avro schema that AvroConverter registers      .avro
    Parquet    the fields of structs as columns, with the types of kcli.connect.connectors.arrow .parquet

Lines and bytes may be compressed by gzip (.gz); a Parquet file has its codec before the ending: .snappy.parquet.
Source: Confluent's kafka-connect-storage-cloud, io.confluent.connect.s3.format.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kcli.connect.connectors.arrow import columns_of, rows_of
from kcli.connect.converters.avro import avro_schema, has_text_keys
from kcli.connect.converters.json import JsonConverter
from kcli.connect.data.errors import DataError
from kcli.connect.data.logical import decimal_bytes, encoded
from kcli.connect.data.records import SinkRecord
from kcli.connect.data.schema import Schema, Type
from kcli.connect.data.struct import Struct, validate
from kcli.connect.data.values import LOGICAL_DECIMAL, Date

ROWS: Final = 10_000
"""How many rows of a Parquet file are in memory."""
LINE_END: Final = "\n"
GZIP: Final = "gzip"
CODEC_ENDINGS: Final = {"none": "", "gzip": ".gz"}


class File(ABC):
    """A file that is written record by record. ending: of the object's key."""

    @abstractmethod
    def __init__(self, path: Path, first: SinkRecord, config: Mapping[str, str]) -> None:
        """Open the file. first: a record, for its schema. Raises DataError."""

    @staticmethod
    @abstractmethod
    def ending(config: Mapping[str, str]) -> str:
        """Return the ending of an object's key."""

    @abstractmethod
    def write(self, record: SinkRecord) -> None:
        """Write a record, of the schema of the first. Raises DataError."""

    @abstractmethod
    def close(self) -> None:
        """Write what is in memory, and close the file."""


class _Lines(File):
    """Bytes, compressed or not."""

    def __init__(self, path: Path, first: SinkRecord, config: Mapping[str, str]) -> None:  # noqa: ARG002
        is_gzip = config.get("s3.compression.type", "none") == GZIP
        self._out = pa.CompressedOutputStream(str(path), GZIP) if is_gzip else path.open("wb")

    def close(self) -> None:
        self._out.close()


def _compressed(config: Mapping[str, str], ending: str) -> str:
    return ending + CODEC_ENDINGS[config.get("s3.compression.type", "none")]


class _Json(_Lines):
    def __init__(self, path: Path, first: SinkRecord, config: Mapping[str, str]) -> None:
        super().__init__(path, first, config)
        options = {"schemas.enable": "false", "decimal.format": config.get("json.decimal.format", "BASE64")}
        self._converter = JsonConverter({**options, "converter.type": "value"})

    @staticmethod
    def ending(config: Mapping[str, str]) -> str:
        return _compressed(config, ".json")

    def write(self, record: SinkRecord) -> None:
        text = self._converter.from_connect(record.topic or "", record.value_schema, record.value)
        assert text is not None, "a record without a value is in no file"
        self._out.write(text + LINE_END.encode())


class _Bytes(_Lines):
    def __init__(self, path: Path, first: SinkRecord, config: Mapping[str, str]) -> None:
        super().__init__(path, first, config)
        self._separator = config.get("format.bytearray.separator", LINE_END).encode()

    @staticmethod
    def ending(config: Mapping[str, str]) -> str:
        return _compressed(config, config.get("format.bytearray.extension", ".bin"))

    def write(self, record: SinkRecord) -> None:
        if not isinstance(record.value, bytes):
            raise DataError("ByteArrayFormat needs values of bytes: set value.converter to ByteArrayConverter")
        self._out.write(record.value + self._separator)


class _Avro(File):
    def __init__(self, path: Path, first: SinkRecord, config: Mapping[str, str]) -> None:
        from fastavro import parse_schema
        from fastavro.write import Writer

        if first.value_schema is None:
            raise DataError("AvroFormat needs values with a schema")
        with_meta = config.get("connect.meta.data", "true").lower() == "true"
        schema = parse_schema(avro_schema(first.value_schema, with_meta=with_meta))
        self._file = path.open("wb")
        self._writer: Any = Writer(self._file, schema, config.get("avro.codec", "null"))

    @staticmethod
    def ending(config: Mapping[str, str]) -> str:  # noqa: ARG004
        return ".avro"

    def write(self, record: SinkRecord) -> None:
        assert record.value_schema is not None, "the file is of one schema"
        validate(record.value_schema, record.value)
        try:
            self._writer.write(_datum(record.value_schema, record.value))
        except (ValueError, TypeError, OverflowError) as error:
            raise DataError(f"the value fits no Avro schema: {error}") from error

    def close(self) -> None:
        self._writer.flush()
        self._file.close()


def _datum(schema: Schema, value: Any) -> Any:
    """Return a value that fits its schema as fastavro takes it."""
    if value is None:
        return None
    if schema.name == LOGICAL_DECIMAL:
        return decimal_bytes(schema, value)
    if isinstance(value, Date):
        return encoded(schema, value)
    match schema.type:
        case Type.STRUCT:
            return {field.name: _datum(field.schema, value.value_of(field)) for field in value.schema.fields}
        case Type.ARRAY:
            assert schema.value_schema is not None, "avro_schema has refused it"
            return [_datum(schema.value_schema, each) for each in value]
        case Type.MAP:
            of_keys, of_values = schema.key_schema, schema.value_schema
            assert of_keys is not None, "avro_schema has refused it"
            assert of_values is not None, "avro_schema has refused it"
            if has_text_keys(schema):
                return {key: _datum(of_values, each) for key, each in value.items()}
            return [{"key": _datum(of_keys, key), "value": _datum(of_values, each)} for key, each in value.items()]
    return value


class _Parquet(File):
    def __init__(self, path: Path, first: SinkRecord, config: Mapping[str, str]) -> None:
        if not isinstance(first.value, Struct):
            raise DataError("ParquetFormat needs values that are structs, with their schema")
        self._writer = pq.ParquetWriter(
            str(path), columns_of(first.value.schema), compression=config.get("parquet.codec", "snappy")
        )
        self._held: list[Struct] = []

    @staticmethod
    def ending(config: Mapping[str, str]) -> str:
        codec = config.get("parquet.codec", "snappy")
        return f"{CODEC_ENDINGS.get(codec, f'.{codec}')}.parquet"

    def write(self, record: SinkRecord) -> None:
        self._held.append(record.value)
        if len(self._held) >= ROWS:
            self._write()

    def _write(self) -> None:
        if self._held:
            held, self._held = self._held, []
            self._writer.write_batch(rows_of(held))

    def close(self) -> None:
        try:
            self._write()
        finally:
            self._writer.close()


FILES: Final[Mapping[str, type[File]]] = {
    "AvroFormat": _Avro,
    "ByteArrayFormat": _Bytes,
    "JsonFormat": _Json,
    "ParquetFormat": _Parquet,
}
"""The class of files by the simple name of format.class."""
