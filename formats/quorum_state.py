"""Quorum state (`quorum-state`): what a KRaft voter must not forget: its epoch, its vote, the leader it follows.

    one line of JSON; data_version says which fields it has
      0 and 1   leaderId (-1: none known), leaderEpoch, votedId (-1: has not voted in this epoch)
      0         clusterId (always empty), appliedOffset (always 0), currentVoters: [{voterId}], or null
      1         votedDirectoryId: 22 characters of base64, which directory of the voter (KIP-853)

Voters of version 1 are in the log itself, in control records. Source: FileQuorumStateStore, QuorumStateData.json.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from formats.errors import BadValue, UnknownVersion

_BITS = {"leaderId": 32, "leaderEpoch": 32, "votedId": 32, "voterId": 32, "appliedOffset": 64}
_UUID = re.compile(r"[A-Za-z0-9_-]{22}")


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The state of one voter; None for what its version does not have (for `current_voters` also: not known)."""

    data_version: int
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: str | None = None
    cluster_id: str | None = None
    applied_offset: int | None = None
    current_voters: tuple[int, ...] | None = None


def parse(data: bytes) -> QuorumState:
    """The state that `data` holds. Raises BadValue, UnknownVersion."""
    try:
        fields = json.loads(data.decode().partition("\n")[0])
    except (ValueError, RecursionError):
        raise BadValue("not a line of JSON in UTF-8", 0) from None
    if not isinstance(fields, dict):
        raise BadValue("not a JSON object", 0)
    version = _int(fields, "data_version", 16)
    leader, epoch, voted = (_int(fields, name) for name in ("leaderId", "leaderEpoch", "votedId"))
    if version == 0:
        return QuorumState(
            version,
            leader,
            epoch,
            voted,
            cluster_id=_str(fields, "clusterId"),
            applied_offset=_int(fields, "appliedOffset"),
            current_voters=_voters(fields),
        )
    if version == 1:
        directory = _str(fields, "votedDirectoryId")
        if not _UUID.fullmatch(directory):
            raise BadValue(f"votedDirectoryId is {directory[:100]!r}, not 22 characters of base64", 0)
        return QuorumState(version, leader, epoch, voted, voted_directory_id=directory)
    raise UnknownVersion(f"quorum state version {version}, not 0 or 1", 0)


def build(state: QuorumState) -> bytes:
    """The bytes of a quorum-state file, fields in Kafka's order."""
    common = {"leaderId": state.leader_id, "leaderEpoch": state.leader_epoch, "votedId": state.voted_id}
    fields: dict[str, object]
    if state.data_version == 0:
        voters = state.current_voters
        fields = {"clusterId": state.cluster_id, **common, "appliedOffset": state.applied_offset}
        fields["currentVoters"] = None if voters is None else [{"voterId": voter} for voter in voters]
    else:
        fields = {**common, "votedDirectoryId": state.voted_directory_id}
    fields["data_version"] = state.data_version
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _field(fields: Mapping[str, Any], name: str) -> object:
    if name not in fields:
        raise BadValue(f"{name} is missing", 0)
    value: object = fields[name]
    return value


def _int(fields: Mapping[str, Any], name: str, bits: int | None = None) -> int:
    value = _field(fields, name)
    limit = 1 << (bits or _BITS[name]) - 1
    if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
        raise BadValue(f"{name} is {str(value)[:100]}, not an integer of {limit.bit_length()} bits", 0)
    return value


def _str(fields: Mapping[str, Any], name: str) -> str:
    value = _field(fields, name)
    if not isinstance(value, str):
        raise BadValue(f"{name} is {str(value)[:100]}, not a string", 0)
    return value


def _voters(fields: Mapping[str, Any]) -> tuple[int, ...] | None:
    voters = _field(fields, "currentVoters")
    if voters is None:
        return None
    if not isinstance(voters, list) or not all(isinstance(voter, dict) for voter in voters):
        raise BadValue("currentVoters is not an array of objects", 0)
    return tuple(_int(voter, "voterId") for voter in voters)
