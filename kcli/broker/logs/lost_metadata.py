"""A start stops before it renames to -stray the partitions of topics that a damaged metadata log no longer names.

    damaged    the log would be cut, is empty or missing, or ends before an offset that something else names
    suspect    it is sound, and the last shutdown was not clean: its end may be missing
    strays     of a topic that the log itself removes: ordinary, the broker had not come to rename its directories;
               of one that no record names: its creation is lost with the end of the log, and the data would be lost
               to the cluster with it

Only for a node that is all of its quorum: others fetch what they lack, and ask the quorum what is stray. After a clean
shutdown a sound log is believed, as Kafka does. Nothing has been changed when the start stops.
"""

from __future__ import annotations

import shlex

from formats.file_name import METADATA_DIRECTORY, METADATA_TOPIC
from kcli.broker.logs.directories import LogDirs, LogDirsRefused
from kcli.log.loader import LoadOptions
from kcli.log.recovery import plan
from kcli.lost_metadata import LostMetadata, Stray

NAMES_MAX = 10


def check_metadata(dirs: LogDirs, now_ms: int) -> None:
    """Raises LogDirsRefused, with the partitions and what to do, and UnreadableInput."""
    partitions = [each for directory in dirs.online for each in directory.files.partitions()]
    if all(each.name.state or each.name.topic == METADATA_TOPIC for each in partitions):
        return
    home = dirs.metadata.path
    path = home / METADATA_DIRECTORY
    lost = LostMetadata(home, plan(path, LoadOptions(now_ms, is_metadata=True)) if path.is_dir() else None)
    if lost.plan is not None and lost.plan.refused is not None:
        return  # the start will say so
    if not lost.signs and all(directory.files.was_shut_down_cleanly for directory in dirs.online):
        return
    found = lost.strays(partitions, dirs.node_id)
    names = [each.partition.path.name for each in found if isinstance(each, Stray) and each.is_missed]
    if names:
        raise LogDirsRefused(_message(lost, names))


def _message(lost: LostMetadata, names: list[str]) -> str:
    shown = ", ".join(names[:NAMES_MAX])
    more = f" and {len(names) - NAMES_MAX:,} more" if len(names) > NAMES_MAX else ""
    reason = "; ".join(lost.signs) or "the last shutdown was not clean, and the end of the log may be missing"
    command = shlex.join(["kcli", "recover", "--dry-run", str(lost.home)])
    return (
        f"the metadata log in {lost.home} does not name {len(names):,} partition{'s' if len(names) > 1 else ''} that "
        f"the log directories hold, and a start would rename them to -stray: {shown}{more} ({reason}). Nothing was "
        f"changed. Next: {command}; or --allow-strays, to go on as Kafka does"
    )
