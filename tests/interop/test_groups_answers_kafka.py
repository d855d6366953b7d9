"""The same requests to real Kafka and to kcli get the same responses, and write the same records to __consumer_offsets.

Only what is random is left out: ids of members and topics, and times.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

from formats.internal_topic import decode, to_json
from kcli.broker.coordinators.log import read_segment
from kcli.protocol.error_code import ErrorCode
from tests.broker.api.test_groups import RANGE, TOPIC, coordinator
from tests.broker.running import Client
from tests.interop import test_tools_kafka as tools
from tests.interop.test_tools_kafka import Broker

both = tools.both
OFFSETS = "__consumer_offsets"
UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
ID = re.compile("^[A-Za-z0-9_-]{22}$")
ZERO = "A" * 22
ARRIVES_S = 0.7
LOADS_S = 30.0
LOADING = f"'error_code': {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS.value}}}"
MS_MIN = 1_600_000_000_000
OTHER = {"name": "range", "metadata": b"\0\1\0\0\0\1\0\1u\xff\xff\xff\xff\0\0\0\0"}
ROUND = RANGE | {"name": "roundrobin"}


def without_random(value: Any) -> Any:
    """Replace times and ids by fixed names, and sort members, which Kafka has in the order of their ids' hashes."""
    match value:
        case {"members": list(members), **rest}:
            return {**without_random(rest), "members": sorted(map(without_random, members), key=str)}
        case dict():
            return {name: without_random(each) for name, each in value.items()}
        case list():
            return [without_random(each) for each in value]
        case str() if ID.match(value) and value != ZERO:
            return "ID"
        case str():
            return UUID.sub("UUID", value)
        case int() if value > MS_MIN:
            return "TIME"
    return value


class Script:
    """Requests of one client, and their responses. While `holds` is set, it does not wait for a response: `late`
    does."""

    def __init__(self, client: Client, other: Client, group: str) -> None:
        self.client, self.other, self.group = client, other, group
        self.answers: list[Any] = []
        self.holds = False
        self.held: tuple[str, int] = "", 0

    def call(self, api: str, version: int, **request: Any) -> dict[str, Any]:
        if self.holds:
            self.client.socket.sendall(self.client.frame(api, version, request))
            self.held, self.holds = (api, version), False
            time.sleep(ARRIVES_S)  # the request gives no sign of its arrival, since it waits for others
            return {"member_id": ""}
        until = time.monotonic() + LOADS_S
        answer = self.client.call(api, version, **request)
        while LOADING in str(answer) and time.monotonic() < until:  # a coordinator that has just moved
            time.sleep(0.1)
            answer = self.client.call(api, version, **request)
        self.answers.append([api, version, answer])
        return answer

    def late(self) -> None:
        """The answer that was not waited for."""
        self.answers.append([*self.held, self.client.answer(*self.held)])

    def join(self, version: int = 9, member_id: str = "", *, protocols: tuple[Any, ...] = (RANGE,), **more: Any) -> str:
        """The member's id."""
        request: dict[str, Any] = {
            "session_timeout": 30_000,
            "protocol_type": "consumer",
            "protocols": protocols,
        } | more
        if version >= 1:
            request["rebalance_timeout"] = 60_000
        answer = self.call("join_group", version, group_id=self.group, member_id=member_id, **request)
        answered: str = answer["member_id"]
        return answered

    def sync(
        self, member_id: str, generation: int, assigned: tuple[str, ...] = (), version: int = 5, **more: Any
    ) -> None:
        assignments = tuple({"member_id": each, "assignment": each[:2].encode()} for each in assigned)
        names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
        member = {"group_id": self.group, "generation_id": generation, "member_id": member_id}
        self.call("sync_group", version, **{**member, **names, **more}, assignments=assignments)

    def beat(self, member_id: str, generation: int, **more: Any) -> None:
        self.call("heartbeat", 4, group_id=self.group, generation_id=generation, member_id=member_id, **more)

    def leave(self, *members: tuple[str, str | None]) -> None:
        leavers = tuple({"member_id": member_id, "group_instance_id": instance} for member_id, instance in members)
        self.call("leave_group", 5, group_id=self.group, members=leavers)

    def commit(
        self, offset: int, version: int = 9, *, metadata: str | None = "m", numbers: tuple[int, ...] = (0,), **more: Any
    ) -> None:
        partitions = tuple(
            {"partition_index": number, "committed_offset": offset, "committed_metadata": metadata}
            for number in numbers
        )
        request = {"group_id": self.group, "generation_id_or_member_epoch": -1, "member_id": ""} | more
        self.call("offset_commit", version, **request, topics=({"name": TOPIC, "partitions": partitions},))

    def fetch(self, version: int = 9) -> None:
        self.call("offset_fetch", version, groups=({"group_id": self.group, "topics": None},))

    def describe(self, version: int = 6) -> None:
        more = {"include_authorized_operations": True} if version >= 3 else {}
        for group in (self.group, f"not-{self.group}"):
            self.call("describe_groups", version, groups=(group,), **more)

    def delete(self) -> None:
        self.call("delete_groups", 2, groups_names=(self.group,))


