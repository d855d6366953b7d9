"""What a gap between the offsets of a log means: it depends on whether the topic was ever compacted."""

from __future__ import annotations

from enum import Enum

from formats.file_name import FileKind


class Gaps(Enum):
    """The meaning of a gap between offsets in a topic."""

    NORMAL = "the topic is, or was, compacted"
    LOSS = "the topic was never compacted"
    UNKNOWN = "nothing says whether the topic was ever compacted"
    DOUBTED = (
        f"{FileKind.CLEANER_OFFSETS} says that the topic was compacted, and the metadata log, which has its creation, "
        "that it was not, unless log.cleanup.policy was compact (--config)"
    )
