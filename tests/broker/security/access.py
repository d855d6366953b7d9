"""Asks a node every question of access_cases.py with every set of rights: kcli's, or real Kafka's, whose answers are
kept:

    python -m tests.broker.security.access DIRECTORY PORT

starts one real node in DIRECTORY, with listeners at PORT and at the two ports behind it.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kcli.security.authorizer import CLASS_NAME
from tests.broker.running import Client, Closed
from tests.broker.security.access_cases import ADMIN, TOPICS, UNKNOWN, Question, Rights, acls, questions, rights
from tests.metadata.record_answers import resolved

Answer = dict[str, Any]
Ask = Callable[[str, int, dict[str, Any]], Answer]
"""A request's API, version and fields -> the answer."""

ANSWERS = Path(__file__).with_name("access_answers.jsonl.gz")
ZERO = "A" * 22
COORDINATOR_LOADS = {14, 15, 16}
KEPT = (
    "name", "topic", "topic_name", "topic_id", "group_id", "key", "resource_type", "resource_name", "user",
    "transactional_id", "partition_index", "partition", "partition_id", "is_internal",
    "topic_authorized_operations", "cluster_authorized_operations", "authorized_operations", "error_message",
)  # fmt: skip
LINES = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},ADMIN://127.0.0.1:{admin},CONTROLLER://127.0.0.1:{controller}
controller.listener.names=CONTROLLER
inter.broker.listener.name=ADMIN
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,ADMIN:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
sasl.mechanism.controller.protocol=PLAIN
listener.name.admin.plain.sasl.jaas.config={jaas}
listener.name.controller.plain.sasl.jaas.config={jaas}
authorizer.class.name={authorizer}
super.users={super_user}
log.dirs={directory}/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
"""
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="p" user_admin="p";'


def compared(value: Any, names: dict[str, str], field: str = "") -> Any:
    """Return what is compared of a response: its error codes, their subjects, and authorized operations; lists are
    sorted."""
    match value:
        case dict():
            kept = {
                key: compared(each, names, key) for key, each in value.items() if key in KEPT or "error_code" in key
            }
            lists = {key: compared(each, names) for key, each in value.items() if isinstance(each, list)}
            return {key: each for key, each in {**kept, **lists}.items() if each not in (None, [])}
        case list():
            return sorted((compared(each, names) for each in value if isinstance(each, dict)), key=json.dumps)
        case str() if field == "topic_id":
            return names.get(value, value if value in (UNKNOWN, ZERO) else "new")
        case str() if field == "error_message" and value.startswith("Request "):
            return None
    return value


def grant(admin: Ask, granted: Rights) -> dict[str, str]:
    """Give the client these rights and no others, and create missing topics and groups. Returns the ids of the
    topics."""
    wanted = acls(granted)
    every = {"resource_type_filter": 1, "resource_name_filter": None, "pattern_type_filter": 1, "operation": 1}
    every |= {"principal_filter": None, "host_filter": None, "permission_type": 1}
    admin("delete_acls", 3, {"filters": [every]})
    admin("create_acls", 3, {"creations": wanted})
    until = time.monotonic() + 30
    while True:
        ids = _topics(admin)
        known = sum(len(each["acls"]) for each in admin("describe_acls", 3, every)["resources"])
        if known == len(wanted) and ids.keys() == set(TOPICS):
            break
        assert time.monotonic() < until, "neither the topics nor the ACLs are there"
        time.sleep(0.02)
    offset: dict[str, Any] = {"partition_index": 0, "committed_offset": 0, "committed_leader_epoch": -1}
    topics = [{"name": name, "partitions": [{**offset, "committed_metadata": ""}]} for name in TOPICS]
    for group in ("g", "h"):
        member = {"group_id": group, "generation_id_or_member_epoch": -1, "member_id": "", "group_instance_id": None}
        admin("offset_commit", 8, {**member, "topics": topics})
    joins = {"member_id": "member", "member_epoch": 0, "instance_id": None, "rack_id": None, "server_assignor": None}
    joins |= {"rebalance_timeout": 10_000, "subscribed_topic_regex": None, "topic_partitions": []}
    for group, subscribed in (("c", list(TOPICS)), ("d", ["t"])):
        admin("consumer_group_heartbeat", 1, {**joins, "group_id": group, "subscribed_topic_names": subscribed})
    return ids


def _topics(admin: Ask) -> dict[str, str]:
    """Create missing topics and delete others. Returns the ids of the topics that had leaders before."""
    found = admin("metadata", 12, {"topics": None})["topics"]
    names = {each["name"] for each in found if not each["name"].startswith("__")}
    made = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}
    new = [{"name": name, **made} for name in TOPICS if name not in names]
    if new:
        admin("create_topics", 7, {"topics": new, "timeout": 5000, "validate_only": False})
    others = [{"name": name, "topic_id": None} for name in names - set(TOPICS)]
    if others:
        admin("delete_topics", 6, {"topics": others, "timeout": 5000})
    return {
        each["name"]: each["topic_id"]
        for each in found
        if each["name"] in names and all(partition["leader_id"] > 0 for partition in each["partitions"])
    }


def _begin_transactions(admin: Ask) -> None:
    """Begin a transaction with the topics for each transactional id."""
    for name in ("x", "y"):
        asked = {"transactional_id": name, "transaction_timeout": 900_000, "producer_id": -1, "producer_epoch": -1}
        while (producer := admin("init_producer_id", 4, asked))["error_code"] in COORDINATOR_LOADS:
            time.sleep(0.1)
        assert not producer["error_code"], producer
        known = {"transactional_id": name, **{key: producer[key] for key in ("producer_id", "producer_epoch")}}
        request = {f"v3_and_below_{key}": value for key, value in known.items()}
        request["v3_and_below_topics"] = [{"name": topic, "partitions": [0]} for topic in TOPICS]
        admin("add_partitions_to_txn", 3, request)


def ask_all(admin: Ask, ask: Ask, sets: Iterable[Rights], pause_s: float = 0.0) -> list[list[Any]]:
    """Ask all questions with each set of rights. Returns the compared parts of the responses, one list for each set.
    pause_s: the time until a topic that a question has created is visible."""
    for key_type in (0, 1):  # makes the coordinators' topics
        until = time.monotonic() + 30
        while True:
            found = admin("find_coordinator", 3, {"key_type": key_type, "key": "a"})
            if not found["error_code"]:
                break
            assert time.monotonic() < until, found
            time.sleep(0.1)
    while admin("describe_groups", 5, {"groups": ["g"]})["groups"][0]["error_code"] in COORDINATOR_LOADS:
        time.sleep(0.1)
    described = {"transactional_ids": ["x"]}
    while admin("describe_transactions", 0, described)["transaction_states"][0]["error_code"] in COORDINATOR_LOADS:
        time.sleep(0.1)
    grant(admin, ())
    _begin_transactions(admin)
    answers = []
    for granted in sets:
        time.sleep(pause_s)
        ids = grant(admin, granted)
        answers.append([ask_one(ask, question, ids) for question in questions()])
    return answers


def ask_one(ask: Ask, question: Question, ids: dict[str, str]) -> Any:
    """Return the compared part of a response. ids: of the topics."""
    names = {topic_id: f"${name}" for name, topic_id in ids.items()}
    api, version, request = question
    try:
        return compared(ask(api, version, resolved(request, ids)), names)
    except Closed:
        return "closed"


class AdminClient(Client):
    """A connection that has logged in with PLAIN."""

    def login(self, name: str, password: str) -> None:
        for key, version, body in (
            (17, 1, struct.pack(">h", 5) + b"PLAIN"),
            (36, 0, _bytes(f"\0{name}\0{password}".encode())),
        ):
            frame = struct.pack(">hhih", key, version, 0, -1) + body
            self.socket.sendall(_bytes(frame))
            assert self.read_frame()[4:6] == b"\0\0", "the login is refused"


def _bytes(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@contextmanager
def real_node(
    directory: Path, port: int, *java: str, users: Iterable[str] = (), passwords: Iterable[str] = (), more: str = ""
) -> Iterator[AdminClient]:
    """Start real Kafka, which logs into DIRECTORY/log; yield its administrator's client.

    java: options of the JVM. users: super users beside the administrator, with the password p. passwords: other users
    with that password. more: further lines of server.properties.
    """
    kafka = Path(os.environ.get("KAFKA_SCRIPT", "kafka"))
    properties = directory / "server.properties"
    known = {"port": port, "admin": port + 1, "controller": port + 2, "directory": directory}
    names = list(users)
    jaas = JAAS.replace(";", "".join(f' user_{name}="p"' for name in (*names, *passwords)) + ";")
    super_users = ";".join([ADMIN, *(f"User:{name}" for name in names)])
    properties.write_text(LINES.format(**known, jaas=jaas, authorizer=CLASS_NAME, super_user=super_users) + more)
    subprocess.run(
        [kafka, "run", "kafka.tools.StorageTool", "format", "-t", "4L6g3nShTeMCtKoAAX86sw", "-c", properties],
        check=True,
    )
    options = {**os.environ, "JAVA_TOOL_OPTIONS": " ".join(java)}
    with (directory / "log").open("w") as log:
        node = subprocess.Popen(
            [kafka, "run", "kafka.Kafka", properties], stdout=log, stderr=log, start_new_session=True, env=options
        )
        try:
            admin = _connected(port + 1)
            admin.login("admin", "p")
            yield admin
        finally:
            os.killpg(node.pid, signal.SIGTERM)  # the script and its Java
            node.wait()


def record(directory: Path, port: int) -> None:
    def ask(api: str, version: int, request: dict[str, Any]) -> Answer:
        with Client(("127.0.0.1", port)) as client:
            return client.call(api, version, **request)

    with real_node(directory, port) as admin:
        answers = ask_all(lambda *asked: admin.call(asked[0], asked[1], **asked[2]), ask, rights(), 0.5)
    lines = [json.dumps(each) for each in answers]
    ANSWERS.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))


def _connected(port: int) -> AdminClient:
    until = time.monotonic() + 60
    while True:
        try:
            return AdminClient(("127.0.0.1", port))
        except ConnectionRefusedError:
            assert time.monotonic() < until, "the node does not come up"
            time.sleep(0.2)


if __name__ == "__main__":
    record(Path(sys.argv[1]), int(sys.argv[2]))
