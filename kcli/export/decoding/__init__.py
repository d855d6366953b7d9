"""Keys and values of records as typed columns: raw, string, JSON, Avro, Protobuf.

    spec = DecoderSpec.parse("avro:http://registry:8081")
    known = survey(spec, payloads) | survey(spec, more)      # only where spec.infers
    decoder = make_decoder(spec, known)                      # on the driver; picklable, goes to the workers
    values, reasons = decoder.decode(payloads)               # values: of decoder.type; reasons: why not, else null

Pure functions over Arrow: nothing here knows Spark.
"""

from __future__ import annotations

from pathlib import Path

from kcli.errors import UnreadableInput, UsageError
from kcli.export.decoding.ddl import parse_ddl
from kcli.export.decoding.decoder import Decoder
from kcli.export.decoding.errors import RegistryError, SchemaError
from kcli.export.decoding.inference import settle
from kcli.export.decoding.json_text import JsonDecoder, VariantDecoder
from kcli.export.decoding.plain import RawDecoder, StringDecoder
from kcli.export.decoding.spec import DecoderSpec
from kcli.export.decoding.survey import Survey, survey

__all__ = ["Decoder", "DecoderSpec", "RegistryError", "SchemaError", "Survey", "make_decoder", "survey"]


def make_decoder(spec: DecoderSpec | str, known: Survey | None = None) -> Decoder:
    """The decoder for payloads as `spec` says; known: what a survey of them found, needed where `spec.infers`.

    Raises UsageError, SchemaError, RegistryError, UnreadableInput (a schema file that is not there).
    """
    if isinstance(spec, str):
        spec = DecoderSpec.parse(spec)
    known = known or Survey()
    if spec.format == "raw":
        return RawDecoder()
    if spec.format == "string":
        return StringDecoder()
    if spec.format == "json":
        if spec.variant:
            return VariantDecoder()
        if spec.schema is None:
            return JsonDecoder(settle(known.json), strict=True)
        return JsonDecoder(parse_ddl(_schema_text(spec.schema)), strict=False)
    raise UsageError(f"{spec.format} cannot be decoded yet")


def _schema_text(schema: str) -> str:
    path = Path(schema)
    try:
        return path.read_text() if path.is_file() else schema
    except (OSError, UnicodeDecodeError) as error:
        raise UnreadableInput(schema, str(error)) from error
