"""The argument of --key-format and --value-format: how keys or values are decoded.

raw                              bytes, unchanged
string                           UTF-8 text
json                             JSON, its type inferred from the records
json:variant                     JSON, each value kept as VARIANT
json:id BIGINT, tags ARRAY<STRING>   JSON of this type, in Spark's DDL (also from a file)
json:order.json                  JSON of the type that a JSON schema in a file describes
avro:order.avsc                  Avro, each payload one value of this schema, without a Schema Registry prefix
protobuf:order.proto#shop.Order  Protobuf, each payload one such message; also with a descriptor set (protoc -o)
avro:http://registry:8081        Avro after a Schema Registry prefix, schemas from a registry; also json:, protobuf:
avro:dump/                       the same, with schemas from a registry's dump: a directory or a file
                                 (kcli.schema_client.registry), or from a broker's log directory with `_schemas`
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from kcli.errors import UsageError

FORMATS = ("raw", "string", "json", "avro", "protobuf")


@dataclass(frozen=True, kw_only=True, slots=True)
class DecoderSpec:
    """How to decode payloads. All attributes are plain values, which can be sent to Spark's workers.

    format: one of FORMATS. schema: the path of a schema file or, for JSON, a type in Spark's DDL. registry: the URL of
    a registry, or the path of a dump. message: the full name of a Protobuf message. variant: decode JSON to VARIANT.
    schema, registry and message are None if the format's argument does not name one.
    """

    format: str
    schema: str | None = None
    registry: str | None = None
    message: str | None = None
    variant: bool = False

    @classmethod
    def parse(cls, text: str) -> DecoderSpec:
        """Return the spec that FORMAT[:ARGUMENT][#MESSAGE] describes. Raises UsageError."""
        name, _, argument = text.partition(":")
        if name not in FORMATS:
            raise UsageError(f"{name!r} is no format of payloads: {', '.join(FORMATS)}")
        if name in {"raw", "string"}:
            if argument:
                raise UsageError(f"{name} takes no schema: {argument!r}")
            return cls(format=name)
        message = None
        if name == "protobuf":
            argument, _, message = argument.partition("#")
        if argument == "variant" and name == "json":
            return cls(format=name, variant=True)
        if not argument:
            if name != "json":
                raise UsageError(f"{name} needs a schema file, a registry's URL or a dump: {name}:...")
            return cls(format=name)
        if "://" in argument or is_dump(Path(argument)):
            return cls(format=name, registry=argument, message=message or None)
        return cls(format=name, schema=argument, message=message or None)

    @property
    def infers(self) -> bool:
        """Whether the type depends on the payloads, so that a survey of them is needed (survey.py)."""
        return self.registry is not None or (self.format == "json" and self.schema is None and not self.variant)

    @property
    def possible_types(self) -> tuple[pa.DataType, ...]:
        """Types of which the payloads' common type will be one, or one with more fields or digits, if `infers`. The
        null type for Avro, whose schemas may be of any."""
        if self.format == "protobuf":
            return (pa.struct([]),)
        return (pa.null(),) if self.format == "avro" else _JSON_TYPES


_JSON_TYPES = (pa.struct([]), pa.string(), pa.list_(pa.null()), pa.int64(), pa.float64(), pa.bool_())


def is_dump(path: Path) -> bool:
    """Whether a path is a registry's dump: a directory, or a .json file with an array of schemas that have ids."""
    try:
        if path.is_dir():
            return True
        if path.suffix != ".json":
            return False
        with path.open("rb") as file:
            start = file.read(4096)
    except OSError:
        return False
    return start.lstrip()[:1] == b"[" and b'"id"' in start
