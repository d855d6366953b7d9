"""The errors of streams: each is one line that says which topology, node or record is wrong, and why."""

from __future__ import annotations

from kcli.errors import KcliError, UsageError


class StreamsError(KcliError):
    """Base of all errors of streams."""


class TopologyError(StreamsError, UsageError):
    """A topology that makes no sense, such as two stores with one name or a processor without the store it uses."""


class SerializationError(StreamsError):
    """A value that a serde cannot serialize, or bytes that it cannot deserialize."""


class ProcessingError(StreamsError):
    """A record that the topology cannot process."""


class ProductionError(ProcessingError):
    """A record that the topology cannot send."""


class FailedProcessing(ProcessingError):
    """An error that its handler has answered with a failure: no other handler is asked."""
