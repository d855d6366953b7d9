"""The voters. A replica is a node's id and the id of its log's directory (KIP-853); static voters have only ids.

    key          a node id and a directory id; without a directory id it stands for the node, whatever its directory
    endpoints    host and port by listener
    versions     the levels of kraft.version that the voter supports

Source: ReplicaKey, VoterSet, Endpoints; VotersRecord.json.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

NO_DIRECTORY: Final = "A" * 22
"""The directory id that is written if the directory is not known: sixteen zero bytes in base64."""

SUPPORTED_KRAFT_VERSIONS: Final = (0, 1)
"""The lowest and the highest level of kraft.version that this node supports."""


class ReplicaKey(NamedTuple):
    """A replica of the metadata log. directory_id None: not known."""

    id: int
    directory_id: str | None = None

    @property
    def written_directory(self) -> str:
        """The directory id as messages and records have it: NO_DIRECTORY if it is not known."""
        return NO_DIRECTORY if self.directory_id is None else self.directory_id

    def admits(self, other: ReplicaKey) -> bool:
        """Return whether this key stands for the replica `other`: the node id is the same, and so is the directory id,
        if this key has one."""
        return self.id == other.id and self.directory_id in (None, other.directory_id)


def replica_key(node_id: int, directory_id: str | None) -> ReplicaKey:
    """Return the key for a node id and a directory id as messages and records have them. directory_id: None and
    NO_DIRECTORY both mean that it is not known."""
    return ReplicaKey(node_id, None if directory_id == NO_DIRECTORY else directory_id)


class Endpoint(NamedTuple):
    """The host and port of one listener of a node."""

    listener: str
    host: str
    port: int


Endpoints = tuple[Endpoint, ...]


def address(endpoints: Endpoints, listener: str) -> Endpoint | None:
    """Return the endpoint of a listener; None if there is none of that name."""
    return next((each for each in endpoints if each.listener == listener), None)


def address_or_first(endpoints: Endpoints, listener: str) -> Endpoint | None:
    """Return the endpoint of a listener; if there is none of that name, the first endpoint; None if there are no
    endpoints."""
    return address(endpoints, listener) or (endpoints[0] if endpoints else None)


@dataclass(frozen=True, slots=True)
class VoterNode:
    """A voter. min_version and max_version: the levels of kraft.version that it supports."""

    key: ReplicaKey
    endpoints: Endpoints
    min_version: int = 0
    max_version: int = 0


@dataclass(frozen=True, slots=True)
class VoterSet:
    """The voters by id. Two sets are equal if their voters are equal in all fields."""

    nodes: Mapping[int, VoterNode] = field(default_factory=dict)

    @classmethod
    def of(cls, nodes: Iterable[VoterNode]) -> VoterSet:
        """Return the set of these voters."""
        return cls({each.key.id: each for each in sorted(nodes, key=lambda each: each.key.id)})

    @classmethod
    def static(cls, listener: str, voters: Mapping[int, tuple[str, int]]) -> VoterSet:
        """Return the voters of controller.quorum.voters. listener: the name for their endpoints. voters: host and port
        by id."""
        return cls.of(VoterNode(ReplicaKey(each), (Endpoint(listener, *where),)) for each, where in voters.items())

    @property
    def ids(self) -> tuple[int, ...]:
        """The voters' ids, in order."""
        return tuple(self.nodes)

    @property
    def keys(self) -> list[ReplicaKey]:
        """The voters' keys, in order of their ids."""
        return [each.key for each in self.nodes.values()]

    @property
    def majority(self) -> int:
        """How many voters are a majority."""
        return len(self.nodes) // 2 + 1

    def is_voter(self, key: ReplicaKey) -> bool:
        """Whether the replica is one of the voters."""
        node = self.nodes.get(key.id)
        return node is not None and node.key.admits(key)

    def is_only_voter(self, key: ReplicaKey) -> bool:
        """Whether the replica is the only voter."""
        return len(self.nodes) == 1 and self.is_voter(key)

    def endpoints(self, node_id: int) -> Endpoints:
        """Return the endpoints of a voter; none for a node that is no voter."""
        node = self.nodes.get(node_id)
        return () if node is None else node.endpoints

    def needs_update(self, node: VoterNode) -> bool:
        """Whether `node` is a voter whose endpoints or levels differ from those in the set."""
        old = self.nodes.get(node.key.id)
        return old is not None and old.key.admits(node.key) and old != node

    def added(self, node: VoterNode) -> VoterSet | None:
        """Return the set with one more voter; None if a voter has that id already."""
        return None if node.key.id in self.nodes else VoterSet.of([*self.nodes.values(), node])

    def removed(self, key: ReplicaKey) -> VoterSet | None:
        """Return the set without a voter; None if that voter is not in the set, or is the only one."""
        old = self.nodes.get(key.id)
        if old is None or old.key != key or len(self.nodes) == 1:
            return None
        return VoterSet.of(each for each in self.nodes.values() if each is not old)

    def updated(self, node: VoterNode, *, whatever_directory: bool = False) -> VoterSet | None:
        """Return the set with `node` in place of the voter that has the same key; None if there is no such voter.
        whatever_directory: replace the voter that has the same node id, whatever its directory id."""
        old = self.nodes.get(node.key.id)
        if old is None or not (whatever_directory or old.key.admits(node.key)):
            return None
        return VoterSet.of([*(each for each in self.nodes.values() if each is not old), node])

    def value(self) -> dict[str, Any]:
        """Return the fields of the VotersRecord, without its version."""
        return {
            "voters": [
                {
                    "voterId": node.key.id,
                    "voterDirectoryId": node.key.written_directory,
                    "endpoints": [{"name": name, "host": host, "port": port} for name, host, port in node.endpoints],
                    "kRaftVersionFeature": {
                        "minSupportedVersion": node.min_version,
                        "maxSupportedVersion": node.max_version,
                    },
                }
                for node in self.nodes.values()
            ]
        }


def parse_voters(value: Mapping[str, Any]) -> VoterSet:
    """Return the voters in the fields of a VotersRecord."""
    return VoterSet.of(
        VoterNode(
            replica_key(voter["voterId"], voter["voterDirectoryId"]),
            tuple(Endpoint(each["name"], each["host"], each["port"]) for each in voter["endpoints"]),
            voter["kRaftVersionFeature"]["minSupportedVersion"],
            voter["kRaftVersionFeature"]["maxSupportedVersion"],
        )
        for voter in value["voters"]
    )
