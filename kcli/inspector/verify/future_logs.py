"""Directories with -future: those whose current log Kafka serves, and those that are a partition's only copy.

    beside its current log    Kafka goes on with the move: it copies to the end of the future log what this lacks. So
                              damage in the future log loses nothing if the current log has all offsets below the future
                              log's end. After a clean stop, Kafka appends behind the damage; or it fails to, and gives
                              up the move
    the only copy             no log directory has the current log: if the metadata log places the partition in another
                              log directory than the future log's, Kafka's start deletes the future log

Without a metadata log, nothing tells where the partition is placed. Then Kafka is taken to go on with the move of a
future log beside a current log; and a future log is taken for the only copy if all log directories are known, and none
has the current log. Source: kcli.metadata_log.promotion; tried with Kafka 4.3.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from formats.file_name import DirectoryName, build_directory
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding, offsets_text
from kcli.protocol.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kcli.inspector.verify.surroundings import Surroundings


def copied_anew(finding: Finding, directory: Path, around: Surroundings | None) -> Finding:
    """Return the finding. If it is about damage in a future log, but nothing is lost because Kafka serves the current
    log, the finding becomes a warning that says so. directory: the directory of the finding, of a future log or another
    one. around: the log directory that contains it."""
    current = None if around is None else around.served_instead.get(directory.absolute())
    if current is None or finding.severity != "error" or finding.refuses_start or Path(finding.path) == directory:
        return finding
    action, command = f"nothing is lost: Kafka serves {current}, and copies this anew from it", None
    if around is not None and around.is_clean:
        action = f"nothing is lost: Kafka serves {current}; stop the broker, and move this copy out of the log "
        action += "directory, as the move may not end with it"
        command = next_steps.move([(directory, next_steps.beside(directory))])
    return replace(
        finding,
        severity="warning",
        lost_first_offset=None,
        lost_last_offset=None,
        action=action,
        command=command,
    )


def only_copy(future: Path, name: DirectoryName, around: Surroundings) -> Finding | None:
    """Return the finding of a future log that is the only copy of its partition in the log directories of its node;
    None if it is not, or if the checks of another log directory report the partition as missing. name: the parsed name
    of its directory. around: its log directory."""
    end = around.only_copies.get(future.absolute())
    is_told = around.image is not None and any(around.is_given(each) for each in around.node.others)
    if end is None or is_told:
        return None
    partition = build_directory(DirectoryName(name.topic, name.partition))
    reached = around.reached_anywhere(TopicPartition(name.topic, name.partition))
    lost = f"; {offsets_text(end, reached - 1)} lost" if reached > end else ""
    is_placed = around.image is not None
    where = (
        ", as the metadata log places the partition elsewhere"
        if is_placed
        else (" unless the metadata log, which is not here, places the partition in this log directory")
    )
    return Finding(
        path=str(future),
        kind="partition-missing",
        severity="error",
        expected=f"{partition} in one of the log directories",
        found=f"no log directory has it: this copy of a move that was under way is the only one, and has the offsets "
        f"up to {end - 1:,}{lost}; a start deletes it{where}",
        lost_first_offset=end if lost else None,
        lost_last_offset=reached - 1 if lost else None,
        action=f"stop the broker, look for {partition}, also in log directories that were not given, or else give this "
        "one the name of the partition",
        command=next_steps.move([(future, future.with_name(partition))]),
    )


def unknown_current(partition: str) -> str:
    """Return the advice for a future log of which it is not known whether another log directory has the current log."""
    return (
        f"give all log directories, or --config: if none has {partition}, this is its only copy, and a start may "
        "delete it"
    )
