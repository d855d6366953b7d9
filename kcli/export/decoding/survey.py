"""Surveys: what payloads say about the type that they decode to, needed if the format's argument does not give the
type.

A survey is small and picklable, and `|` combines two of them: each worker surveys its own payloads, and the driver
combines their surveys and makes the decoder.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from formats.kernels.payload.payloads import SCHEMA_ID, SCHEMA_MESSAGE
from kcli.export.decoding.inference import infer_json
from kcli.export.decoding.shapes import kernel_payloads
from kcli.export.decoding.spec import DecoderSpec
from kcli.export.decoding.unify import unify


@dataclass(frozen=True, slots=True)
class Survey:
    """What some payloads show about the type to which they decode. headers: their distinct Schema Registry prefixes, if
    the schemas come from a registry. json: the common type of the payloads as JSON texts, if the type is inferred; the
    null type if nothing is known of it."""

    headers: frozenset[bytes] = frozenset()
    json: pa.DataType = field(default_factory=pa.null)

    def __or__(self, other: Survey) -> Survey:
        """Return the survey of the payloads of both surveys together."""
        return Survey(self.headers | other.headers, unify(self.json, other.json, text=True))


def survey(spec: DecoderSpec, payloads: pa.BinaryArray) -> Survey:
    """Return the survey of a column of payloads. An empty survey is returned, without reading the payloads, if not
    `spec.infers`."""
    if not spec.infers:
        return Survey()
    if spec.registry is not None:
        header = SCHEMA_MESSAGE if spec.format == "protobuf" else SCHEMA_ID
        return Survey(headers=frozenset(kernel_payloads(payloads).headers(header)))
    return Survey(json=infer_json(payloads.to_pylist()))
