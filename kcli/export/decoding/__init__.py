"""Keys and values of records as typed columns: raw, string, JSON, Avro, Protobuf.

    spec = DecoderSpec.parse("avro:http://registry:8081")
    known = survey(spec, payloads) | survey(spec, more)      # only if spec.infers
    decoder = make_decoder(spec, known)                      # on the driver; picklable, sent to the workers
    values, reasons = decoder.decode(payloads)               # values: of decoder.type; reasons: texts, null if decoded

Payloads, values and reasons are Arrow arrays. This package does not import Spark.
"""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from kcli.errors import NotInstalled
from kcli.export.decoding.by_schema import Language, RegistryDecoder, SchemaDecoder
from kcli.export.decoding.ddl import parse_ddl
from kcli.export.decoding.decoder import Decoder
from kcli.export.decoding.inference import by_name
from kcli.export.decoding.json_text import JsonDecoder, VariantDecoder
from kcli.export.decoding.plain import RawDecoder, StringDecoder
from kcli.export.decoding.spec import DecoderSpec
from kcli.export.decoding.survey import Survey, survey
from kcli.schema_client.errors import RegistryError, SchemaError
from kcli.schema_client.registry import is_log_directory, open_registry
from kcli.schema_client.sources import Registry, SchemaSource, read_schema_file, schema_text

LIBRARIES = {"avro": ("fastavro",), "protobuf": ("google.protobuf", "grpc_tools")}

__all__ = ["Decoder", "DecoderSpec", "RegistryError", "SchemaError", "Survey", "make_decoder", "survey"]


def make_decoder(spec: DecoderSpec | str, known: Survey | None = None) -> Decoder:
    """Return the decoder that `spec` describes. known: the survey of the payloads, needed if `spec.infers`.

    Raises UsageError, NotInstalled, SchemaError, RegistryError, UnreadableInput (a schema file cannot be read).
    """
    if isinstance(spec, str):
        spec = DecoderSpec.parse(spec)
    known = known or Survey()
    if spec.format == "raw":
        return RawDecoder()
    if spec.format == "string":
        return StringDecoder()
    language = _language(spec.format)
    if spec.registry is not None:
        return RegistryDecoder(language, _registry(spec.registry), known.headers)
    if spec.format == "json":
        return _json_decoder(spec, known)
    assert spec.schema is not None
    return SchemaDecoder(language, _source(spec.schema, spec.message))


def _json_decoder(spec: DecoderSpec, known: Survey) -> Decoder:
    if spec.variant:
        return VariantDecoder()
    if spec.schema is None:
        return JsonDecoder(by_name(known.json), strict=True)
    if not _is_file(spec.schema):
        return JsonDecoder(parse_ddl(spec.schema), strict=False)
    source = _source(spec.schema, None)
    if source.text.lstrip().startswith("{"):
        return SchemaDecoder(_language("json"), source)
    return JsonDecoder(parse_ddl(source.text), strict=False)


def _registry(place: str) -> Registry:
    if not is_log_directory(place):
        return open_registry(place)
    from kcli.registry.files import registry_of

    return registry_of([Path(place)], lambda _: None)


def _language(name: str) -> Language:
    for needed in LIBRARIES.get(name, ()):
        try:
            found = find_spec(needed)
        except ModuleNotFoundError:
            found = None
        if found is None:
            raise NotInstalled(needed, "spark", name)
    module: Language = import_module(f"kcli.export.decoding.{name if name != 'json' else 'json_schema'}")
    return module


def _is_file(schema: str) -> bool:
    """Return whether the argument of `json:` names a file: it has the suffix .json or .ddl, or is no type in Spark's
    DDL (a type is a single word, or contains white space, a bracket, a colon or a backquote)."""
    return Path(schema).suffix in {".json", ".ddl"} or not (schema.isidentifier() or re.search(r"[\s<(`:]", schema))


def _source(path: str, message: str | None) -> SchemaSource:
    data = read_schema_file(path)
    if path.endswith((".proto", ".avsc", ".json", ".ddl")):
        folder = str(Path(path).absolute().parent)
        return SchemaSource(schema_text(data, path), folder=folder, message=message)
    return SchemaSource(compiled=data, message=message)
