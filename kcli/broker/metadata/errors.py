"""Why nothing can be appended to the metadata log."""

from __future__ import annotations

from kcli.errors import KcliError


class NotController(KcliError):
    """This node is not the active controller, or was it no more before the records were committed."""


class MetadataLogFailed(KcliError):
    """A write or a flush failed: the node must stop. What was waiting may or may not be in the log."""


class MetadataLogClosed(KcliError):
    """The node is shutting down."""


class TooManyRecords(KcliError):
    """More records than fit into one batch, at a metadata.version without transactions."""
