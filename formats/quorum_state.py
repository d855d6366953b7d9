"""Quorum state (`quorum-state`): the epoch, the vote and the leader that a KRaft voter keeps across restarts.

    the first line: a JSON object, with anything behind it; its fields by data_version
      0 and 1   leaderId (-1: none known), leaderEpoch, votedId (-1: has not voted in this epoch)
      0         clusterId (always empty), appliedOffset (always 0), currentVoters: [{voterId}]
      1         votedDirectoryId: 22 characters of base64, directory id of the voter votedId (KIP-853)

Kafka uses the lower 16 bits of data_version, or 0 if it is no number. With version 1 the voters are in control
records of the metadata log. Source: FileQuorumStateStore, QuorumStateData.json.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from formats.errors import BadValue, UnknownVersion

_BITS = {"leaderId": 32, "leaderEpoch": 32, "votedId": 32, "voterId": 32, "appliedOffset": 64}
_UUID = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?")
EPOCH_MAX = (1 << 31) - 1
"""The highest leader epoch: after it, no further election is possible."""
_LINE_END = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class QuorumState:
    """The state of one voter; a field that its data_version does not have is None."""

    data_version: int
    leader_id: int
    leader_epoch: int
    voted_id: int
    voted_directory_id: str | None = None
    cluster_id: str | None = None
    applied_offset: int | None = None
    current_voters: tuple[int, ...] | None = None

    @property
    def refusal(self) -> str:
        """Why Kafka does not start with this state, in words; "" if it does. Each start of a single voter begins a new
        epoch, and the epoch after EPOCH_MAX would be a negative int32."""
        if self.leader_epoch != EPOCH_MAX:
            return ""
        reason = "invalid partition leader epoch entry"
        return f"leaderEpoch {EPOCH_MAX} is the highest, and the next election begins epoch -{EPOCH_MAX + 1} ({reason})"

    @property
    def stranger(self) -> int | None:
        """The leader, or the voter that has the vote, if it is none of the voters; None if both are, or if the voters
        are not in this file."""
        if not self.current_voters:
            return None
        named = (each for each in (self.leader_id, self.voted_id) if each >= 0)
        return next((each for each in named if each not in self.current_voters), None)


def parse(data: bytes) -> QuorumState:
    """Return the state that `data` holds. Raises BadValue, UnknownVersion."""
    try:
        line = _LINE_END.split(data.decode(), maxsplit=1)[0]
        fields, _ = json.JSONDecoder().raw_decode(line.lstrip(" \t"))
    except (ValueError, RecursionError):
        raise BadValue("not a line of JSON in UTF-8", 0) from None
    if not isinstance(fields, dict):
        raise BadValue("not a JSON object", 0)
    version = _short(_field(fields, "data_version"))
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
    """Return the bytes of a quorum-state file, fields in Kafka's order."""
    common = {"leaderId": state.leader_id, "leaderEpoch": state.leader_epoch, "votedId": state.voted_id}
    fields: dict[str, object]
    if state.data_version == 0:
        fields = {"clusterId": state.cluster_id, **common, "appliedOffset": state.applied_offset}
        fields["currentVoters"] = [{"voterId": voter} for voter in state.current_voters or ()]
    else:
        fields = {**common, "votedDirectoryId": state.voted_directory_id}
    fields["data_version"] = state.data_version
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _field(fields: Mapping[str, Any], name: str) -> object:
    if name not in fields:
        raise BadValue(f"{name} is missing", 0)
    value: object = fields[name]
    return value


def _int(fields: Mapping[str, Any], name: str) -> int:
    value = _field(fields, name)
    limit = 1 << _BITS[name] - 1
    if not isinstance(value, int) or isinstance(value, bool) or not -limit <= value < limit:
        raise BadValue(f"{name} is {str(value)[:100]}, not an integer of {limit.bit_length()} bits", 0)
    return value


def _short(value: object) -> int:
    """Return a JSON value as Jackson's `shortValue` does: the lower 16 bits of a number, 0 for anything else."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    number = int(value) & 0xFFFF if isinstance(value, int | float) and is_number else 0
    return number - (1 << 16) if number >= 1 << 15 else number


def _str(fields: Mapping[str, Any], name: str) -> str:
    value = _field(fields, name)
    if not isinstance(value, str):
        raise BadValue(f"{name} is {str(value)[:100]}, not a string", 0)
    return value


def _voters(fields: Mapping[str, Any]) -> tuple[int, ...]:
    voters = _field(fields, "currentVoters")
    if not isinstance(voters, list) or not all(isinstance(voter, dict) for voter in voters):
        raise BadValue("currentVoters is not an array of objects", 0)
    return tuple(_int(voter, "voterId") for voter in voters)
