"""The schema ids that the records of a topic may have.

    confluent.value.schema.validation   each value has an id that is registered under the subject `<topic>-value`
    confluent.key.schema.validation     each key has an id that is registered under the subject `<topic>-key`

Confluent's serializers put the id of its schema before each key and value (TopicNameStrategy names the subjects so).
Batches with other records are refused. Null is no payload: tombstones pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from formats.kernels.schema_ids import refused_schema

if TYPE_CHECKING:
    from formats.kernels.records import RecordTable
    from kcli.log.config import LogConfig


class KnownSchemas(Protocol):
    """The schemas of a registry."""

    @property
    def is_ready(self) -> bool:
        """Whether the registry has read all of its schemas. May be called in any thread, as `knows` may."""

    def knows(self, subject: str, schema_id: int) -> bool:
        """Return whether a version of the subject has the schema with this id."""


@dataclass(frozen=True, slots=True)
class SchemaRules:
    """Where the ids in a topic's records must be registered. key_subject, value_subject: None if any bytes are allowed;
    known: None on a broker without a registry, which cannot accept a record then."""

    known: KnownSchemas | None
    key_subject: str | None
    value_subject: str | None

    @classmethod
    def of(cls, topic: str, config: LogConfig, known: KnownSchemas | None) -> SchemaRules | None:
        """Return the rules for a topic; None if its configuration demands no schemas."""
        key = f"{topic}-key" if config.key_schemas else None
        value = f"{topic}-value" if config.value_schemas else None
        return cls(known, key, value) if key or value else None

    @property
    def is_ready(self) -> bool:
        """Whether the ids can be looked up."""
        return self.known is not None and self.known.is_ready

    def refusal(self, records: RecordTable, data: bytes | bytearray | memoryview, first_index: int) -> str | None:
        """Return why the records of a slice of a batch are refused; None if they are not. data: the buffer to which
        the table's positions refer. first_index: the index in the batch of the first record."""
        known = self.known
        assert known is not None, "the caller has asked `is_ready`"
        for subject, of_key in ((self.key_subject, True), (self.value_subject, False)):
            if subject is None:
                continue
            refused = refused_schema(records, data, of_key, partial(known.knows, subject))
            if refused is not None:
                row, schema_id = refused
                part = "key" if of_key else "value"
                reason = "no schema id before it" if schema_id < 0 else f"the schema id {schema_id}"
                end = f": it must have one that is registered under {subject}"
                return f"the {part} of record {first_index + row} has {reason}{end}"
        return None
