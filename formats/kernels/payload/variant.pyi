from formats.kernels.payload.columns import Shape
from formats.kernels.payload.payloads import Decoded, Payloads

class VariantDecoding:
    """A decoder of JSON to VARIANT for one column. shape: a STRUCT of the BINARY columns value and metadata; seed: any
    number, for the hashes of field names."""

    def __init__(self, shape: Shape, seed: int) -> None: ...
    def decode(self, payloads: Payloads) -> Decoded:
        """Decode a column of payloads; the result has the form of AvroProgram.decode's."""
