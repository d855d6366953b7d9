"""The directory.id that the metadata log has for each log directory of a node. The id of a directory is

    right       if meta.properties has it, the node has registered it, and no other log directory of the node has it
    decided     if the directory has no right id, the node has registered the id, and the metadata log places in the id
                more than half of the partitions that lie in the directory
    not known   if no id is right or decided, or if the same id would be decided for two directories

No two directories get the same id, and no directory gets an id that is in the meta.properties of another one, unless
the other one gets another id. Partitions that the metadata log places in the right or decided id of another directory
do not count: somebody has moved them. A partition that lies in several directories does not count either, as all but
one of these are copies; but it counts for a directory that has no other partitions. Source: KIP-858.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from uuid import UUID

from formats.errors import FormatError
from kcli.errors import KcliError
from kcli.log.log_directory import LogDirectory
from kcli.log.recovery.node_directories import meta_of
from kcli.metadata.image import MetadataImage
from kcli.metadata.partition import from_uuid, to_uuid
from kcli.metadata_log.placement import Placement
from kcli.protocol.topic_partition import TopicPartition

Votes = Mapping[TopicPartition, UUID]
"""The partitions that lie in a log directory, each with the directory.id in which the metadata log places it."""


def directory_ids(image: MetadataImage, node_id: int | None, directories: Sequence[Path]) -> Mapping[Path, str]:
    """Return the directory.id of each log directory of a node, without those for which it is not known.

    The result is empty if node_id is None, or if the metadata has no broker with this id. directories: all log
    directories of the node that are known, also those that do not exist.
    """
    broker = None if node_id is None else image.brokers.get(node_id)
    if broker is None:
        return {}
    registered, own = {*broker.directories}, {each: _own_id(each) for each in directories}
    holders = Counter(own.values())
    sure = {path: each for path, each in own.items() if each is not None and each in registered and holders[each] == 1}
    if len(sure) < len(own):
        votes = {each: _votes(image, node_id, each) for each in own}
        sure |= _decided(votes, registered, sure)
        _withdraw(sure, own)
    return {path: from_uuid(each) for path, each in sure.items()}


def _own_id(directory: Path) -> UUID | None:
    """The directory.id in meta.properties; None if there is none, or if it is not a valid UUID."""
    meta = meta_of(directory)
    if meta is None or meta.directory_id is None:
        return None
    with suppress(FormatError):
        return to_uuid(meta.directory_id)
    return None


def _votes(image: MetadataImage, node_id: int | None, directory: Path) -> Votes:
    with suppress(KcliError, OSError):  # other checks report a directory that cannot be read
        return Placement(image, node_id, None, LogDirectory(directory).partitions(), {}).places()
    return {}


def _decided(votes: Mapping[Path, Votes], registered: Collection[UUID], right: Mapping[Path, UUID]) -> dict[Path, UUID]:
    """Return the decided id (see the module) of each log directory that has no id in `right`; directories whose id is
    not known are left out.

    votes: by log directory, where the metadata log places the partitions that lie in it. registered: the ids that the
    node has registered. right: the ids in meta.properties that are right, by log directory.
    """
    copies = Counter(partition for each in votes.values() for partition in each)
    own = {path: {each: has[each] for each in has if copies[each] == 1} for path, has in votes.items()}
    decided: dict[Path, UUID] = {}
    for counted in (own, {path: own[path] or has for path, has in votes.items()}):
        while True:
            free = {*registered} - {*right.values(), *decided.values()}
            left = [each for each in votes if each not in right and each not in decided]
            most = {each: _most([placed for placed in counted[each].values() if placed in free]) for each in left}
            claims = Counter(most.values())
            found = {path: each for path, each in most.items() if each is not None and claims[each] == 1}
            if not found:
                break
            decided |= found
    return decided


def _most(votes: Collection[UUID]) -> UUID | None:
    """Return the id that more than half of `votes` have; None if there is none."""
    counts = Counter(votes)
    return next((each for each, count in counts.items() if 2 * count > counts.total()), None)


def _withdraw(sure: dict[Path, UUID], own: Mapping[Path, UUID | None]) -> None:
    """Remove from `sure` each decided id that another directory has in its meta.properties, unless that directory gets
    another id. sure: the right and the decided id of each log directory (see the module). own: the id in the
    meta.properties of each log directory."""
    while True:
        after = {path: sure.get(path, each) for path, each in own.items()}
        holders = Counter(after.values())
        taken = [path for path, each in sure.items() if each != own[path] and holders[each] > 1]
        if not taken:
            return
        for path in taken:
            del sure[path]
