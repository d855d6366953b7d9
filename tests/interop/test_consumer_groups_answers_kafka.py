"""The same requests of KIP-848's members, and of classic members in their groups, to real Kafka and to kcli get the
same responses, and write the same records to __consumer_offsets.

Only what is random or has no order of its own is left out: topic ids and hashes of them, times, and the order of
members and topics in Kafka's hash maps.
"""

from __future__ import annotations

import time
from itertools import groupby
from pathlib import Path
from typing import Any

from formats.internal_topic import decode, to_json
from formats.message_writer import write
from kcli.broker.coordinators.log import read_segment
from tests.broker.api.test_groups import coordinator
from tests.broker.running import Client
from tests.interop import test_tools_kafka as tools
from tests.interop.test_groups_answers_kafka import OFFSETS, without_random
from tests.interop.test_tools_kafka import Broker

both = tools.both
TIMEOUT = 60_000
ARRIVES_S = 0.8
"""The time until all of Kafka's broker knows of a topic's change."""
QUICK = {"consumer.assignment.interval.ms": "0"}
TOPICS = {"t": 4, "u": 2, "other": 1}
UNORDERED = ("topic_partitions", "topicPartitions", "assignedPartitions", "partitionsPendingRevocation")
COUNTED = {"metadataHash": "HASH", "version": "VERSION"}


def protocol(name: str = "range", topics: tuple[str, ...] = ("t",), owned: tuple[int, ...] = ()) -> dict[str, Any]:
    """What a consumer says in JoinGroup."""
    partitions = [{"topic": "t", "partitions": list(owned)}] if owned else []
    value = {"topics": list(topics), "userData": None, "ownedPartitions": partitions}
    return {"name": name, "metadata": b"\0\1" + write("ConsumerProtocolSubscription", 1, value)}


def assigned(*numbers: int) -> bytes:
    """What a leader assigns."""
    value = {"assignedPartitions": [{"topic": "t", "partitions": list(numbers)}], "userData": None}
    return b"\0\1" + write("ConsumerProtocolAssignment", 1, value)


def normal(value: Any) -> Any:
    """Return the response with fixed names for what is random, and with what has no order sorted."""
    match value:
        case dict():
            return {
                name: COUNTED[name] if name in COUNTED and each else _in_order(name, normal(each))
                for name, each in without_random(value).items()
            }
        case list():
            return [normal(each) for each in value]
    return value


def _in_order(name: str, value: Any) -> Any:
    return sorted(value, key=str) if name in UNORDERED else value


