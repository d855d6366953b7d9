"""Requests of members and producers that are fenced, unknown or late, and requests that are invalid in themselves.

A case is an API, a version, a request to `coordinated.World`, and the name of the error in its response.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.broker.transactional import Transactional
from tests.interop.coordinated import NOBODY, SUBSCRIPTION, Request, World, beat, producer
from tests.log.batches import batch

LARGE = "x" * 5000


def join(w: World, **more: Any) -> Request:
    return {
        "group_id": "classic",
        "session_timeout": 300_000,
        "rebalance_timeout": 300_000,
        "member_id": w.member,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    } | more


def sync(w: World, **more: Any) -> Request:
    return {
        "group_id": "classic",
        "generation_id": w.generation,
        "member_id": w.member,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [],
    } | more


def alive(w: World, **more: Any) -> Request:
    return {"group_id": "classic", "generation_id": w.generation, "member_id": w.member} | more


def impostor(w: World) -> Request:
    """Return a request that uses the static member's instance id with another member id."""
    return {
        "group_id": "static",
        "generation_id": w.static_generation,
        "member_id": "impostor",
        "group_instance_id": "one",
    }


def commit(w: World, topic: str = "t", number: int = 0, metadata: str | None = "", **more: Any) -> Request:
    partition = {
        "partition_index": number,
        "committed_offset": 1,
        "committed_leader_epoch": -1,
        "committed_metadata": metadata,
    }
    member = {"group_id": "classic", "generation_id_or_member_epoch": w.generation, "member_id": w.member}
    return member | {"topics": [{"name": topic, "partitions": [partition]}]} | more


def fetch(member: str, epoch: int) -> Request:
    return {"groups": [{"group_id": "consumer", "member_id": member, "member_epoch": epoch, "topics": None}]}


def commit_in_transaction(w: World, of: Transactional | None = None, **more: Any) -> Request:
    partition = {
        "partition_index": 0,
        "committed_offset": 1,
        "committed_leader_epoch": -1,
        "committed_metadata": more.pop("metadata", ""),
    }
    topics = [{"name": more.pop("topic", "t"), "partitions": [partition]}]
    member = {"group_id": "classic", "generation_id": w.generation, "member_id": w.member}
    return producer(of or w.offsets) | member | {"topics": topics} | more


def adding(of: Transactional, topic: str = "t", **more: Any) -> Request:
    request = producer(of, **more)
    return {f"v3_and_below_{name}": value for name, value in request.items()} | {
        "v3_and_below_topics": [{"name": topic, "partitions": [1]}]
    }


def sending(of: Transactional, topic: str = "t", number: int = 0, **more: Any) -> Request:
    values = {"id": of.id, "epoch": of.epoch, "sequence": of.sequences.get((topic, number), 0)} | more
    data = batch(b"z", producer=(values["id"], values["epoch"]), sequence=values["sequence"], transactional=True)
    name = more.get("name", of.name)
    partition = {"index": number, "records": bytes(data)}
    topics = [{"name": topic, "partition_data": [partition]}]
    return {"transactional_id": name, "acks": -1, "timeout": 1000, "topic_data": topics}


def marker(of: Transactional, topic: str = "t", **more: Any) -> Request:
    told = {
        "producer_id": of.id,
        "producer_epoch": of.epoch,
        "transaction_result": False,
        "topics": [{"name": topic, "partition_indexes": [0]}],
        "coordinator_epoch": 0,
    }
    return {"markers": [told | more]}


Case = tuple[str, int, Callable[[World], Request], str]

