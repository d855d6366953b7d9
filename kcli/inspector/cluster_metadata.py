"""Topics and configurations as a log directory's `__cluster_metadata` has them: its last snapshot, then its log.

What a quorum has not committed yet is not told apart: a directory alone does not say. Damage ends the log there.
"""

from __future__ import annotations

from pathlib import Path

from formats.file_name import METADATA_DIRECTORY
from kcli.log.recovery_view import PartitionView
from kcli.metadata.image import MetadataImage
from kcli.metadata_replay import refuse, replay


def read_image(log_directory: Path) -> MetadataImage | None:
    """Replay the metadata log in a log directory; None where there is none. Raises UnreadableInput."""
    directory = log_directory / METADATA_DIRECTORY
    if not directory.is_dir():
        return None
    return replay(directory, PartitionView(directory).original, refuse, around_damage=False)