class Script:
    """Requests for one group, and their responses."""

    def __init__(self, client: Client, group: str) -> None:
        self.client, self.group = client, group
        self.ids = {name: self._topic_id(name) for name in TOPICS}
        self.answers: list[Any] = []

    def _topic_id(self, name: str) -> str:
        found: str = self.client.call("metadata", 13, topics=({"topic_id": "A" * 22, "name": name},))["topics"][0][
            "topic_id"
        ]
        return found

    def call(self, api: str, version: int, **request: Any) -> dict[str, Any]:
        answer = self.client.call(api, version, **request)
        self.answers.append([api, version, answer])
        return answer

    # members

    def beat(
        self,
        member: str,
        epoch: int,
        owned: dict[str, tuple[int, ...]] | None = None,
        version: int = 1,
        **more: Any,
    ) -> dict[str, Any]:
        held = None
        if owned is not None:
            held = tuple({"topic_id": self.ids[name], "partitions": each} for name, each in owned.items())
        values = {"group_id": self.group, "topic_partitions": held} | more
        return self.call("consumer_group_heartbeat", version, member_id=member, member_epoch=epoch, **values)

    def enter(self, member: str, *topics: str, **more: Any) -> dict[str, Any]:
        values: dict[str, Any] = {"subscribed_topic_names": topics, "rebalance_timeout": TIMEOUT} | more
        return self.beat(member, 0, {}, **values)

    def join(self, member: str = "", version: int = 9, **more: Any) -> str:
        values = {"protocols": (protocol(),), "protocol_type": "consumer", "session_timeout": 30_000} | more
        answer = self.call(
            "join_group", version, group_id=self.group, member_id=member, rebalance_timeout=TIMEOUT, **values
        )
        found: str = answer["member_id"]
        return found

    def sync(self, member: str, generation: int, assignments: tuple[Any, ...] = (), **more: Any) -> None:
        values = {"protocol_type": "consumer", "protocol_name": "range"} | more
        request = {"group_id": self.group, "generation_id": generation, "member_id": member}
        self.call("sync_group", 5, **request, **values, assignments=assignments)

    def classic_beat(self, member: str, generation: int, **more: Any) -> None:
        self.call("heartbeat", 4, group_id=self.group, generation_id=generation, member_id=member, **more)

    def leave(self, *members: tuple[str, str | None]) -> None:
        leavers = tuple({"member_id": member, "group_instance_id": instance} for member, instance in members)
        self.call("leave_group", 5, group_id=self.group, members=leavers)

    def classic(self) -> str:
        """Make a classic group with one member, which has all of t."""
        member = self.join()
        self.join(member)
        self.sync(member, 1, ({"member_id": member, "assignment": assigned(0, 1, 2, 3)},))
        return member

    # what is there

    def describe(self) -> None:
        for version in (0, 1):
            groups, asks = (self.group,), bool(version)
            self.call("consumer_group_describe", version, group_ids=groups, include_authorized_operations=asks)
        self.call("describe_groups", 6, groups=(self.group,))

    def commit(self, member: str, epoch: int, number: int = 0, version: int = 9, **more: Any) -> None:
        partitions = ({"partition_index": number, "committed_offset": 5, "committed_metadata": None},)
        name = {"topic_id": self.ids["t"]} if version >= 10 else {"name": "t"}
        request = {"group_id": self.group, "generation_id_or_member_epoch": epoch, "member_id": member} | more
        self.call("offset_commit", version, **request, topics=({**name, "partitions": partitions},))

    def fetch(self, member: str | None = None, epoch: int = -1) -> None:
        group = {"group_id": self.group, "topics": None, "member_id": member, "member_epoch": epoch}
        self.call("offset_fetch", 9, groups=(group,))


def invalid(script: Script) -> None:
    """Requests that are refused before the group is looked up, and groups that do not exist."""
    script.beat("m", 1)
    script.beat("m", -1)
    script.beat("m", -2)
    script.beat("m", -2, instance_id="i")
    script.beat("m", -3)
    script.beat("", 1)
    script.enter("", "t")
    script.enter("m", "t", group_id=" ")
    script.enter("m", "t", instance_id="")
    script.enter("m", "t", rack_id=" ")
    script.enter("m", "t", rebalance_timeout=-1)
    script.enter("m", subscribed_topic_names=None)
    script.beat("m", 0, {"t": (1,)}, subscribed_topic_names=("t",), rebalance_timeout=TIMEOUT)
    script.enter("m", "t", server_assignor="mine")
    for regex in ("(", "[z-a]", "*", "(?<x>a)", "a**", "\\8", "(?=a)", "a{2"):
        script.enter("m", subscribed_topic_names=None, subscribed_topic_regex=regex)
    time.sleep(ARRIVES_S)
    script.describe()
    script.call("consumer_group_describe", 1, group_ids=("", "nobody"), include_authorized_operations=False)


def members(script: Script) -> None:
    """Two members send heartbeats from joining to leaving, and commit at their epochs."""
    script.enter("one", "t")
    script.describe()
    script.beat("one", 2)
    script.beat("one", 2, {"t": (0, 1, 2, 3)})
    script.commit("one", 2)
    script.enter("two", "t", rack_id="rack", server_assignor="range")
    script.describe()
    script.commit("one", 2, 3)
    script.beat("one", 2, {"t": (0, 1, 2, 3)})
    script.describe()
    script.commit("one", 2, 3)
    script.beat("two", 3, {})
    script.beat("one", 2, {"t": (0, 1)})
    script.beat("one", 2, {"t": (0, 1)})
    script.beat("one", 2, {"t": (0, 1, 2)})
    script.beat("one", 2)
    script.beat("one", 7)
    script.beat("nobody", 3)
    script.beat("two", 3, {})
    script.describe()
    for version in (9, 10):
        script.commit("one", 2, 0, version)
        script.commit("one", 2, 3, version)
        script.commit("one", 1, 0, version)
        script.commit("one", 4, 0, version)
        script.commit("two", 2, 3, version)
        script.commit("two", 3, 3, version)
        script.commit("nobody", 3, 3, version)
        script.commit("", -1, 3, version)
    script.commit("one", 3, 0, 8)
    script.fetch()
    script.fetch("one", 3)
    script.fetch("one", 2)
    script.fetch("nobody", 3)


