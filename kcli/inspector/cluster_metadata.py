"""Topics and configurations from the `__cluster_metadata` of a log directory: its latest snapshot, then its log.

Records that the quorum has not committed count too: the files do not say how far the log is committed.
"""

from __future__ import annotations

from pathlib import Path

from formats.file_name import METADATA_DIRECTORY
from kcli.log.partition_view import PartitionView
from kcli.metadata.image import MetadataImage
from kcli.metadata_log.replay import refuse, replay


def read_image(log_directory: Path) -> MetadataImage | None:
    """Return the cluster's metadata after the last record of the metadata log in a log directory; None if the directory
    has no metadata log.

    Raises UnreadableInput.
    """
    directory = log_directory / METADATA_DIRECTORY
    if not directory.is_dir():
        return None
    return replay(directory, PartitionView(directory).original, refuse, around_damage=False)


def read_image_around_damage(log_directory: Path) -> MetadataImage:
    """Return the cluster's metadata after all records that can be read, those after damaged bytes included. The log
    directory must have a metadata log. Raises UnreadableInput."""
    directory = log_directory / METADATA_DIRECTORY
    return replay(directory, PartitionView(directory).original, lambda _: None, around_damage=True)
