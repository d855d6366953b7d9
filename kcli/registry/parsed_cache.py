"""A cache of parsed schemas by type, text and references. Hashes for comparisons are kept longer than the schemas."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from hashlib import sha256

from kcli.registry.records import StoredSchema
from kcli.schemas.formats import parse
from kcli.schemas.parsed import ParsedSchema, shared_text
from kcli.schemas.schema import InvalidSchema, SchemaType

COUNT_MAX = 1000
"""The greatest number of parsed schemas; the default of Confluent's `schema.cache.size`."""
SIZE_MAX = 8 << 20
"""The greatest length of all texts together, references included, in characters. Parsed schemas take several times that
memory."""
HASHES_MAX = 100_000


class ParsedCache:
    """Parses each schema once and keeps it; a schema too large to be kept is parsed once for each request."""

    def __init__(self, count_max: int = COUNT_MAX, size_max: int = SIZE_MAX, hashes_max: int = HASHES_MAX) -> None:
        self._entries: OrderedDict[bytes, tuple[ParsedSchema, int]] = OrderedDict()
        self._hashes: OrderedDict[bytes | tuple[str, bytes], bytes] = OrderedDict()
        self._count_max = count_max
        self._size_max = size_max
        self._hashes_max = hashes_max
        self._size = 0
        self._current: tuple[bytes, ParsedSchema] | None = None

    def parse(self, schema_type: str, text: str, references: Mapping[str, str]) -> ParsedSchema:
        """Return the parsed schema. It is also cached under its canonical text, which is stored, and compared with the
        next version. Raises InvalidSchema."""
        key = _key(schema_type, text, references)
        known = self._entries.get(key)
        if known is not None:
            self._entries.move_to_end(key)
            return known[0]
        if self._current is not None and self._current[0] == key:
            return self._current[1]
        if schema_type not in SchemaType.__members__:
            raise InvalidSchema(f"Invalid schema type {schema_type}")
        parsed = parse(SchemaType(schema_type), text, references)
        size = sum(map(len, references.values()))
        if size + len(text) > self._size_max:
            self._current = (key, parsed)
        else:
            self._keep(key, parsed, size + len(text))
            if parsed.canonical != text:
                self._keep(_key(schema_type, parsed.canonical, references), parsed, size + len(parsed.canonical))
        return parsed

    def shared_hash(self, schema: StoredSchema, references: Mapping[str, str]) -> bytes:
        """Return `hash_of` the `shared_text` of a registered schema, which is parsed only the first time. A schema
        without references is identified by its digest; one with references by its text and theirs, as they may be
        registered again with another text. Raises InvalidSchema."""
        key = _key(schema.type, schema.text, references) if references else (schema.type, schema.digest)
        known = self._hashes.get(key)
        if known is not None:
            self._hashes.move_to_end(key)
            return known
        found = self._hashes[key] = hash_of(shared_text(self.parse(schema.type, schema.text, references)))
        if len(self._hashes) > self._hashes_max:
            self._hashes.popitem(last=False)
        return found

    def let_go(self) -> None:
        """Release the schema that is too large to be kept, at the end of the request that has used it."""
        self._current = None

    def _keep(self, key: bytes, parsed: ParsedSchema, size: int) -> None:
        _, known = self._entries.pop(key, (parsed, 0))
        self._entries[key] = (parsed, size)
        self._size += size - known
        while self._entries and (len(self._entries) > self._count_max or self._size > self._size_max):
            _, (_, dropped) = self._entries.popitem(last=False)
            self._size -= dropped


def hash_of(text: str) -> bytes:
    """Return the hash by which texts are compared."""
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _key(schema_type: str, text: str, references: Mapping[str, str]) -> bytes:
    hashed = sha256(schema_type.encode("utf-8", "surrogatepass"))
    for part in (text, *(each for pair in references.items() for each in pair)):
        data = part.encode("utf-8", "surrogatepass")
        hashed.update(len(data).to_bytes(8, "big"))
        hashed.update(data)
    return hashed.digest()
