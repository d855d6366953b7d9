from formats.kernels.payload.columns import Shape
from formats.kernels.payload.payloads import Decoded, Payloads

class JsonProgram:
    """A decoder of JSON. names: for each column, the names of the struct's fields; strict: any other field is a fault;
    roots: the allowed headers, each with 0."""

    def __init__(
        self, shape: Shape, names: list[list[bytes]], strict: bool, roots: dict[bytes, int], header: int
    ) -> None: ...
    def decode(self, payloads: Payloads) -> Decoded:
        """Decode a column of payloads; the result has the form of AvroProgram.decode's."""
