"""The local runner on kcli's own broker: the same records as TopologyTestDriver's, from topic to topic."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

from kcli.client.admin import Admin
from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.client.processing import OutOfRange, PartitionReader, delete_before
from kcli.client.resets import Kind, Reset
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams import (
    JSON,
    LONG,
    STRING,
    EmitStrategy,
    ErrorContext,
    JoinWindows,
    ProcessingError,
    Processor,
    PunctuationType,
    Record,
    Response,
    SessionWindows,
    StreamsBuilder,
    StreamsError,
    Suppressed,
    TimeWindows,
    Topology,
    TopologyError,
    TopologyTestDriver,
)
from kcli.streams.local import KafkaStreams, ProcessingGuarantee
from kcli.streams.local.active_task import ActiveTask
from kcli.streams.local.checks import end_name
from kcli.streams.local.plan import input_topics
from kcli.streams.local.reset import execute, planned
from kcli.streams.topology.offset_metadata import OffsetMetadata, decode
from kcli.testing.kafka import Kafka
from tests.streams.applications import (
    PROGRAMS,
    START_MS,
    Input,
    Row,
    by_key,
    consumed,
    inputs,
    new_builder,
    produce,
    running,
    text,
    wait_until,
)

STANDBY = {"num.standby.replicas": 1}
CONFIG = {"group.initial.rebalance.delay.ms": "0", "log.retention.ms": "-1"}

pytestmark = pytest.mark.kafka_broker(config=CONFIG)


def expected(topology: Topology, records: list[Input], topic: str = "out") -> list[Row]:
    """What TopologyTestDriver makes of the records."""
    read = input_topics(topology)
    with TopologyTestDriver(topology, application_id="app") as driver:
        for each in records:
            if each.topic not in read:
                continue
            value = None if each.value is None else each.value.encode()
            driver.pipe(each.topic, each.key.encode(), value, each.timestamp)
        return [(record.key, record.value, record.timestamp) for record in driver.outputs(topic)]


def last(rows: list[Row]) -> dict[bytes | None, bytes | None]:
    return {key: value for key, value, _ in rows}


def has(kafka: Kafka, count: int, partitions: int = 1, topic: str = "out") -> bool:
    return len(consumed(kafka.bootstrap_servers, topic, partitions)) >= count


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "foreign_key_join"])
@pytest.mark.parametrize("guarantee", list(ProcessingGuarantee))
def test_records_are_those_of_the_test_driver(kafka: Kafka, name: str, guarantee: ProcessingGuarantee) -> None:
    kafka.seed({"a": 1, "b": 1, "out": 1})
    records = inputs(150, seed=1)
    wanted = expected(PROGRAMS[name](), records)
    produce(kafka.bootstrap_servers, records[:70])
    with running(kafka, PROGRAMS[name](), processing_guarantee=guarantee, commit_interval_ms=50):
        wait_until(lambda: has(kafka, len(expected(PROGRAMS[name](), records[:70]))))
    produce(kafka.bootstrap_servers, records[70:])
    with running(kafka, PROGRAMS[name](), processing_guarantee=guarantee, commit_interval_ms=50):
        wait_until(lambda: has(kafka, len(wanted)))
    assert by_key(consumed(kafka.bootstrap_servers, "out", 1)) == by_key(wanted)


@pytest.mark.parametrize("name", ["count", "table_join", "foreign_key_join"])
def test_tables_over_partitions_are_those_of_the_test_driver(kafka: Kafka, name: str) -> None:
    kafka.seed({"a": 3, "b": 3, "out": 2})
    records = inputs(200, seed=2)
    wanted = last(expected(PROGRAMS[name](), records))
    produce(kafka.bootstrap_servers, records)
    with running(kafka, PROGRAMS[name]()):
        wait_until(lambda: last(consumed(kafka.bootstrap_servers, "out", 2)) == wanted)


def test_what_was_read_of_repartition_topics_is_deleted(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kcli.streams.local.kafka_streams.PURGE_INTERVAL_S", 0.0)
    kafka.seed({"a": 1, "out": 1})
    produce(kafka.bootstrap_servers, [Input("a", "k", "x y z", START_MS)])
    place = TopicPartition("app-counts-repartition", 0)
    with running(kafka, PROGRAMS["count"]()):
        wait_until(lambda: has(kafka, 3))
        wait_until(lambda: Groups(Connection(kafka.bootstrap_servers)).starts([place])[place] >= 3)


def test_instances_share_the_tasks(kafka: Kafka) -> None:
    kafka.seed({"a": 4, "out": 1})
    records = [each for each in inputs(200, seed=3) if each.topic == "a"]
    wanted = last(expected(PROGRAMS["count"](), records))
    produce(kafka.bootstrap_servers, records[:50])
    with running(kafka, PROGRAMS["count"]()) as one:
        wait_until(lambda: len(one.running_tasks) == 8)
        with running(kafka, PROGRAMS["count"]()) as other:
            wait_until(lambda: len(one.running_tasks) == len(other.running_tasks) == 4)
            assert sorted(one.running_tasks + other.running_tasks) == [f"{i}_{j}" for i in range(2) for j in range(4)]
            produce(kafka.bootstrap_servers, records[50:])
            wait_until(lambda: last(consumed(kafka.bootstrap_servers, "out", 1)) == wanted)
        wait_until(lambda: len(one.running_tasks) == 8)


def test_a_standby_has_the_stores_before_it_gets_the_task(kafka: Kafka) -> None:
    kafka.seed({"a": 1, "out": 1})
    records = [each for each in inputs(300, seed=8) if each.topic == "a"]
    wanted = expected(PROGRAMS["windowed_count"](), records)
    produce(kafka.bootstrap_servers, records[:100])
    with running(kafka, PROGRAMS["windowed_count"](), config=STANDBY) as one:
        wait_until(lambda: has(kafka, len(expected(PROGRAMS["windowed_count"](), records[:100]))))
        with running(kafka, PROGRAMS["windowed_count"](), config=STANDBY) as other:
            wait_until(lambda: bool(one._standbys or other._standbys))
            standby = one if one._standbys else other
            (spare,) = standby._standbys.values()
            wait_until(lambda: len(list(spare.task.stores["counts"].all())) > 0)  # type: ignore[attr-defined]
            produce(kafka.bootstrap_servers, records[100:150])
            wait_until(lambda: has(kafka, len(expected(PROGRAMS["windowed_count"](), records[:150]))))
            (other if standby is one else one).close()
            wait_until(lambda: standby.running_tasks == ["0_0"])
            assert [each.task for each in standby._tasks.values()] == [spare.task]
            produce(kafka.bootstrap_servers, records[150:])
            wait_until(lambda: has(kafka, len(wanted)))
    assert by_key(consumed(kafka.bootstrap_servers, "out", 1)) == by_key(wanted)


def test_a_broker_that_is_killed_and_started_again() -> None:
    records = [each for each in inputs(200, seed=9) if each.topic == "a"]
    topology = PROGRAMS["count"]()
    with Kafka.started(process="child", config=CONFIG) as kafka:
        kafka.seed({"a": 1, "out": 1})
        with running(kafka, PROGRAMS["count"]()):
            for done, count in ((0, 40), (40, 80), (80, len(records))):
                produce(kafka.bootstrap_servers, records[done:count])
                wanted = expected(topology, records[:count])
                wait_until(lambda wanted=wanted: has(kafka, len(wanted)))  # type: ignore[misc]
                if count < len(records):
                    kafka.kill()
                    kafka.start()
        assert by_key(consumed(kafka.bootstrap_servers, "out", 1)) == by_key(wanted)


def test_internal_topics(kafka: Kafka) -> None:
    builder = new_builder()
    words = builder.stream("a").select_key(lambda _, value: value).group_by_key()
    words.count(store_name="counts")
    words.windowed_by(TimeWindows(size_ms=5000, grace_ms=1000)).count(store_name="windows")
    words.windowed_by(SessionWindows(inactivity_gap_ms=5000, grace_ms=1000)).count(store_name="sessions")
    kafka.seed({"a": 3})
    with running(kafka, builder.build()) as app:
        wait_until(lambda: len(app.running_tasks) >= 6)
    admin = Admin(Connection(kafka.bootstrap_servers))
    set_here = {"cleanup.policy", "retention.ms", "segment.bytes"}
    names = [name for name in admin.names() if name.startswith("app-")]
    found = {
        topic.name: (len(topic.partitions), {name: topic.configs[name] for name in set_here & topic.configs.keys()})
        for topic in admin.with_configs([each for each in admin.describe(names) if not isinstance(each, Exception)])
    }
    compacted = {"cleanup.policy": "compact", "retention.ms": "-1"}  # the broker's
    deleted = {"cleanup.policy": "compact,delete", "retention.ms": str(6000 + 86_400_000)}
    repartition = {"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800"}
    assert {name.removeprefix("app-"): configs for name, (_, configs) in found.items()} == {
        "counts-changelog": compacted,
        "counts-repartition": repartition,
        "sessions-changelog": deleted,
        "sessions-repartition": repartition,
        "windows-changelog": deleted,
        "windows-repartition": repartition,
    }
    assert {size for size, _ in found.values()} == {3}


def test_all_stores_are_restored(kafka: Kafka) -> None:
    """Windows that wait to be sent, records without their other side, duplicates: all are there after a restart."""

    def program() -> Topology:
        builder = new_builder()
        one, other = builder.stream("a"), builder.stream("b")
        joined = one.outer_join(other, lambda x, y: f"{x}+{y}", JoinWindows.of(500, 100))
        joined.to("out")
        grouped = one.group_by_key()
        windows = grouped.windowed_by(TimeWindows(size_ms=1000, grace_ms=100)).count()
        windows.suppress(Suppressed.until_window_closes()).to_stream().map(
            lambda key, n: (key.key, f"suppressed {key.window.start} {text(n)}")
        ).to("suppressed")
        sessions = grouped.windowed_by(SessionWindows(inactivity_gap_ms=300, grace_ms=100)).count()
        sessions.to_stream().map(lambda key, n: (key.key, f"{key.window} {n}")).to("sessions")
        closed = grouped.windowed_by(TimeWindows(size_ms=700)).emit_strategy(EmitStrategy.ON_WINDOW_CLOSE).count()
        closed.to_stream().map(lambda key, n: (key.key, f"{key.window.start} {n}")).to("closed")
        return builder.build()

    topics = ("out", "suppressed", "sessions", "closed")
    kafka.seed(dict.fromkeys(("a", "b", *topics), 1))
    records = [each for each in inputs(120, seed=4) if each.value is not None]
    done = 0
    for count in (30, 60, len(records)):
        produce(kafka.bootstrap_servers, records[done:count])
        done = count
        wanted = {topic: by_key(expected(program(), records[:count], topic)) for topic in ("suppressed", "sessions")}
        with running(kafka, program()):
            for topic, rows in wanted.items():
                wait_until(
                    lambda topic=topic, rows=rows: by_key(consumed(kafka.bootstrap_servers, topic, 1)) == rows,  # type: ignore[misc]
                    20,
                )
    found, wanted_rows = consumed(kafka.bootstrap_servers, "out", 1), expected(program(), records)
    assert {row for row in found if b"None" not in (row[1] or b"")} == {
        row for row in wanted_rows if b"None" not in (row[1] or b"")
    }
    assert set(found) <= set(wanted_rows)
    assert any(b"None" in (value or b"") for _, value, _ in found)


def test_offsets_are_committed_with_the_time_of_the_partition(kafka: Kafka) -> None:
    kafka.seed({"a": 1, "out": 1})
    produce(kafka.bootstrap_servers, [Input("a", "k", "x", 7000), Input("a", "k", "x", 5000)])
    with running(kafka, PROGRAMS["windowed_count"]()):
        wait_until(lambda: has(kafka, 1))
    groups = Groups(Connection(kafka.bootstrap_servers))
    groups.group("app")
    found = groups.committed("app")[TopicPartition("a", 0)]
    assert found.offset == 2
    metadata = decode(found.metadata)
    assert (metadata.partition_time, sorted(name[0] for name in metadata.processors)) == (7000, ["#", "#"])
    ends = Groups(Connection(kafka.bootstrap_servers)).ends([TopicPartition("app-counts-changelog", 0)])
    assert metadata.processors[end_name("app-counts-changelog")] == next(iter(ends.values()))


def test_metadata_of_offsets() -> None:
    assert OffsetMetadata(7000).encode() == "AgAAAAAAABtY"
    full = OffsetMetadata(5, {"store": 9, "ö": -1})
    assert decode(full.encode()) == full == decode(full.encode() + "\0")
    assert decode("AQAAAAAAABtY") == OffsetMetadata(7000)
    assert decode("") == decode("a text of a tool") == decode("AwAAAAAAABtY") == decode("Ag==") == OffsetMetadata()


def test_wall_clock(kafka: Kafka) -> None:
    class Ticking(Processor[str, str, str, str]):
        def process(self, record: Record[str, str]) -> None:
            self.context.schedule(50, PunctuationType.WALL_CLOCK_TIME, lambda _: self.context.forward(record))

    builder = new_builder()
    builder.stream("a").process(Ticking).to("out", key_serde=STRING, value_serde=STRING)
    kafka.seed({"a": 1, "out": 1})
    produce(kafka.bootstrap_servers, [Input("a", "k", "x", 1)])
    with running(kafka, builder.build()):
        wait_until(lambda: len(kafka.records("out")) >= 3)


def test_global_tables_have_all_partitions(kafka: Kafka) -> None:
    builder = new_builder()
    names = builder.global_table("b")
    builder.stream("a").join(names, lambda one, name: f"{one}+{name}", key_selector=lambda _, value: value).to("out")
    kafka.seed({"a": 1, "b": 3, "out": 1})
    produce(kafka.bootstrap_servers, [Input("b", key, key.upper(), 1) for key in "abcdef"])
    produce(kafka.bootstrap_servers, [Input("a", "k", key, 2) for key in "abcdef"])
    with running(kafka, builder.build()):
        wait_until(lambda: has(kafka, 6))
        produce(kafka.bootstrap_servers, [Input("b", "z", "Z", 3)])
        time.sleep(1)
        produce(kafka.bootstrap_servers, [Input("a", "k", "z", 4)])
        wait_until(lambda: has(kafka, 7))
    assert [value for _, value, _ in consumed(kafka.bootstrap_servers, "out", 1)] == [
        f"{key}+{key.upper()}".encode() for key in "abcdefz"
    ]


def test_windows_of_a_key_share_a_partition(kafka: Kafka) -> None:
    builder = new_builder()
    counts = builder.stream("a").group_by_key().windowed_by(TimeWindows(size_ms=10)).count()
    counts.to_stream().to("out", value_serde=LONG)
    kafka.seed({"a": 1, "out": 5})
    produce(kafka.bootstrap_servers, [Input("a", "k", "x", 10 * i) for i in range(1, 21)])
    with running(kafka, builder.build()):
        wait_until(lambda: has(kafka, 20, 5))
    assert len({record.partition for record in kafka.records("out") if record.key}) == 1


def run_once(kafka: Kafka, topology: Topology, **about: Any) -> None:
    KafkaStreams(topology, application_id="app", bootstrap_servers=kafka.bootstrap_servers, **about).run()


def committed_of(kafka: Kafka, topic: str = "a") -> int:
    groups = Groups(Connection(kafka.bootstrap_servers))
    groups.group("app")
    found = groups.committed("app").get(TopicPartition(topic, 0))
    return -1 if found is None else found.offset


def delete(kafka: Kafka, topic: str) -> None:
    assert list(Admin(Connection(kafka.bootstrap_servers)).delete([topic], if_exists=False)) == [topic]


def refused(kafka: Kafka, topology: Topology) -> str:
    with pytest.raises(StreamsError) as error:
        run_once(kafka, topology)
    return str(error.value)


def test_topics_that_do_not_fit_are_refused_before_anything_is_made(kafka: Kafka) -> None:
    kafka.seed({"a": 2, "b": 3})
    assert refused(kafka, PROGRAMS["table_join"]()) == (
        "topics that are joined must have equally many partitions: a has 2, b has 3"
    )
    builder = new_builder()
    builder.stream("nowhere").to("out")
    assert refused(kafka, builder.build()) == "the program reads topics that do not exist: nowhere"
    kafka.create_topic("app-counts-changelog", 3)
    assert refused(kafka, PROGRAMS["count"]()) == (
        "the internal topic app-counts-changelog has 3 partitions, and the program needs 2: a topic that it reads has "
        "got more partitions, or the program has changed"
    )
    assert not [name for name in kafka.topics() if name.endswith("-repartition")]


def test_repartition_topics_match_the_topics_with_which_they_are_joined(kafka: Kafka) -> None:
    builder = new_builder()
    stream = builder.stream("a").select_key(lambda _, value: value)
    stream.join(builder.table("b"), lambda one, other: f"{one}+{other}").to("out")
    kafka.seed({"a": 1, "b": 3, "out": 1})
    produce(kafka.bootstrap_servers, [Input("b", key, key, 1) for key in "abcdef"])
    produce(kafka.bootstrap_servers, [Input("a", "k", key, 2) for key in "abcdef"])
    with running(kafka, builder.build()):
        wait_until(lambda: has(kafka, 6))


def test_repartition_topics_have_as_many_partitions_as_the_program_gives(kafka: Kafka) -> None:
    def program(count: int) -> Topology:
        builder = new_builder()
        by_value = builder.stream("a").select_key(lambda _, value: value)
        by_value.repartition(name="given", number_of_partitions=count).left_join(
            builder.table("b"), lambda one, other: f"{one}+{other}"
        ).to("out")
        return builder.build()

    kafka.seed({"a": 1, "b": 3, "out": 1})
    assert refused(kafka, program(2)) == (
        "topics that are joined must have equally many partitions: app-given-repartition has 2, b has 3"
    )
    with running(kafka, program(3)) as app:
        wait_until(lambda: app.running_tasks == ["0_0", "1_0", "1_1", "1_2"])


def test_a_lost_changelog_is_an_error(kafka: Kafka) -> None:
    begun(kafka, PROGRAMS["windowed_count"]())
    delete(kafka, "app-counts-changelog")
    assert refused(kafka, PROGRAMS["windowed_count"]()) == (
        "app has read a, but its internal topic app-counts-changelog is not there: restore the topic, or begin anew "
        "with kcli streams reset"
    )


def test_a_program_that_was_reset_begins_anew(kafka: Kafka) -> None:
    """The offsets of its input topic stay, as the reset has set them, and its changelog is gone."""
    begun(kafka, PROGRAMS["windowed_count"]())
    connection = Connection(kafka.bootstrap_servers)
    plan = planned(connection, "app", Reset(Kind.EARLIEST), ["a"], report=print)
    assert list(execute(connection, plan)) == []
    with running(kafka, PROGRAMS["windowed_count"]()):
        wait_until(lambda: has(kafka, 2))


def begun(kafka: Kafka, topology: Topology, **topics: int) -> None:
    """Run a program over one record of the topic a."""
    kafka.seed({"a": 1, "out": 1, **topics})
    produce(kafka.bootstrap_servers, [Input("a", "k", "x", START_MS)])
    with running(kafka, topology):
        wait_until(lambda: has(kafka, 1))


ANEW = "restore the topic, or begin anew with kcli streams reset"


def test_a_changelog_that_was_made_anew_is_an_error(kafka: Kafka) -> None:
    begun(kafka, PROGRAMS["count"]())
    delete(kafka, "app-counts-changelog")
    kafka.create_topic("app-counts-changelog", 1, config={"cleanup.policy": "compact"})
    assert refused(kafka, PROGRAMS["count"]()) == (
        f"app-counts-changelog was deleted and made anew since app has committed offsets: what the store counts had is "
        f"lost; {ANEW}"
    )


def test_a_changelog_without_its_first_records_is_an_error(kafka: Kafka) -> None:
    begun(kafka, PROGRAMS["count"]())
    admin = Admin(Connection(kafka.bootstrap_servers))
    for policy in ("delete", "compact"):
        configs = {"cleanup.policy": policy}
        (_,) = admin.alter_configs(["app-counts-changelog"], configs, validate_only=False, if_exists=False)
        if policy == "delete":
            delete_first(kafka, "app-counts-changelog", 1)
    assert refused(kafka, PROGRAMS["count"]()) == (
        f"app-counts-changelog, partition 0 begins at offset 1: earlier records of the store counts are gone; {ANEW}"
    )


def test_a_changelog_without_its_last_records_is_an_error() -> None:
    with Kafka.started(process="child", config=CONFIG) as kafka:
        begun(kafka, PROGRAMS["count"]())
        kafka.kill()
        os.truncate(kafka.data_dir / "app-counts-changelog-0" / "00000000000000000000.log", 0)
        kafka.start()
        assert refused(kafka, PROGRAMS["count"]()) == (
            "app-counts-changelog, partition 0 ends at offset 0, and app has committed offsets when it ended at 2: "
            f"what the store counts had last is lost; {ANEW}"
        )


SLOW = {"queued.max.messages.kbytes": "1", "fetch.message.max.bytes": "300"}
"""Consumers that hold few records, so that a partition can lose what they have not read yet."""


def test_a_reader_whose_partition_loses_records(kafka: Kafka) -> None:
    kafka.seed({"a": 1})
    for number in range(30):
        produce(kafka.bootstrap_servers, [Input("a", str(number), "x" * 500, START_MS)])
    place = TopicPartition("a", 0)
    reader = PartitionReader(Connection(kafka.bootstrap_servers, SLOW), committed_only=True)
    reader.add([place])
    wait_until(lambda: bool(reader.poll(1)))
    delete_first(kafka, "a", 30)
    with pytest.raises(OutOfRange, match="a, partition 0 has lost records while it was read"):
        wait_until(lambda: not reader.poll(1) and reader.is_done(place))
    reader.remove([place])
    produce(kafka.bootstrap_servers, [Input("a", "k", "x", START_MS)])
    reader.add([place])
    found: list[Any] = []
    while not reader.is_done(place):
        found += reader.poll(1)
    assert [record[2] for record in found] == [30]
    reader.close()


def test_a_changelog_that_loses_records_while_it_is_read_is_read_again(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.seed({"a": 1, "out": 1})
    produce(kafka.bootstrap_servers, [Input("a", f"{number:02}" * 5000, "x", START_MS) for number in range(30)])
    with running(kafka, PROGRAMS["windowed_count"](), client_config={"batch.num.messages": "1"}):
        wait_until(lambda: has(kafka, 30))
    restored: list[int] = []
    restore = ActiveTask.restore

    def restoring(self: ActiveTask, place: TopicPartition, offset: int, *record: Any) -> None:
        if not restored:
            delete_first(kafka, place.topic, 25)
        restored.append(offset)
        restore(self, place, offset, *record)

    monkeypatch.setattr(ActiveTask, "restore", restoring)
    with running(kafka, PROGRAMS["windowed_count"](), client_config=SLOW) as app:
        wait_until(lambda: app.running_tasks == ["0_0"])
        (task,) = app._tasks.values()
        kept = len(list(task.task.stores["counts"].all()))  # type: ignore[attr-defined]
    assert (
        "app restores the stores of task 0_0 again: app-counts-changelog, partition 0 has lost records" in caplog.text
    )
    assert restored[0] == 0
    assert 0 < kept == len([offset for offset in restored if offset >= 25]) < 25


def delete_first(kafka: Kafka, topic: str, offset: int) -> None:
    place = TopicPartition(topic, 0)
    client = Connection(kafka.bootstrap_servers).admin()
    delete_before(client, {place: offset})
    wait_until(lambda: Groups(Connection(kafka.bootstrap_servers)).starts([place])[place] == offset)


def test_topics_without_the_records_that_come_next(kafka: Kafka) -> None:
    begun(kafka, PROGRAMS["count"]())
    groups, topic = Groups(Connection(kafka.bootstrap_servers)), "app-counts-repartition"
    place = TopicPartition(topic, 0)
    (_,) = groups.commit("app", {place: 99})
    end = groups.ends([place])[place]
    assert refused(kafka, PROGRAMS["count"]()) == (
        f"{topic}, partition 0 ends at offset {end}, and app has read it up to 99: it was deleted and made anew, or "
        f"has lost records; {ANEW}"
    )
    (_,) = groups.commit("app", {place: 0})
    delete_first(kafka, topic, 1)
    assert refused(kafka, PROGRAMS["count"]()) == (
        f"{topic}, partition 0 begins at offset 1, and app has read it up to 0: records between are lost; {ANEW}"
    )


def test_a_program_that_has_changed_is_an_error(kafka: Kafka) -> None:
    begun(kafka, PROGRAMS["windowed_count"]())

    def changed(name: str, **about: Any) -> Topology:
        builder = new_builder()
        builder.stream("a").group_by_key().count(store_name=name, **about).to_stream().map_values(text).to("out")
        return builder.build()

    assert refused(kafka, changed("other")) == (
        "app has read a, but its internal topic app-other-changelog is not there: the program has changed, which had "
        f"app-counts-changelog (store_name and name keep names of topics); {ANEW}"
    )
    assert refused(kafka, changed("counts")) == (
        "app-counts-changelog has cleanup.policy=compact,delete, and the program needs compact: its store has changed, "
        f"or somebody has set it; {ANEW}"
    )


def test_a_store_of_another_type_is_an_error(kafka: Kafka) -> None:
    begun(kafka, PROGRAMS["count"]())
    builder = new_builder()
    words = builder.stream("a").group_by(lambda _, word: word)
    words.aggregate(dict, lambda _key, _value, total: total, store_name="counts", value_serde=JSON)
    assert refused(kafka, builder.build()).startswith(
        "app-counts-changelog, partition 0: what it has is none of the store counts: 8 bytes are no JSON: "
    )


def test_a_changelog_of_something_else_is_an_error(kafka: Kafka) -> None:
    kafka.seed({"a": 1, "out": 1, "app-counts-changelog": 1})
    produce(kafka.bootstrap_servers, [Input("app-counts-changelog", "k", "x", 1)])
    assert refused(kafka, PROGRAMS["windowed_count"]()).startswith(
        "app-counts-changelog, partition 0, offset 0: the record is none of the store counts: unpack requires a buffer"
    )


def test_a_record_that_cannot_be_read_undoes_what_was_not_committed(kafka: Kafka) -> None:
    builder = new_builder()
    builder.stream("a", value_serde=LONG, key_serde=STRING).to("out", value_serde=LONG)
    kafka.seed({"a": 1, "out": 1})
    produce(kafka.bootstrap_servers, [Input("a", "k", "12345678", 1), Input("a", "k", "x", 2)])
    with pytest.raises(ProcessingError, match="a, partition 0, offset 1: the record's value cannot be read"):
        run_once(kafka, builder.build())
    assert consumed(kafka.bootstrap_servers, "out", 1) == []


CONTINUE = {
    "deserialization.exception.handler": "LogAndContinueExceptionHandler",
    "processing.exception.handler": "LogAndContinueProcessingExceptionHandler",
    "errors.dead.letter.queue.topic.name": "dead",
}


def halves() -> Topology:
    """Halve numbers; 0 has no inverse."""
    builder = StreamsBuilder(key_serde=STRING, value_serde=JSON)
    builder.stream("a").map_values(lambda value: 1 / value).to("out")
    return builder.build()


@pytest.mark.parametrize("guarantee", list(ProcessingGuarantee))
def test_dead_letters(kafka: Kafka, guarantee: ProcessingGuarantee) -> None:
    kafka.seed({"a": 1, "out": 1, "dead": 1})
    produce(kafka.bootstrap_servers, [Input("a", "k", value, START_MS) for value in ("4", "none", "0", "2", "[")])
    with running(kafka, halves(), processing_guarantee=guarantee, commit_interval_ms=50, config=CONTINUE):
        wait_until(lambda: has(kafka, 3, topic="dead"))
        wait_until(lambda: committed_of(kafka) == 5)
    assert [value for _, value, _ in consumed(kafka.bootstrap_servers, "out", 1)] == [b"0.25", b"0.5"]
    letters = kafka.records("dead")
    assert [each.value for each in letters if each.key] == [b"none", b"0", b"["]
    headers = dict(letters[1].headers)
    assert headers["__streams.errors.exception"] == b"builtins.ZeroDivisionError"
    assert headers["__streams.errors.offset"] == b"2"


def test_a_dead_letter_topic_that_does_not_exist(kafka: Kafka) -> None:
    kafka.seed({"a": 1, "out": 1})
    with pytest.raises(StreamsError, match=r"errors\.dead\.letter\.queue\.topic\.name: there is no topic dead"):
        run_once(kafka, PROGRAMS["count"](), config=CONTINUE)
    assert not [name for name in kafka.topics() if name.startswith("app-")]


def test_a_record_that_is_left_out_at_the_end_is_committed(kafka: Kafka) -> None:
    kafka.seed({"a": 1, "out": 1})
    produce(kafka.bootstrap_servers, [Input("a", "k", "none", START_MS)])
    config = {"deserialization.exception.handler": "LogAndContinueExceptionHandler"}
    with running(kafka, halves(), config=config):
        wait_until(lambda: committed_of(kafka) == 1)


def test_dead_letters_of_a_failure_are_sent_unless_they_are_undone(kafka: Kafka) -> None:
    kafka.seed({"a": 1, "out": 1, "dead": 1})
    produce(kafka.bootstrap_servers, [Input("a", "k", "0", START_MS)])
    config = {"errors.dead.letter.queue.topic.name": "dead"}
    for guarantee, count in (("exactly_once_v2", 0), ("at_least_once", 1)):
        with pytest.raises(
            ProcessingError, match="a, partition 0, offset 0: KSTREAM-MAPVALUES-0000000001: ZeroDivisionError: division"
        ):
            run_once(kafka, halves(), processing_guarantee=guarantee, config=config)
        assert len(consumed(kafka.bootstrap_servers, "dead", 1)) == count


@pytest.mark.parametrize("guarantee", list(ProcessingGuarantee))
def test_records_that_are_too_large(kafka: Kafka, guarantee: ProcessingGuarantee) -> None:
    builder = new_builder()
    builder.stream("a").map_values(lambda value: value * 2_000_000).to("out")
    kafka.seed({"a": 1, "out": 1})
    produce(kafka.bootstrap_servers, [Input("a", "k", "x", START_MS), Input("a", "k", "", START_MS)])
    with pytest.raises(ProcessingError, match="out: MESSAGE_TOO_LARGE"):
        run_once(kafka, builder.build(), processing_guarantee=guarantee)
    seen: list[ErrorContext] = []

    def leave_out(context: ErrorContext, _error: Exception) -> Response:
        seen.append(context)
        return Response(resumes=True)

    config = {"production.exception.handler": leave_out}
    with running(kafka, builder.build(), processing_guarantee=guarantee, commit_interval_ms=50, config=config):
        wait_until(lambda: committed_of(kafka) == 2)
    assert [value for _, value, _ in consumed(kafka.bootstrap_servers, "out", 1)] == [b""]
    assert [context.node for context in seen] == ["out"]


@pytest.mark.kafka_broker(config={**CONFIG, "message.max.bytes": "1000"})
@pytest.mark.parametrize("guarantee", list(ProcessingGuarantee))
def test_records_that_the_broker_does_not_take(kafka: Kafka, guarantee: ProcessingGuarantee) -> None:
    builder = new_builder()
    builder.stream("a").map_values(lambda value: value * 5000).to("out")
    kafka.seed({"a": 1, "out": 1})
    produce(kafka.bootstrap_servers, [Input("a", "k", "x", START_MS), Input("a", "k", "", START_MS)])
    config = {"production.exception.handler": lambda _context, _error: Response(resumes=True)}
    about: dict[str, Any] = {"processing_guarantee": guarantee, "commit_interval_ms": 50}
    with pytest.raises(ProcessingError, match="out: MESSAGE_TOO_LARGE"):
        run_once(kafka, builder.build(), **about)
    if guarantee is ProcessingGuarantee.EXACTLY_ONCE_V2:
        with pytest.raises(ProcessingError, match="out: MESSAGE_TOO_LARGE"):
            run_once(kafka, builder.build(), **about, config=config)
        return
    with running(kafka, builder.build(), **about, config=config):
        wait_until(lambda: committed_of(kafka) == 2)


def test_configurations_that_make_no_sense(kafka: Kafka) -> None:
    for config, says in (
        ({"num.threads": "1"}, "num.threads is no configuration of streams; those are deserialization"),
        ({"processing.exception.handler": "x"}, "is a function or one of LogAndFailProcessingExceptionHandler, Log"),
        ({"processing.exception.handler.global.enabled": "x"}, "global.enabled is true or false, not 'x'"),
    ):
        with pytest.raises(TopologyError, match=says):
            run_once(kafka, halves(), config=config)


def test_no_broker(kafka: Kafka) -> None:
    kafka.seed({"a": 1})
    kafka.stop()
    with pytest.raises(Exception, match="no broker answers"):
        run_once(kafka, PROGRAMS["count"]())


def test_topology_error_is_of_usage() -> None:
    assert TopologyError("x").exit_status == 2
