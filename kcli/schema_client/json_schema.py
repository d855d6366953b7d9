"""JSON values by a JSON Schema: the encoding is the JSON text itself. A value to encode is validated.

A `$ref` is looked up only in the schema and in its references; no URL is fetched. Formats (`"format": "email"`) are
annotations, as in JSON Schema 2020-12. Source: JSON Schema draft 4 to 2020-12; jsonschema.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urljoin

from kcli.errors import needing
from kcli.schema_client.codec import BadPayload, BadValue
from kcli.schema_client.errors import SchemaError
from kcli.schema_client.sources import SchemaSource

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


def codec(source: SchemaSource, indexes: tuple[int, ...] = ()) -> JsonCodec:  # noqa: ARG001 (one signature for all)
    """Return the codec of a schema. indexes: not used. Raises SchemaError."""
    try:
        schema = json.loads(source.text)
        imports = {name: json.loads(text) for name, text in source.imports}
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"not a JSON schema: {error}") from error
    if not isinstance(schema, dict | bool):
        raise SchemaError("not a JSON schema: neither an object nor true or false")
    return JsonCodec(schema, imports)


class JsonCodec:
    """The codec of one JSON Schema."""

    message_indexes = b""

    def __init__(self, schema: dict[str, Any] | bool, imports: dict[str, Any]) -> None:
        self._schema = schema
        self._imports = imports

    def decode(self, data: bytes) -> Any:
        """Return a value, as Codec.decode. The value is not validated: a reader shows it even if it does not fit the
        schema. Raises BadPayload."""
        try:
            return json.loads(data, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            raise BadPayload(f"not JSON: {error}") from None

    def encode(self, value: Any) -> bytes:
        """Return the encoding of a value, as Codec.encode. Raises BadValue, SchemaError, NotInstalled."""
        from jsonschema.exceptions import ValidationError, best_match
        from referencing.exceptions import Unresolvable

        try:
            found: ValidationError | None = best_match(self._validator.iter_errors(value))
        except Unresolvable as error:
            raise SchemaError(f"a JSON schema refers to {error.ref!r}, which is not there") from None
        except RecursionError:
            raise BadValue("$: the value is nested too deep") from None
        if found is not None:
            message = found.message if len(found.message) <= 200 else found.message[:200] + "..."
            raise BadValue(f"{found.json_path}: {message}")
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    @cached_property
    def _validator(self) -> Validator:
        with needing("registry"):
            from jsonschema.exceptions import SchemaError as NoSchema
            from jsonschema.validators import Draft7Validator, validator_for
            from referencing import Registry, Resource
            from referencing.jsonschema import DRAFT7

        kind = validator_for(self._schema, default=Draft7Validator)
        try:
            kind.check_schema(self._schema)
            base = str(self._schema.get("$id", "")) if isinstance(self._schema, dict) else ""
            resources: dict[str, Any] = {}
            for name, schema in self._imports.items():
                resource = Resource.from_contents(schema, default_specification=DRAFT7)
                resources |= {name: resource, urljoin(base, name): resource}
            return kind(self._schema, registry=Registry().with_resources(resources.items()))
        except NoSchema as error:
            raise SchemaError(f"not a JSON schema: {error.json_path}: {error.message[:200]}") from None
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise SchemaError(f"not a JSON schema: {type(error).__name__}: {error}") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")
