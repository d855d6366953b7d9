"""The check that the topics and partitions which a query names exist at its paths.

As in Spark's Kafka source, an unknown topic or partition is an error, and a pattern that matches no topic gives no
rows. A topic without records exists. Starting or ending offsets by partition are those of all partitions that the query
reads, and of no others. Source: ConsumerStrategy, which describes each named topic with the Admin client;
KafkaOffsetReaderAdmin.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from kcli.errors import UsageError
from kcli.export.options import Bound, Narrowed, SourceOptions
from kcli.protocol.topic_partition import TopicPartition

TOPICS_SHOWN = 10


def refuse_unknown(
    options: SourceOptions,
    present: Collection[TopicPartition],
    known: Collection[TopicPartition] = (),
    where: str | None = None,
) -> None:
    """Raise UsageError for the first topic or partition that `options` name and that does not exist, and for starting
    or ending offsets that are not those of the partitions to be read.

    present: the partitions that exist. known: partitions that an earlier batch has read, for which no error is raised;
    if there are any, the query has begun, and its starting offsets are not looked at. where: the place that is read,
    for the error; None for the paths and the tier of the options.
    """
    begins = not known
    present = {*present, *known}
    topics = sorted({topic for topic, _ in present})
    if where is None:
        where = ", ".join(options.paths if options.tier is None else (*options.paths, options.tier))
    for topic in sorted(options.subscribe or options.assign or ()):
        if topic not in topics:
            raise UsageError(f"no topic {topic!r} in {where}{_instead(topic, topics)}")
    for topic, numbers in sorted((options.assign or {}).items()):
        for number in sorted(numbers):
            if (topic, number) not in present:
                others = ", ".join(str(other) for name, other in sorted(present) if name == topic)
                raise UsageError(f"no partition {number} of {topic!r} in {where}, which has {others}")
    if begins:
        whole = replace(options, narrowed=Narrowed())
        for bound in (options.start, options.end):
            _refuse_others(bound, {each for each in present if whole.wants(*each)}, where)


def _refuse_others(bound: Bound, read: Collection[TopicPartition], where: str) -> None:
    """Raise UsageError unless the entries of a bound are those of the partitions that are read."""
    named = {*bound.offsets, *bound.times_ms}
    if bound.option is None or named == read:
        return
    if more := sorted(named.difference(read)):
        raise UsageError(f"{bound.option}: the query reads no {more[0]} in {where}")
    (left, *_) = sorted({*read} - named)
    instead = "" if bound.times_ms else " (-2 is the earliest, -1 the latest)"
    raise UsageError(f"{bound.option} lacks {left}, which the query reads too{instead}")


def _instead(topic: str, topics: list[str]) -> str:
    from difflib import get_close_matches

    shown = ", ".join(topics[:TOPICS_SHOWN]) or "none"
    more = f" and {len(topics) - TOPICS_SHOWN:,} more" if len(topics) > TOPICS_SHOWN else ""
    close = get_close_matches(topic, topics, n=1)
    which = f"; did you mean {close[0]!r}? It has" if close else ", which has"
    return f"{which} {shown}{more}"
