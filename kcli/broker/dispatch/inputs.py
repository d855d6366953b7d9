"""The inputs of an answer, which the function `inputs` of a handler returns where the answers are kept (kept.py)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from kcli.broker.process.turns import LONG_ITEMS

if TYPE_CHECKING:
    from kcli.metadata.partition import Topic

TOPICS_MAX: Final = 50
"""The greatest number of topics in a request whose answer is kept (kept.py)."""


class Inputs(NamedTuple):
    """The inputs of an answer. fields: the fields of the request that the answer depends on; None where the answer must
    not be kept. state: the state of the node that the answer depends on. topics: the topics that the answer describes.
    is_slow: whether the answer takes milliseconds to make, whatever the topics."""

    fields: Hashable
    state: Hashable
    topics: Iterable[Topic] = ()
    is_slow: bool = False

    @property
    def is_long(self) -> bool:
        """Whether the answer takes milliseconds to make: it is slow, or describes more than LONG_ITEMS partitions."""
        if self.is_slow:
            return True
        count = 0
        for topic in self.topics:
            count += len(topic.partitions)
            if count > LONG_ITEMS:
                return True
        return False
