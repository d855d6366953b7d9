"""A broker whose coordinators have state: groups of both protocols, and producers in several states."""

from __future__ import annotations

import struct
import time
from dataclasses import dataclass, field
from typing import Any

from kcli.protocol.error_code import ErrorCode
from tests.broker.running import Client
from tests.broker.transactional import NONE, Transactional, find_coordinator, until_ready

Request = dict[str, Any]
WAIT_S = 30.0
NOBODY = "nobody"


@dataclass
class World:
    """A broker with a classic group, a static member in another, a consumer group, and producers in several states."""

    client: Client
    ends_of: list[tuple[str, int]] = field(default_factory=list)

    def call(self, api: str, version: int, **request: Any) -> dict[str, Any]:
        return self.client.call(api, version, **request)

    def build(self) -> None:
        """What all cases find."""
        for name in ("t", "u"):
            self.client.create_topic(name, 2)
        for key_type in (0, 1):
            find_coordinator(self.client, key_type, "x")
        self.member, self.generation = self._join("classic")
        self.static, self.static_generation = self._join("static", "one")
        self.consumer = self._heartbeat("consumer", "member-1", 0)
        self.fixed = self._heartbeat("fixed", "member-2", 0, instance_id="one")
        self.open = self._producer("open")
        assert self.open.send("t", b"x", b"y") == NONE
        self.empty, self.offsets = self._producer("empty"), self._producer("offsets")
        for group in ("classic", "static"):
            answer = self.call("add_offsets_to_txn", 3, **producer(self.offsets, group_id=group))
            assert answer["error_code"] == NONE
        self.aborted, self.old = self._producer("aborted"), self._producer("old", modern=False)
        assert self.aborted.send("u", b"x") == NONE
        assert self.aborted.end(commit=False) == NONE
        self._settle("aborted")
        assert self.old.add("u") == NONE
        assert self.old.send("u", b"x", version=9) == NONE
        assert self.old.end(commit=True) == NONE
        self._settle("old")
        for topic in ("t", "u", "__consumer_offsets", "__transaction_state"):
            (found,) = self.call("metadata", 12, topics=[{"name": topic, "topic_id": None}])["topics"]
            self.ends_of += [(topic, each["partition_index"]) for each in found["partitions"]]

    def _producer(self, name: str, *, modern: bool = True) -> Transactional:
        host, port = self.client.socket.getpeername()[:2]
        producer = Transactional((host, port), name, modern=modern, timeout_ms=600_000)
        assert producer.init() == NONE
        return producer

    def _join(self, group: str, instance: str | None = None) -> tuple[str, int]:
        """Join a group as its only member; return the member id and the generation."""
        request: Request = {
            "group_id": group,
            "session_timeout": 300_000,
            "rebalance_timeout": 300_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
            "group_instance_id": instance,
        }
        answer = until_ready(lambda: self.call("join_group", 9, member_id="", **request))
        if ErrorCode(answer["error_code"]) == ErrorCode.MEMBER_ID_REQUIRED:
            answer = self.call("join_group", 9, member_id=answer["member_id"], **request)
        assert answer["error_code"] == NONE, answer
        member, generation = answer["member_id"], answer["generation_id"]
        synced = self.call(
            "sync_group",
            5,
            group_id=group,
            generation_id=generation,
            member_id=member,
            group_instance_id=instance,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": member, "assignment": b"mine"}],
        )
        assert synced["error_code"] == NONE
        return member, generation

    def _heartbeat(self, group: str, member: str, epoch: int, **more: Any) -> int:
        """Send heartbeats for a member of a consumer group until it has its partitions; return its epoch."""
        deadline = time.monotonic() + WAIT_S
        answer: Request = {"assignment": None}
        request = beat(group, member, epoch, **more)
        while answer["assignment"] is None:
            answer = self.call("consumer_group_heartbeat", 1, **request)
            assert answer["error_code"] in (NONE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), answer
            assert time.monotonic() < deadline
        epoch = answer["member_epoch"]
        self.call("consumer_group_heartbeat", 1, **owning(group, member, epoch, answer["assignment"], **more))
        return epoch

    def _settle(self, name: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while b"Prepare" in self._described(name):
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def _described(self, name: str) -> bytes:
        """Decode the response by hand, since kio does not read a time before 1970."""
        self.client.socket.sendall(self.client.frame("describe_transactions", 0, {"transactional_ids": [name]}))
        return self.client.read_frame()[4:]

    def _keep_alive(self) -> None:
        """Send heartbeats meanwhile, since members of consumer groups cannot choose their session timeout."""
        nothing_new = {"rebalance_timeout": -1, "subscribed_topic_names": None, "topic_partitions": None}
        members = (("consumer", "member-1", self.consumer, None), ("fixed", "member-2", self.fixed, "one"))
        for group, member, epoch, instance in members:
            request = beat(group, member, epoch, instance_id=instance, **nothing_new)
            assert self.call("consumer_group_heartbeat", 1, **request)["error_code"] == NONE

    def state(self) -> dict[str, Any]:
        """All that must not change."""
        self._keep_alive()
        topics: dict[str, list[Request]] = {}
        for topic, number in self.ends_of:
            asked = {"partition_index": number, "current_leader_epoch": -1, "timestamp": -1}
            topics.setdefault(topic, []).append(asked)
        ends = self.call(
            "list_offsets",
            7,
            replica_id=-1,
            isolation_level=0,
            topics=[{"name": name, "partitions": partitions} for name, partitions in topics.items()],
        )
        groups = ["classic", "static", NOBODY]
        fetched = [{"group_id": each, "topics": None} for each in (*groups, "consumer", "fixed")]
        return {
            "ends": [(each["name"], sorted(p["offset"] for p in each["partitions"])) for each in ends["topics"]],
            "groups": self.call("describe_groups", 6, groups=groups, include_authorized_operations=False)["groups"],
            "consumer groups": self.call(
                "consumer_group_describe", 1, group_ids=["consumer", "fixed"], include_authorized_operations=False
            )["groups"],
            "offsets": self.call("offset_fetch", 8, groups=fetched, require_stable=False)["groups"],
            "transactions": [self._described(each) for each in ("open", "empty", "offsets", "aborted", "old", NOBODY)],
            "producers": self.call("describe_producers", 0, topics=[{"name": "t", "partition_indexes": [0, 1]}])[
                "topics"
            ],
        }


SUBSCRIPTION = b"\0\1" + struct.pack(">i", 1) + b"\0\1t" + b"\xff\xff\xff\xff" + b"\0\0\0\0"


def beat(group: str, member: str, epoch: int, **more: Any) -> Request:
    """ConsumerGroupHeartbeat, as the first of a member."""
    return {
        "group_id": group,
        "member_id": member,
        "member_epoch": epoch,
        "rebalance_timeout": 300_000,
        "subscribed_topic_names": ["t"],
        "server_assignor": None,
        "topic_partitions": [],
    } | more


def owning(group: str, member: str, epoch: int, assignment: Request, **more: Any) -> Request:
    owned = [
        {"topic_id": each["topic_id"], "partitions": each["partitions"]} for each in assignment["topic_partitions"]
    ]
    return beat(group, member, epoch, **more) | {"topic_partitions": owned}


def producer(of: Transactional, **more: Any) -> Request:
    return {"transactional_id": of.name, "producer_id": of.id, "producer_epoch": of.epoch} | more