def subscriptions(script: Script) -> None:
    """Members change their subscriptions, commit what they have read, and leave."""
    script.enter("one", "t")
    script.enter("two", "t", server_assignor="range")
    script.beat("one", 2, {"t": (0, 1, 2, 3)})
    script.beat("one", 2, {"t": (0, 1)})
    script.beat("two", 3, {})
    partitions = ({"partition_index": 0},)
    for topic in ("t", "u"):
        deleted = ({"name": topic, "partitions": partitions},)
        script.call("offset_delete", 0, group_id=script.group, topics=deleted)
    script.call("delete_groups", 2, groups_names=(script.group,))
    script.beat("one", 3, {"t": (0, 1)}, subscribed_topic_names=("u", "t"))
    script.beat("one", 3, {"t": (0, 1)}, subscribed_topic_names=("u",))
    script.beat("one", 3, {})
    script.beat("two", 3, {"t": (2, 3)})
    script.beat("one", 5, {"u": (0, 1)}, subscribed_topic_names=("u",), rebalance_timeout=TIMEOUT)
    script.describe()
    script.beat("two", -1)
    script.describe()
    script.enter("one", "u")
    script.beat("one", -1)
    script.beat("one", -1)
    script.describe()
    script.call("delete_groups", 2, groups_names=(script.group,))
    script.call("delete_groups", 2, groups_names=(script.group,))


def no_topics(script: Script) -> None:
    """Members subscribe to topics that do not exist yet, or to none."""
    script.enter("m", "missing")
    script.describe()
    script.beat("m", 2, {}, subscribed_topic_names=())
    script.beat("m", 3, {})
    script.beat("m", 3, {}, subscribed_topic_names=("t", "missing"))
    script.beat("m", 4, {"t": (0, 1, 2, 3)}, subscribed_topic_names=())
    script.beat("m", 4, {})
    script.describe()


def static(script: Script) -> None:
    """Static members come back, are fenced, and leave for good."""
    script.enter("a", "t", instance_id="i")
    script.enter("b", "t", instance_id="j")
    script.beat("a", 2, {"t": (0, 1)}, instance_id="i")
    script.beat("a", 2, {"t": (0, 1)}, instance_id="i")
    script.beat("b", 3, {}, instance_id="j")
    script.describe()
    script.enter("c", "t", instance_id="i")
    script.beat("a", -2, instance_id="i")
    script.describe()
    script.beat("b", 3, instance_id="j")
    script.enter("c", "t", instance_id="i")
    script.beat("a", 3, instance_id="i")
    script.beat("a", 3)
    script.beat("c", 3, instance_id="k")
    script.beat("c", 3, instance_id="i")
    script.describe()
    script.beat("c", -2, instance_id="j")
    script.beat("c", -2, instance_id="i")
    script.enter("c", "t", "u", instance_id="i")
    script.describe()
    script.beat("c", -1, instance_id="i")
    script.beat("b", 4, {"t": (2, 3)}, instance_id="j")
    script.beat("b", -2)
    script.describe()


def regex(script: Script) -> None:
    """Found a moment later, shared, changed, gone."""
    script.enter("m", subscribed_topic_names=None, subscribed_topic_regex="t|tt.*")
    time.sleep(1)
    script.describe()
    script.beat("m", 1, {})
    script.enter("n", subscribed_topic_regex="t|tt.*")
    script.beat("m", 2, {"t": (0, 1, 2, 3)})
    script.describe()
    script.enter("o", "other", subscribed_topic_regex="u")
    script.describe()
    script.beat("o", -1)
    script.beat("n", -1)
    script.describe()
    script.beat("m", -1)
    script.describe()


