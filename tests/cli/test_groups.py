"""kcli groups, against clusters and log directories; resets held against kafka-consumer-groups."""

import json
import os
import re
import time
from itertools import count
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.cli.groups import method_of
from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.client.resets import new_offsets
from kcli.protocol.topic_partition import TopicPartition
from tests.cli.run import Ended, kcli
from tests.client.clusters import KAFKA, Cluster
from tests.client.groups import WAIT_S, member, until
from tests.conftest import GOLDEN
from tests.interop import kit

DATA = GOLDEN / "groups" / "data"
START_MS, STEP_MS = 1_700_000_000_000, 60_000
RECORDS = 20
NUMBERS = count()


class Committed:
    """A topic of two partitions, and groups with committed offsets in it."""

    def __init__(self, cluster: Cluster) -> None:
        """Records of each partition are a minute apart; the first five are deleted from partition 1."""
        self.cluster = cluster
        self.topic = f"resets-{os.getpid()}-{next(NUMBERS)}"
        self.admin = AdminClient({"bootstrap.servers": cluster.address})
        self.admin.create_topics([NewTopic(self.topic, 2, config={"retention.ms": "-1"})])[self.topic].result()
        producer = Producer({"bootstrap.servers": cluster.address})
        for i in range(2 * RECORDS):
            producer.produce(self.topic, b"", partition=i % 2, timestamp=START_MS + STEP_MS * (i // 2))
        assert producer.flush(WAIT_S) == 0
        (deleted,) = self.admin.delete_records([confluent_kafka.TopicPartition(self.topic, 1, 5)]).values()
        assert deleted.result().low_watermark == 5

    def group(self, name: str, *offsets: int) -> str:
        """Make a group with these offsets, in the order of the partitions."""
        groups = Groups(Connection(self.cluster.address))
        assert groups.group(name).members == ()
        wanted = {TopicPartition(self.topic, number): offset for number, offset in enumerate(offsets)}
        assert list(groups.commit(name, wanted)) == list(wanted)
        return name

    def offsets(self, group: str) -> dict[int, int]:
        """What is committed."""
        groups = Groups(Connection(self.cluster.address))
        assert groups.group(group).members == ()
        return {number: each.offset for (_, number), each in groups.committed(group).items()}

    def described(self, group: str) -> dict[str, Any]:
        """What `kcli groups describe` says."""
        found: dict[str, Any] = json.loads(self.run("describe", group, "--format", "jsonl").stdout)
        return found

    def run(self, *arguments: str | Path) -> Ended:
        """Run `kcli groups`."""
        return self.cluster.run("groups", *map(str, arguments))


@pytest.fixture(scope="module")
def committed(cluster: Cluster) -> Committed:
    return Committed(cluster)


@pytest.fixture(scope="module")
def tools() -> kit.ToolServer:
    """Kafka's tools."""
    return kit.tool_server()


def test_describe(committed: Committed) -> None:
    group = committed.group("described", 7, 20)
    ended = committed.run("describe", group)
    title, head, *rows = (line.split() for line in ended.stdout.splitlines())
    assert title[:4] == [group, "Classic", "Empty", "coordinator"]
    assert head[:5] == ["TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert rows == [
        [committed.topic, "0", "7", "20", "13", "-", "-", "-"],
        [committed.topic, "1", "20", "20", "0", "-", "-", "-"],
    ]


def test_list(committed: Committed) -> None:
    committed.group("listed", 1)
    every = committed.run("list")
    assert every.stdout.splitlines()[0].split() == ["GROUP", "TYPE", "STATE"]
    assert ["listed", "Classic", "Empty"] in [line.split() for line in every.stdout.splitlines()]
    row = {"group": "listed", "type": "Classic", "state": "Empty"}
    for options, shown in (
        (["--state", "empty"], True),
        (["--state", "Stable,Empty", "--type", "Classic"], True),
        (["--state", "Stable"], False),
        (["--type", "consumer"], False),
    ):
        ended = committed.run("list", "--format", "jsonl", *options)
        assert (row in map(json.loads, ended.stdout.splitlines())) == shown


def test_members(committed: Committed, tmp_path: Path) -> None:
    arguments = (committed.topic, "--group", "inhabited", "--group-instance-id", "one", "-X", "client.id=me")
    with member(committed.cluster, tmp_path, *arguments) as one:
        until(lambda: one.assigned)
        (row,) = map(json.loads, committed.run("members", "inhabited", "--format", "jsonl").stdout.splitlines())
        assert (row["group"], row["group_instance_id"], row["client_id"]) == ("inhabited", "one", "me")
        assert row["assignment"] == [[committed.topic, 0], [committed.topic, 1]]
        title, _, shown = committed.run("members", "inhabited").stdout.splitlines()
        assert "  Stable  assignor range  " in title
        assert shown.split() == [row["member"], "one", row["host"], "me", "-", "2", f"{committed.topic}:0,1"]
        readers = {(each["member"], each["client_id"]) for each in committed.described("inhabited")["offsets"]}
        assert readers == {(row["member"], "me")}
        # a group with members cannot be changed
        for change, reason in (
            (["reset", "inhabited", "--all-topics", "--to-latest"], "while the group has no members: it is Stable"),
            (["delete", "inhabited"], "NON_EMPTY_GROUP"),
            (["delete", "inhabited", "--topic", committed.topic], "GROUP_SUBSCRIBED_TO_TOPIC"),
        ):
            ended = committed.run(*change)
            assert ended.status == 1
            assert reason in ended.stderr


def test_members_of_a_consumer_group(committed: Committed) -> None:
    """The command shows the members' epochs, which librdkafka does not give."""
    consumer = Consumer(
        {"bootstrap.servers": committed.cluster.address, "group.id": "modern", "group.protocol": "consumer"}
    )
    consumer.subscribe([committed.topic])
    until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2)
    title, _, shown = committed.run("members", "modern").stdout.splitlines()
    described, (row,) = (
        list(map(json.loads, committed.run(command, "modern", "--format", "jsonl").stdout.splitlines()))
        for command in ("describe", "members")
    )
    consumer.close()
    assert re.fullmatch(r"modern  Consumer  Stable  assignor uniform  coordinator \S+ \(1\)  epoch 2  1 member", title)
    assert shown.split()[4:] == ["2", "2", f"{committed.topic}:0,1"]
    assert (row["epoch"], row["assignment"]) == (2, row["target_assignment"])
    assert [(each["epoch"], each["assignment_epoch"]) for each in described] == [(2, 2)]


MINUTE = "2023-11-14T22:{}:20.000"
RESETS = [
    ["--to-earliest"],
    ["--to-latest"],
    ["--to-current"],
    ["--to-offset", "8"],
    ["--to-offset", "2"],
    ["--to-offset", "99"],
    ["--shift-by", "3"],
    ["--shift-by", "-100"],
    ["--shift-by", "100"],
    ["--to-datetime", MINUTE.format(21)],
    ["--to-datetime", MINUTE.format(15) + "Z"],
    ["--to-datetime", MINUTE.format(21) + "+01:00"],
    ["--to-datetime", "2030-01-01T00:00:00.000"],
    ["--by-duration", "P3000D"],
    ["--by-duration", "PT1H30M5S"],
]


@pytest.mark.parametrize("cluster", [KAFKA], indirect=True)
@pytest.mark.parametrize("scope", [["--all-topics"], ["--topic", "{}"], ["--topic", "{}:1"]], ids=" ".join)
def test_resets_are_those_of_kafka_consumer_groups(
    committed: Committed, tools: kit.ToolServer, scope: list[str]
) -> None:
    group = committed.group("compared", 7, 11)
    groups = Groups(Connection(committed.cluster.address))
    scope = [part.format(committed.topic) for part in scope]
    for way in RESETS:
        arguments = ["--group", group, *scope, *way]
        told = tools.run(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            ["--bootstrap-server", committed.cluster.address, "--reset-offsets", "--dry-run", *arguments],
        )
        rows = sorted(line.split() for line in told.stdout.splitlines() if line.startswith(f"{group} "))
        assert rows, told
        wanted = method_of(way[0], int(way[1]) if way[0] in ("--to-offset", "--shift-by") else way[-1], [])
        found, _ = new_offsets(groups, group, wanted, [part for part in scope if part[:2] != "--"], lambda _: None)
        assert [[group, topic, str(n), str(offset)] for (topic, n), offset in sorted(found.items())] == rows, way
    assert committed.offsets(group) == {0: 7, 1: 11}


def test_a_reset_is_done_when_it_is_said(committed: Committed) -> None:
    group = committed.group("reset", 7, 20)
    arguments = ("reset", group, "--topic", f"{committed.topic}:1", "--shift-by", "-4")
    dry = committed.run(*arguments)
    assert dry.stdout.splitlines()[1].split() == [group, committed.topic, "1", "20", "16"]
    assert dry.complaint == "kcli: nothing is changed without --execute"
    assert committed.offsets(group) == {0: 7, 1: 20}
    done = committed.run(*arguments, "--execute")
    assert (done.stdout, done.stderr, done.status) == (dry.stdout, "", 0)
    assert committed.offsets(group) == {0: 7, 1: 16}
    ended = committed.run("reset", group, "--all-topics", "--to-offset", "3", "--execute", "--format", "jsonl")
    assert ended.complaint == f"kcli: {committed.topic}-1: there is no offset 3: it becomes 5"
    assert json.loads(ended.stdout.splitlines()[1]) == {
        "group": group, "topic": committed.topic, "partition": 1, "committed_offset": 16, "new_offset": 5,
    }  # fmt: skip
    assert committed.offsets(group) == {0: 3, 1: 5}


def test_times_before_all_time(committed: Committed) -> None:
    """A negative time would mean something else to a broker."""
    group = committed.group("ancient", 7, 20)
    for way in (["--by-duration", "P30000D"], ["--to-datetime", "1901-01-01"]):
        ended = committed.run("reset", group, "--all-topics", *way, "--format", "csv")
        assert ended.stdout == f"{committed.topic},0,0\n{committed.topic},1,5\n"


def test_a_plan_on_file(committed: Committed, tmp_path: Path) -> None:
    """The CSV that a plan writes is read again, for one group or several."""
    one, two = committed.group("filed", 7, 20), committed.group("filed too", 8, 9)
    plan = tmp_path / "plan.csv"
    plan.write_text(committed.run("reset", one, "--all-topics", "--to-earliest", "--format", "csv").stdout)
    assert plan.read_text() == f"{committed.topic},0,0\n{committed.topic},1,5\n"
    assert committed.run("reset", one, "--from-file", plan, "--execute").status == 0
    assert (committed.offsets(one), committed.offsets(two)) == ({0: 0, 1: 5}, {0: 8, 1: 9})
    both = committed.run("reset", one, two, "--topic", f"{committed.topic}:0", "--to-latest", "--format", "csv").stdout
    plan.write_text(both)
    assert both.splitlines() == [f"{one},{committed.topic},0,20", f"{two},{committed.topic},0,20"]
    assert committed.run("reset", one, two, "--from-file", plan, "--execute").status == 0
    assert (committed.offsets(one), committed.offsets(two)) == ({0: 20, 1: 5}, {0: 20, 1: 9})


def test_a_group_that_is_new_gets_offsets(committed: Committed) -> None:
    ended = committed.run("reset", "newborn", "--topic", committed.topic, "--to-earliest", "--execute")
    assert ended.status == 0
    assert committed.offsets("newborn") == {0: 0, 1: 5}


def test_delete(committed: Committed) -> None:
    group = committed.group("doomed", 7, 20)
    assert committed.run("delete", group, "--topic", f"{committed.topic}:1") == ("", "", 0)
    assert committed.offsets(group) == {0: 7}
    ended = committed.run("delete", group, "never-was")
    assert (ended.stdout, ended.status) == ("", 1)
    assert ended.complaint.startswith("kcli: never-was: GROUP_ID_NOT_FOUND: ")
    ended = committed.run("describe", group)
    assert (ended.stdout, ended.status) == ("", 1)
    assert ended.complaint == f"kcli: {group}: GROUP_ID_NOT_FOUND: there is no such group"


def test_failures_are_one_line(committed: Committed) -> None:
    group = committed.group("failing", 7)
    for arguments, reason in (
        (["--topic", "no-such-topic", "--to-latest"], "no-such-topic: UNKNOWN_TOPIC_OR_PARTITION: "),
        (["--topic", f"{committed.topic}:9", "--to-latest"], f"{group}: there is no partition {committed.topic}-9"),
        (["--topic", committed.topic, "--shift-by", "1"], f"{group}: {committed.topic}-1 has no committed offset"),
    ):
        ended = committed.run("reset", group, *arguments, "--execute")
        assert (ended.stdout, ended.status) == ("", 1)
        assert ended.complaint.startswith(f"kcli: {reason}")
    assert committed.offsets(group) == {0: 7}


def test_a_log_directory() -> None:
    """tests/inspector/test_groups.py compares golden data with Kafka's output; this test checks how kcli shows it."""
    listed = kcli("groups", "list", "--data-dir", DATA, "--type", "Share", "--state", "stable")
    assert listed == ("GROUP   TYPE   STATE\nsg-one  Share  Stable\nsg-two  Share  Stable\n", "", 0)
    ended = kcli("groups", "describe", "cg-empty", "cg-deleted", "--data-dir", DATA)
    title, _, *rows = ended.stdout.splitlines()
    assert title == "cg-empty  Classic  Empty  0 members"
    assert rows[0].split() == ["g-a", "0", "3", "32", "29", "-", "-", "-"]
    assert (ended.complaint, ended.status) == ("kcli: cg-deleted: GROUP_ID_NOT_FOUND: there is no such group", 1)
    row = json.loads(kcli("groups", "describe", "cg-empty", "--data-dir", DATA, "--format", "jsonl").stdout)
    assert row["offsets"][0]["metadata"] == "metadata 0 é日本"
    members = kcli("groups", "members", "--data-dir", DATA, "--format", "jsonl").stdout.splitlines()
    assert len(members) == 18
    title, _, *rows = kcli("groups", "members", "ng-range", "--data-dir", DATA).stdout.splitlines()
    assert title == "ng-range  Consumer  Stable  assignor range  epoch 3  2 members"
    assert sorted(row.split()[-3:] for row in rows) == [
        ["3", "3", "g-a:2,3;g-b:2"],
        ["3", "4", "g-a:0,1;g-b:0,1"],
    ]
    title, *_ = kcli("groups", "members", "ng-left", "--data-dir", DATA).stdout.splitlines()
    assert title == "ng-left  Consumer  Empty  assignor uniform  epoch 3  assigned at 2  0 members"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["list", "--state", "asleep"], "--state 'asleep' is none of PreparingRebalance, "),
        (["delete"], "no group given, nor --all-groups"),
        (["delete", "g", "--all-groups"], "--all-groups excludes names"),
        (["reset", "g", "--to-latest"], "give --topic or --all-topics"),
        (["reset", "g", "--all-topics"], "give one of --to-earliest, "),
        (["reset", "g", "--all-topics", "--to-latest", "--shift-by", "1"], "give one of --to-earliest, "),
        (["reset", "g", "--all-topics", "--by-duration", "1h"], "is no duration such as P7D"),
        (["reset", "g", "--all-topics", "--by-duration", "PT"], "is no duration such as P7D"),
        (["reset", "g", "--all-topics", "--to-datetime", "soon"], "--to-datetime 'soon' is no time"),
        (["reset", "g", "--from-file", "no-such-file"], "no-such-file: No such file or directory"),
        (["list", "--data-dir", "no-such-directory"], "no-such-directory: No such file or directory"),
        (["list", "--data-dir", "."], "no partition of __consumer_offsets in it"),
    ],
)
def test_usage(arguments: list[str], reason: str) -> None:
    ended = kcli("groups", *arguments)
    assert (ended.stdout, ended.status) == ("", 2)
    assert reason in ended.complaint


def test_nobody_answers() -> None:
    began = time.monotonic()
    ended = kcli("groups", "list", "-b", "127.0.0.1:1")
    assert ended.status == 1
    assert "no broker answers" in ended.complaint
    assert time.monotonic() - began < 10
