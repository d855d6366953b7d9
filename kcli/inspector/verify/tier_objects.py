"""Findings of an object of the tier by the checks of `kcli verify`, with the next steps that an object has: no broker
recovers it, and `kcli recover` works on the partition that `kcli tier fetch` has fetched."""

from __future__ import annotations

from dataclasses import replace

from formats.file_name import FileKind, parse
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding

SERVED = (
    "brokers serve the object as it is, and consumers stop there: look for these offsets in other replicas' local "
    "logs; kcli tier fetch and then kcli recover --salvage keep what is sound"
)
SEARCHED = (
    "brokers search the object as it is: reads by offset or time may fail, or show aborted records; in what kcli tier "
    "fetch has fetched, kcli recover makes it anew"
)
REPLICAS = (
    "a replica that builds its log from the tier reads the object: it fails, or goes on with wrong producers or leader "
    "epochs; in what kcli tier fetch has fetched, kcli recover makes it anew"
)
WITHOUT_LOG = "the records of the segment are not in the tier"
_ACTIONS = {FileKind.LOG: SERVED, FileKind.PRODUCER_SNAPSHOT: REPLICAS, FileKind.REMOTE_LEADER_EPOCHS: REPLICAS}


def of_object(finding: Finding) -> Finding:
    """Return the finding about an object of the tier, with the next step for such an object, and a command that shows
    more."""
    name = parse(finding.path.rpartition("/")[2])
    if name is None or name.remote_id is None or finding.severity == "info":
        return finding
    if finding.kind == "orphan-file":
        store = finding.path.rsplit("/", 2)[0]
        return replace(finding, action=WITHOUT_LOG, command=next_steps.verify_tier(None, store))
    action = _ACTIONS.get(name.kind, SEARCHED)
    is_log = name.kind is FileKind.LOG
    is_there = not finding.kind.endswith("-missing")
    command = next_steps.dump(finding.path, finding.offset if is_log else None) if is_there else None
    return replace(finding, action=action, command=command, refuses_start=False)