def there_and_back(script: Script) -> None:
    """A classic group becomes a consumer group, and a classic one again."""
    classic = script.classic()
    script.describe()
    script.enter("new", "t")
    script.describe()
    script.join()
    script.join(protocol_type="connect")
    script.join(protocols=(protocol("roundrobin"),))
    script.join("x", protocols=({"name": "range", "metadata": b"\0\1\0\0"},))
    script.sync(classic, 1)
    script.sync(classic, 2)
    script.sync(classic, 1, protocol_name="other")
    script.sync(classic, 1, protocol_type="other")
    script.sync("new", 2)
    script.classic_beat(classic, 1)
    script.classic_beat(classic, 2)
    script.classic_beat("new", 2)
    script.classic_beat("nobody", 2)
    script.commit(classic, 1)
    script.join(classic, protocols=(protocol(owned=(0, 1, 2, 3)),))
    script.classic_beat(classic, 1)
    script.sync(classic, 1)
    script.join(classic, protocols=(protocol(owned=(0, 1)),))
    script.sync(classic, 2)
    script.classic_beat(classic, 2)
    script.commit(classic, 2)
    script.commit(classic, 1)
    script.commit(classic, 3)
    script.fetch(classic, 2)
    script.fetch(classic, 1)
    script.beat("new", 2, {})
    script.describe()
    script.leave(("nobody", None), ("x", "y"), (classic, "y"))
    script.beat("new", -1)
    script.describe()
    script.classic_beat(classic, 2)
    script.join(classic)
    script.sync(classic, 3, ({"member_id": classic, "assignment": assigned(0)},))
    script.describe()
    script.leave((classic, None))
    script.enter("new", "t")
    script.describe()
    script.beat("new", -1)
    script.join(script.join())
    script.describe()


def static_both(script: Script) -> None:
    """A static member changes its protocol, and back."""
    script.enter("a", "t", instance_id="i")
    classic = script.join(group_instance_id="i")
    script.describe()
    script.sync(classic, 2, group_instance_id="i")
    script.classic_beat(classic, 2, group_instance_id="i")
    script.enter("b", "t", instance_id="i")
    script.describe()
    script.classic_beat(classic, 2, group_instance_id="i")
    script.leave(("", "i"))
    script.describe()


def topics_change(script: Script) -> None:
    """Topics are created, grow, and are deleted and created again: the next heartbeat begins a new epoch."""
    name = "changing"
    script.enter("m", name, "t")
    for _ in range(2):
        script.client.create_topic(name, 1)
        time.sleep(ARRIVES_S)
        script.beat("m", 2)
        script.describe()
        grown = {"name": name, "count": 3, "assignments": None}
        script.client.call("create_partitions", 3, topics=(grown,), timeout=1000, validate_only=False)
        time.sleep(ARRIVES_S)
        script.beat("m", 3)
        script.beat("m", 4)
        script.describe()
        script.client.call("delete_topics", 6, topics=({"name": name, "topic_id": "A" * 22},), timeout=1000)
        time.sleep(ARRIVES_S)
        script.beat("m", 4)
        script.beat("m", 5, {"t": (0, 1, 2, 3)})
        script.beat("m", 4, {"t": (0, 1, 2, 3)})
        script.describe()


def not_to_be_upgraded(script: Script) -> None:
    """Classic groups that stay what they are."""
    member = script.join(script.join(protocol_type="connect"), protocol_type="connect")
    script.enter("new", "t")
    script.beat("new", 1)
    script.beat("new", -1)
    script.sync(member, 1, protocol_type="connect")
    script.leave((member, None))
    for assignment in (b"\0", b"\0\1\0\0", assigned(0)[:-4] + b"\0\0\0\1x"):
        member = script.join(script.join())
        generation = script.answers[-1][2]["generation_id"]
        script.sync(member, generation, ({"member_id": member, "assignment": assignment},))
        script.enter("new", "t")
        script.describe()
        script.leave((member, None))
    script.join(script.join())
    script.enter("new", "other")
    script.describe()


def classic_members_share(script: Script) -> None:
    """Two classic members share with a new one: partitions that one revokes go to another when that one joins again."""
    script.enter("new", "t")
    script.join("one")
    script.sync("one", 3)
    script.classic_beat("one", 3)
    script.beat("new", 2, {"t": (0, 1, 2, 3)})
    for held in ((0, 1), (2, 3)):
        script.beat("new", 2, {"t": held})
    script.classic_beat("one", 3)
    script.join("one")
    script.sync("one", 3)
    script.describe()
    script.join("two")
    script.sync("two", 4)
    script.classic_beat("two", 4)
    script.classic_beat("one", 3)
    script.sync("one", 3)
    for owned in ((0, 1, 2, 3), (0,), (2,), ()):
        script.join("one", protocols=(protocol(owned=owned),))
        script.sync("one", 3)
        script.sync("one", 4)
        script.beat("new", 3, {"t": owned})
    script.describe()
    script.classic_beat("two", 4)
    script.join("two")
    script.sync("two", 4)
    script.beat("new", 4, {})
    script.describe()
    script.commit("two", 4, 1)
    script.commit("two", 3, 1)
    script.commit("", -1, 1)
    script.leave(("one", None), ("new", None))
    script.describe()
    script.classic_beat("two", 4)