CASES: dict[str, Case] = {
    # members of classic groups
    "join: unknown member": ("join_group", 9, lambda w: join(w, member_id="stranger"), "UNKNOWN_MEMBER_ID"),
    "join: another kind of group": (
        "join_group",
        9,
        lambda w: join(w, protocol_type="connect"),
        "INCONSISTENT_GROUP_PROTOCOL",
    ),
    "join: no protocol in common": (
        "join_group",
        9,
        lambda w: join(w, member_id="", protocols=[{"name": "other", "metadata": b""}]),
        "INCONSISTENT_GROUP_PROTOCOL",
    ),
    "join: session too short": ("join_group", 9, lambda w: join(w, session_timeout=1), "INVALID_SESSION_TIMEOUT"),
    "join: session too long": (
        "join_group",
        9,
        lambda w: join(w, session_timeout=2**31 - 1),
        "INVALID_SESSION_TIMEOUT",
    ),
    "join: no group": ("join_group", 9, lambda w: join(w, group_id=""), "INVALID_GROUP_ID"),
    "join: fenced instance": (
        "join_group",
        9,
        lambda w: join(w, group_id="static", member_id="impostor", group_instance_id="one"),
        "FENCED_INSTANCE_ID",
    ),
    "sync: unknown member": ("sync_group", 5, lambda w: sync(w, member_id="stranger"), "UNKNOWN_MEMBER_ID"),
    "sync: unknown group": ("sync_group", 5, lambda w: sync(w, group_id=NOBODY), "UNKNOWN_MEMBER_ID"),
    "sync: earlier generation": (
        "sync_group",
        5,
        lambda w: sync(w, generation_id=w.generation - 1),
        "ILLEGAL_GENERATION",
    ),
    "sync: later generation": (
        "sync_group",
        5,
        lambda w: sync(w, generation_id=w.generation + 1),
        "ILLEGAL_GENERATION",
    ),
    "sync: another protocol": (
        "sync_group",
        5,
        lambda w: sync(w, protocol_name="other"),
        "INCONSISTENT_GROUP_PROTOCOL",
    ),
    "sync: fenced instance": ("sync_group", 5, lambda w: sync(w) | impostor(w), "FENCED_INSTANCE_ID"),
    "heartbeat: unknown member": ("heartbeat", 4, lambda w: alive(w, member_id="stranger"), "UNKNOWN_MEMBER_ID"),
    "heartbeat: unknown group": ("heartbeat", 4, lambda w: alive(w, group_id=NOBODY), "UNKNOWN_MEMBER_ID"),
    "heartbeat: earlier generation": (
        "heartbeat",
        4,
        lambda w: alive(w, generation_id=w.generation - 1),
        "ILLEGAL_GENERATION",
    ),
    "heartbeat: fenced instance": ("heartbeat", 4, impostor, "FENCED_INSTANCE_ID"),
    "leave: unknown member": (
        "leave_group",
        5,
        lambda _: {"group_id": "classic", "members": [{"member_id": "stranger"}]},
        "UNKNOWN_MEMBER_ID",
    ),
    "leave: fenced instance": (
        "leave_group",
        5,
        lambda _: {"group_id": "static", "members": [{"member_id": "impostor", "group_instance_id": "one"}]},
        "FENCED_INSTANCE_ID",
    ),
    # offsets
    "commit: unknown member": ("offset_commit", 8, lambda w: commit(w, member_id="stranger"), "UNKNOWN_MEMBER_ID"),
    "commit: no member, in a group with members": (
        "offset_commit",
        8,
        lambda w: commit(w, member_id="", generation_id_or_member_epoch=-1),
        "UNKNOWN_MEMBER_ID",
    ),
    "commit: earlier generation": (
        "offset_commit",
        8,
        lambda w: commit(w, generation_id_or_member_epoch=w.generation - 1),
        "ILLEGAL_GENERATION",
    ),
    "commit: generation of no group": ("offset_commit", 8, lambda w: commit(w, group_id=NOBODY), "ILLEGAL_GENERATION"),
    "commit: no group": ("offset_commit", 8, lambda w: commit(w, group_id=""), "ILLEGAL_GENERATION"),
    "commit: fenced instance": (
        "offset_commit",
        8,
        lambda w: commit(
            w,
            group_id="static",
            member_id="impostor",
            group_instance_id="one",
            generation_id_or_member_epoch=w.static_generation,
        ),
        "FENCED_INSTANCE_ID",
    ),
    "commit: metadata too large": (
        "offset_commit",
        8,
        lambda w: commit(w, metadata=LARGE),
        "OFFSET_METADATA_TOO_LARGE",
    ),
    "commit: unknown topic": ("offset_commit", 8, lambda w: commit(w, topic="nowhere"), "UNKNOWN_TOPIC_OR_PARTITION"),
    "commit: unknown partition": ("offset_commit", 8, lambda w: commit(w, number=9), "UNKNOWN_TOPIC_OR_PARTITION"),
    "commit: late member of a consumer group": (
        "offset_commit",
        9,
        lambda w: commit(w, group_id="consumer", member_id="member-1", generation_id_or_member_epoch=w.consumer - 1),
        "STALE_MEMBER_EPOCH",
    ),
    "commit: stranger to a consumer group": (
        "offset_commit",
        9,
        lambda w: commit(w, group_id="consumer", member_id="stranger", generation_id_or_member_epoch=w.consumer),
        "UNKNOWN_MEMBER_ID",
    ),
    "fetch: late member of a consumer group": (
        "offset_fetch",
        9,
        lambda w: fetch("member-1", w.consumer + 5),
        "STALE_MEMBER_EPOCH",
    ),
    "fetch: stranger to a consumer group": (
        "offset_fetch",
        9,
        lambda w: fetch("stranger", w.consumer),
        "UNKNOWN_MEMBER_ID",
    ),
    "delete offsets: of a topic that is read": (
        "offset_delete",
        0,
        lambda _: {"group_id": "classic", "topics": [{"name": "t", "partitions": [{"partition_index": 0}]}]},
        "GROUP_SUBSCRIBED_TO_TOPIC",
    ),
    "delete offsets: unknown group": (
        "offset_delete",
        0,
        lambda _: {"group_id": NOBODY, "topics": []},
        "GROUP_ID_NOT_FOUND",
    ),
    "delete: with members": ("delete_groups", 2, lambda _: {"groups_names": ["classic"]}, "NON_EMPTY_GROUP"),
    "delete: consumer group with members": (
        "delete_groups",
        2,
        lambda _: {"groups_names": ["consumer"]},
        "NON_EMPTY_GROUP",
    ),
    "delete: unknown group": ("delete_groups", 2, lambda _: {"groups_names": [NOBODY]}, "GROUP_ID_NOT_FOUND"),
    # members of consumer groups
    "beat: unknown member": (
        "consumer_group_heartbeat",
        1,
        lambda w: beat("consumer", "stranger", w.consumer),
        "UNKNOWN_MEMBER_ID",
    ),
    "beat: unknown group": ("consumer_group_heartbeat", 1, lambda _: beat(NOBODY, "stranger", 3), "GROUP_ID_NOT_FOUND"),
    "beat: late": (
        "consumer_group_heartbeat",
        1,
        lambda w: beat("consumer", "member-1", w.consumer + 7),
        "FENCED_MEMBER_EPOCH",
    ),
    "beat: epoch that there is not": (
        "consumer_group_heartbeat",
        1,
        lambda _: beat("consumer", "member-1", -9),
        "INVALID_REQUEST",
    ),
    "beat: no topics": (
        "consumer_group_heartbeat",
        1,
        lambda _: beat("consumer", "new", 0, subscribed_topic_names=None),
        "INVALID_REQUEST",
    ),
    "beat: no member id": ("consumer_group_heartbeat", 1, lambda _: beat("consumer", "", 0), "INVALID_REQUEST"),
    "beat: no group": ("consumer_group_heartbeat", 1, lambda _: beat("", "new", 0), "INVALID_REQUEST"),
    "beat: unknown assignor": (
        "consumer_group_heartbeat",
        1,
        lambda _: beat("consumer", "new", 0, server_assignor="none"),
        "UNSUPPORTED_ASSIGNOR",
    ),
    "beat: bad expression": (
        "consumer_group_heartbeat",
        1,
        lambda _: beat("consumer", "new", 0, subscribed_topic_names=None, subscribed_topic_regex="(a"),
        "INVALID_REGULAR_EXPRESSION",
    ),
    "beat: instance in use": (
        "consumer_group_heartbeat",
        1,
        lambda _: beat("fixed", "new", 0, instance_id="one"),
        "UNRELEASED_INSTANCE_ID",
    ),
    "beat: fenced instance": (
        "consumer_group_heartbeat",
        1,
        lambda w: beat("fixed", "impostor", w.fixed, instance_id="one"),
        "FENCED_INSTANCE_ID",
    ),
    "beat: unknown instance": (
        "consumer_group_heartbeat",
        1,
        lambda w: beat("fixed", "member-2", w.fixed, instance_id="two"),
        "UNKNOWN_MEMBER_ID",
    ),
    # producers
    "init: no transactional id": ("init_producer_id", 4, lambda _: init("", 1000), "INVALID_REQUEST"),
    "init: timeout too long": (
        "init_producer_id",
        4,
        lambda _: init("empty", 2**31 - 2),
        "INVALID_TRANSACTION_TIMEOUT",
    ),
    "init: timeout of nothing": ("init_producer_id", 4, lambda _: init("empty", 0), "INVALID_TRANSACTION_TIMEOUT"),
    "init: fenced": (
        "init_producer_id",
        4,
        lambda w: init("empty", 1000, w.empty.id, w.empty.epoch + 5),
        "PRODUCER_FENCED",
    ),
    "init: another's id": ("init_producer_id", 4, lambda w: init("empty", 1000, w.open.id + 999, 0), "PRODUCER_FENCED"),
    "init: id without epoch": ("init_producer_id", 4, lambda w: init("empty", 1000, w.empty.id, -1), "INVALID_REQUEST"),
    "add: fenced": (
        "add_partitions_to_txn",
        3,
        lambda w: adding(w.open, producer_epoch=w.open.epoch + 1),
        "PRODUCER_FENCED",
    ),
    "add: another's id": (
        "add_partitions_to_txn",
        3,
        lambda w: adding(w.open, producer_id=w.empty.id),
        "INVALID_PRODUCER_ID_MAPPING",
    ),
    "add: unknown transactional id": (
        "add_partitions_to_txn",
        3,
        lambda w: adding(w.open, transactional_id=NOBODY),
        "INVALID_PRODUCER_ID_MAPPING",
    ),
    "add: unknown topic": (
        "add_partitions_to_txn",
        3,
        lambda w: adding(w.open, "nowhere"),
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    "add offsets: fenced": (
        "add_offsets_to_txn",
        3,
        lambda w: producer(w.open, producer_epoch=w.open.epoch + 1, group_id="classic"),
        "PRODUCER_FENCED",
    ),
    "add offsets: another's id": (
        "add_offsets_to_txn",
        3,
        lambda w: producer(w.open, producer_id=w.empty.id, group_id="classic"),
        "INVALID_PRODUCER_ID_MAPPING",
    ),
    "end: fenced": (
        "end_txn",
        3,
        lambda w: producer(w.open, producer_epoch=w.open.epoch + 1, committed=True),
        "PRODUCER_FENCED",
    ),
    "end: fenced, version 2": (
        "end_txn",
        5,
        lambda w: producer(w.open, producer_epoch=w.open.epoch + 1, committed=True),
        "PRODUCER_FENCED",
    ),
    "end: another's id": (
        "end_txn",
        5,
        lambda w: producer(w.open, producer_id=w.empty.id, committed=True),
        "INVALID_PRODUCER_ID_MAPPING",
    ),
    "end: unknown transactional id": (
        "end_txn",
        5,
        lambda w: producer(w.open, transactional_id=NOBODY, committed=True),
        "INVALID_PRODUCER_ID_MAPPING",
    ),
    "end: commit where nothing was begun": (
        "end_txn",
        5,
        lambda w: producer(w.empty, committed=True),
        "INVALID_TXN_STATE",
    ),
    "end: abort where nothing was begun": (
        "end_txn",
        3,
        lambda w: producer(w.empty, committed=False),
        "INVALID_TXN_STATE",
    ),
    "end: commit of what was aborted": (
        "end_txn",
        5,
        lambda w: producer(w.aborted, committed=True),
        "INVALID_TXN_STATE",
    ),
    "end: abort of what was committed": ("end_txn", 3, lambda w: producer(w.old, committed=False), "INVALID_TXN_STATE"),
    "send: fenced": ("produce", 9, lambda w: sending(w.open, epoch=w.open.epoch - 1), "INVALID_PRODUCER_EPOCH"),
    "send: unknown producer": (
        "produce",
        9,
        lambda w: sending(w.open, number=1, id=w.open.id + 999),
        "INVALID_PRODUCER_ID_MAPPING",
    ),
    "send: partition that was not added": ("produce", 9, lambda w: sending(w.open, number=1), "INVALID_TXN_STATE"),
    "send: gap in the sequence": ("produce", 9, lambda w: sending(w.open, sequence=9), "OUT_OF_ORDER_SEQUENCE_NUMBER"),
    "send: unknown topic": ("produce", 9, lambda w: sending(w.open, topic="nowhere"), "UNKNOWN_TOPIC_OR_PARTITION"),
    "send: no transactional id": (
        "produce",
        9,
        lambda w: sending(w.open, name=None),
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
    ),
    "commit in a transaction: fenced": (
        "txn_offset_commit",
        3,
        lambda w: commit_in_transaction(w, producer_epoch=w.offsets.epoch + 1),
        "INVALID_PRODUCER_EPOCH",
    ),
    "commit in a transaction: another's id": (
        "txn_offset_commit",
        3,
        lambda w: commit_in_transaction(w, producer_id=w.empty.id),
        "INVALID_PRODUCER_ID_MAPPING",
    ),
    "commit in a transaction: not begun for the group": (
        "txn_offset_commit",
        3,
        lambda w: commit_in_transaction(w, w.open),
        "INVALID_TXN_STATE",
    ),
    "commit in a transaction: stranger": (
        "txn_offset_commit",
        3,
        lambda w: commit_in_transaction(w, member_id="stranger"),
        "UNKNOWN_MEMBER_ID",
    ),
    "commit in a transaction: earlier generation": (
        "txn_offset_commit",
        3,
        lambda w: commit_in_transaction(w, generation_id=w.generation - 1),
        "ILLEGAL_GENERATION",
    ),
    "commit in a transaction: fenced instance": (
        "txn_offset_commit",
        3,
        lambda w: commit_in_transaction(w) | impostor(w),
        "FENCED_INSTANCE_ID",
    ),
    "commit in a transaction: metadata too large": (
        "txn_offset_commit",
        3,
        lambda w: commit_in_transaction(w, metadata=LARGE),
        "OFFSET_METADATA_TOO_LARGE",
    ),
    "commit in a transaction: unknown topic": (
        "txn_offset_commit",
        3,
        lambda w: commit_in_transaction(w, topic="nowhere"),
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    "marker: earlier epoch": (
        "write_txn_markers",
        1,
        lambda w: marker(w.aborted, "u", producer_epoch=-2),
        "INVALID_PRODUCER_EPOCH",
    ),
    "marker: unknown topic": (
        "write_txn_markers",
        1,
        lambda w: marker(w.open, "nowhere"),
        "UNKNOWN_TOPIC_OR_PARTITION",
    ),
    "marker: nobody's": ("write_txn_markers", 1, lambda w: marker(w.open, producer_id=-1), "UNKNOWN_SERVER_ERROR"),
    "marker: fenced coordinator": (
        "write_txn_markers",
        1,
        lambda w: marker(w.aborted, "u", coordinator_epoch=-1),
        "TRANSACTION_COORDINATOR_FENCED",
    ),
}


def init(name: str, timeout_ms: int, producer_id: int = -1, epoch: int = -1) -> Request:
    return {
        "transactional_id": name,
        "transaction_timeout": timeout_ms,
        "producer_id": producer_id,
        "producer_epoch": epoch,
    }
