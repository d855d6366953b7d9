"""The inputs of a response: all on which it depends. The function `inputs` in a handler's module returns them, if the
handler's responses are cached (kept.py)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from kcli.broker.process.turns import LONG_ITEMS

if TYPE_CHECKING:
    from kcli.metadata.partition import Topic

TOPICS_MAX: Final = 50
"""The greatest number of topics in a request whose response is cached (kept.py)."""


class Inputs(NamedTuple):
    """The inputs of a response. fields: the fields of the request on which the response depends; None if the response
    must not be cached. state: the state of the node on which the response depends. topics: the topics that the response
    describes. is_slow: whether making the response takes milliseconds even without any topics."""

    fields: Hashable
    state: Hashable
    topics: Iterable[Topic] = ()
    is_slow: bool = False

    @property
    def is_long(self) -> bool:
        """Whether making the response takes milliseconds: it is slow, or describes more than LONG_ITEMS partitions."""
        if self.is_slow:
            return True
        count = 0
        for topic in self.topics:
            count += len(topic.partitions)
            if count > LONG_ITEMS:
                return True
        return False
