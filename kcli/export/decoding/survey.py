"""What must be known of the payloads themselves before there is a type for them.

A survey of some payloads is small, picklable, and two of them make one (`|`): workers survey what they have, the driver
puts it together and makes the decoder.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from formats.kernels import payload as kernel
from kcli.export.decoding.inference import infer_json
from kcli.export.decoding.shapes import kernel_payloads
from kcli.export.decoding.spec import DecoderSpec
from kcli.export.decoding.unify import unify


@dataclass(frozen=True, slots=True)
class Survey:
    """headers: all different ones of Confluent's. json: the type that JSON texts have in common."""

    headers: frozenset[bytes] = frozenset()
    json: pa.DataType = field(default_factory=pa.null)

    def __or__(self, other: Survey) -> Survey:
        """What is known of both."""
        return Survey(self.headers | other.headers, unify(self.json, other.json, text=True))


def survey(spec: DecoderSpec, payloads: pa.BinaryArray) -> Survey:
    """Look at a column of payloads; at once where the spec infers nothing (`spec.infers`)."""
    if not spec.infers:
        return Survey()
    if spec.registry is not None:
        header = kernel.SCHEMA_MESSAGE if spec.format == "protobuf" else kernel.SCHEMA_ID
        return Survey(headers=frozenset(kernel_payloads(payloads).headers(header)))
    return Survey(json=infer_json(payloads.to_pylist()))