def offsets(script: Script) -> None:
    """Of a group without members."""
    script.fetch()
    script.commit(1)
    script.commit(2, 2, retention_time=86_400_000)
    script.commit(3, metadata=None)
    script.commit(3, metadata="x" * 5000)
    script.commit(3, numbers=(77,))
    script.commit(3, numbers=(1, 77, 0, 78))
    script.commit(4, generation_id_or_member_epoch=3, member_id="m")
    script.commit(4, generation_id_or_member_epoch=0, member_id="m", group_id="nobody", version=8)
    script.commit(4, generation_id_or_member_epoch=0, member_id="m", group_id="nobody")
    script.fetch()
    script.describe()
    script.describe(5)
    script.beat("m", 1)
    script.leave(("m", None))
    script.sync("m", 1)
    partitions = tuple({"partition_index": each} for each in (0, 1, 77))
    for _ in range(2):
        script.call("offset_delete", 0, group_id=script.group, topics=({"name": TOPIC, "partitions": partitions},))
    script.delete()
    script.delete()


def one_member(script: Script) -> None:
    """From its first request to its last."""
    script.join(3, protocols=())
    member_id = script.join()
    script.describe()
    script.join(member_id=member_id)
    script.describe()
    script.commit(1, generation_id_or_member_epoch=1, member_id=member_id)
    script.sync(member_id, 2, (member_id,))
    script.sync(member_id, 1, (member_id,), protocol_name="other")
    script.sync(member_id, 1, (member_id,), protocol_name=None)
    script.sync(member_id, 1, (member_id, "nobody"))
    script.describe()
    script.describe(2)
    script.commit(1, generation_id_or_member_epoch=1, member_id=member_id)
    script.commit(2, generation_id_or_member_epoch=2, member_id=member_id)
    script.commit(2)
    script.commit(2, generation_id_or_member_epoch=1, member_id="nobody")
    script.beat(member_id, 1)
    script.beat(member_id, 2)
    script.beat("nobody", 1)
    script.beat(member_id, 1, group_instance_id="i")
    script.join(member_id="nobody")
    script.join(protocols=(ROUND,))
    script.join(protocol_type="connect")
    script.join(session_timeout=1)
    script.join(member_id=member_id, protocols=(OTHER,))
    script.sync(member_id, 2, (member_id,))
    script.join(member_id=member_id, protocols=(OTHER,))
    script.join(member_id=member_id, protocols=(ROUND, OTHER))
    script.sync(member_id, 4, (member_id,), protocol_name="roundrobin")
    script.delete()
    partitions = ({"partition_index": 0},)
    script.call("offset_delete", 0, group_id=script.group, topics=({"name": TOPIC, "partitions": partitions},))
    script.leave((member_id, None), ("nobody", None))
    script.describe()
    script.leave((member_id, None))
    script.fetch()
    script.delete()