def in_transactions(script: Script) -> None:
    """Offsets at members' epochs, in transactions."""
    script.enter("one", "t")
    script.enter("two", "t")
    script.beat("one", 2, {"t": (0, 1, 2, 3)})
    script.beat("one", 2, {"t": (0, 1)})
    script.beat("two", 3, {})
    name = {"transactional_id": script.group}
    producer = script.client.call(
        "init_producer_id", 5, **name, transaction_timeout=60_000, producer_id=-1, producer_epoch=-1
    )
    ids = {"producer_id": producer["producer_id"], "producer_epoch": producer["producer_epoch"]}
    for member, epoch, number in (
        *(("one", 3, 0), ("one", 2, 0), ("one", 1, 0), ("one", 4, 0), ("one", 2, 3), ("one", 3, 3)),
        *(("two", 3, 3), ("two", 2, 3), ("nobody", 3, 0), ("", -1, 1), ("", 3, 1)),
    ):
        partitions = ({"partition_index": number, "committed_offset": 7, "committed_metadata": None},)
        topics = ({"name": "t", "partitions": partitions},)
        request = {"group_id": script.group, "member_id": member, "generation_id": epoch, "topics": topics}
        script.call("txn_offset_commit", 5, **name, **ids, **request)
    script.client.call("end_txn", 5, **name, **ids, committed=True)
    time.sleep(ARRIVES_S)
    script.fetch()


SCRIPTS = (
    in_transactions,
    topics_change,
    not_to_be_upgraded,
    classic_members_share,
    invalid,
    members,
    subscriptions,
    no_topics,
    static,
    regex,
    there_and_back,
    static_both,
)


def records(directory: Path) -> dict[str, list[Any]]:
    """Return the records of each script's group in order; members of a batch are sorted."""
    found: dict[str, list[Any]] = {}
    for path in sorted(directory.glob(f"{OFFSETS}-*/*.log")):
        for batch in read_segment(path):
            decoded = [to_json(decode(OFFSETS, key, value)) for _, (key, value) in batch.records]
            for _, same in groupby(decoded, lambda record: record["key_name"]):
                for record in sorted(map(normal, same), key=str):
                    key = record["key"]
                    found.setdefault(key.get("group", key.get("groupId")), []).append(record)
    return {group: found[group] for group in found if group in {each.__name__ for each in SCRIPTS}}


def play(broker: Broker) -> dict[str, list[Any]]:
    host, _, port = broker.address.rpartition(":")
    answers = {}
    with Client((host, int(port))) as client:
        for name, count in TOPICS.items():
            client.create_topic(name, count)
        entries = tuple({"name": name, "config_operation": 0, "value": value} for name, value in QUICK.items())
        resources = tuple({"resource_type": 32, "resource_name": each.__name__, "configs": entries} for each in SCRIPTS)
        client.call("incremental_alter_configs", 1, resources=resources, validate_only=False)
        coordinator(client)
        time.sleep(1)
        for play_one in SCRIPTS:
            script = Script(client, play_one.__name__)
            play_one(script)
            answers[script.group] = [normal(each) for each in script.answers]
    return answers


def test_answers_and_records_are_kafkas(both: tuple[Broker, Broker]) -> None:
    real, ours = both
    expected, found = play(real), play(ours)
    for group, answers in expected.items():
        for number, (their, our) in enumerate(zip(answers, found[group], strict=True)):
            assert our == their, f"{group}, request {number}"
    theirs, written = (records(Path(broker.places[0][0])) for broker in both)
    assert set(theirs) >= {each.__name__ for each in SCRIPTS} - {"invalid"}
    for group in theirs:
        assert written[group] == theirs[group], group
