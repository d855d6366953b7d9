"""The topics and partitions that a query names, against those that its paths hold.

As in Spark's Kafka source a name that is not there is an error, and a pattern that fits no topic has no rows. A topic
without records is there. Source: ConsumerStrategy, whose Admin describes each topic that is named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kcli.errors import UsageError
from kcli.export.options import Partition, SourceOptions

TOPICS_SHOWN = 10


def refuse_unknown(options: SourceOptions, there: Collection[Partition], known: Iterable[Partition] = ()) -> None:
    """Raise UsageError for the first topic or partition that `options` name and that is not `there`.

    known: partitions that were there once, whose loss is not this function's matter.
    """
    there = {*there, *known}
    topics = sorted({topic for topic, _ in there})
    where = ", ".join(options.paths)
    for topic in sorted(options.subscribe or options.assign or ()):
        if topic not in topics:
            raise UsageError(f"no topic {topic!r} in {where}{_instead(topic, topics)}")
    for topic, numbers in sorted((options.assign or {}).items()):
        for number in sorted(numbers):
            if (topic, number) not in there:
                others = ", ".join(str(other) for name, other in sorted(there) if name == topic)
                raise UsageError(f"no partition {number} of {topic!r} in {where}, which has {others}")


def _instead(topic: str, topics: list[str]) -> str:
    from difflib import get_close_matches

    shown = ", ".join(topics[:TOPICS_SHOWN]) or "none"
    more = f" and {len(topics) - TOPICS_SHOWN:,} more" if len(topics) > TOPICS_SHOWN else ""
    close = get_close_matches(topic, topics, n=1)
    which = f"; did you mean {close[0]!r}? It has" if close else ", which has"
    return f"{which} {shown}{more}"