def old_member(script: Script) -> None:
    """A client of long ago."""
    member_id = script.join(0)
    script.sync(member_id, 1, (member_id,), version=0)
    script.call("heartbeat", 0, group_id=script.group, generation_id=1, member_id=member_id)
    script.describe(0)
    script.call("leave_group", 0, group_id=script.group, member_id=member_id)
    script.call("leave_group", 2, group_id=script.group, member_id=member_id)


def two_members(script: Script) -> None:
    """One joins the other, which then leaves."""
    other = Script(script.other, script.other, script.group)
    other.answers = script.answers
    one = script.join()
    script.join(member_id=one)
    script.sync(one, 1, (one,))
    two = other.join()
    other.holds = True
    other.join(member_id=two)
    script.describe()
    script.beat(one, 1)
    script.commit(1, generation_id_or_member_epoch=1, member_id=one)
    script.sync(one, 1)
    script.join(member_id=one)
    other.late()
    other.holds = True
    other.sync(two, 2)
    script.describe()
    script.sync(one, 2, (one, two))
    other.late()
    other.beat(two, 2)
    script.describe()
    other.join(member_id=two)
    other.join(member_id=two, protocols=(ROUND,))
    script.leave((one, None))
    other.beat(two, 2)
    other.join(member_id=two)
    other.sync(two, 3, (two,))
    other.fetch()
    other.leave((two, None), (one, None))


def static_member(script: Script) -> None:
    """A static leader restarts, with and without skip_assignment in the response; the old member is fenced."""
    one = script.join(group_instance_id="one")
    script.sync(one, 1, (one,), group_instance_id="one")
    for version in (9, 8):
        again = script.join(version, group_instance_id="one")
        script.beat(one, 1, group_instance_id="one")
        script.join(member_id=one, group_instance_id="one")
        script.commit(1, generation_id_or_member_epoch=1, member_id=one, group_instance_id="one")
        script.sync(one, 1, group_instance_id="one")
        script.leave((one, "one"))
        script.sync(again, 1, group_instance_id="one")
        script.beat(again, 1, group_instance_id="one")
        script.beat(again, 1, group_instance_id="two")
        one = again
    script.describe()
    script.leave(("", "two"), ("", "one"))
    script.describe()


SCRIPTS = (offsets, one_member, old_member, two_members, static_member)


def records(directory: Path) -> dict[str, list[Any]]:
    """The records of each of the scripts' groups, in order."""
    found: dict[str, list[Any]] = {}
    for path in sorted(directory.glob(f"{OFFSETS}-*/*.log")):
        for batch in read_segment(path):
            for _, (key, value) in batch.records:
                record = to_json(decode(OFFSETS, key, value))
                found.setdefault(record["key"]["group"], []).append(without_random(record))
    return {group: found[group] for group in found if group in {each.__name__ for each in SCRIPTS}}


def play(broker: Broker) -> dict[str, list[Any]]:
    host, _, port = broker.address.rpartition(":")
    answers = {}
    with Client((host, int(port))) as client, Client((host, int(port))) as other:
        client.create_topic(TOPIC, 2)
        coordinator(client)
        time.sleep(1)
        for play_one in SCRIPTS:
            script = Script(client, other, play_one.__name__)
            play_one(script)
            answers[script.group] = without_random(script.answers)
    return answers


def test_answers_and_records_are_kafkas(both: tuple[Broker, Broker]) -> None:
    real, ours = both
    expected, found = play(real), play(ours)
    for group, answers in expected.items():
        for number, (their, our) in enumerate(zip(answers, found[group], strict=True)):
            assert our == their, f"{group}, request {number}"
    theirs, written = (records(Path(broker.places[0][0])) for broker in both)
    assert set(theirs) == {each.__name__ for each in SCRIPTS}
    for group in theirs:
        assert written[group] == theirs[group], group
