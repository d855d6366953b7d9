"""The reasons why records cannot be appended to the metadata log."""

from __future__ import annotations

from kcli.errors import KcliError


class NotController(KcliError):
    """This node is not the active controller, or has resigned before the records were committed."""


class MetadataLogFailed(KcliError):
    """A write to the metadata log, or a flush, has failed, so that the node must stop. Uncommitted records may or may
    not be in the log."""


class MetadataLogClosed(KcliError):
    """The metadata log accepts no more records, as the node is shutting down."""


class RecordTooLarge(KcliError):
    """A record is too large for a batch of the metadata log, so that the request that would write it is refused."""


class TooManyRecords(KcliError):
    """A request would append more records than fit into one batch, at a metadata.version without transactions."""
