"""Standbys: as many for each task as configured, where there are members; on the brokers, three instances and two."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.local import KafkaStreams
from kcli.streams.local.plan import TaskId
from kcli.streams.local.standbys import placed
from kcli.testing.kafka import Kafka
from tests.streams.applications import PROGRAMS, inputs, produce, running, wait_until

pytestmark = pytest.mark.kafka_broker(config={"group.initial.rebalance.delay.ms": "0", "log.retention.ms": "-1"})

MEMBERS = [f"member-{number}" for number in range(5)]


def owners(seed: int, members: list[str], tasks: int = 24) -> dict[TaskId, str]:
    chance = random.Random(seed)
    return {TaskId(number % 2, number // 2): chance.choice(members) for number in range(tasks)}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("replicas", [0, 1, 2, 3, 9])
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_each_task_has_its_standbys_on_other_members(seed: int, replicas: int, count: int) -> None:
    members = MEMBERS[:count]
    actives = owners(seed, members)
    found = placed(actives, members, replicas)
    assert found.keys() == actives.keys()
    for task, keepers in found.items():
        assert len(set(keepers)) == len(keepers) == min(replicas, count - 1)
        assert actives[task] not in keepers
    assert found == placed(dict(reversed(actives.items())), members[::-1], replicas)


def test_standbys_are_even_and_few_of_them_move() -> None:
    moved = 0
    for seed in range(20):
        actives = {task: MEMBERS[index % 4] for index, task in enumerate(sorted(owners(seed, MEMBERS)))}
        before = placed(actives, MEMBERS, 1)
        loads = Counter(keeper for keepers in before.values() for keeper in keepers)
        assert max(loads.values()) <= 6  # 24 tasks on 5 members: 5 each, and one more where a task's own is left
        after = placed(actives, MEMBERS[:4], 1)
        stayed = [task for task in actives if before[task] != [MEMBERS[4]]]
        moved += sum(after[task] != before[task] for task in stayed)
    assert moved / 20 < 8


def test_three_instances_and_two_have_as_many_standbys_as_configured(kafka: Kafka) -> None:
    kafka.seed({"a": 4, "out": 1})
    produce(kafka.bootstrap_servers, [each for each in inputs(120, seed=3) if each.topic == "a"])
    tasks = [f"1_{number}" for number in range(4)]  # those of the first sub-topology have no stores

    def copies(instances: list[KafkaStreams]) -> Counter[str]:
        return Counter(str(task_id) for each in instances for task_id in list(each._standbys))

    def has(instances: list[KafkaStreams], count: int) -> bool:
        own = [set(each.running_tasks) & {str(task_id) for task_id in list(each._standbys)} for each in instances]
        return not any(own) and copies(instances) == Counter(dict.fromkeys(tasks, count))

    with running(kafka, PROGRAMS["count"](), config={"num.standby.replicas": 1}) as one:
        wait_until(lambda: len(one.running_tasks) == 8)
        assert not one._standbys
        with running(kafka, PROGRAMS["count"](), config={"num.standby.replicas": 1}) as two:
            with running(kafka, PROGRAMS["count"](), config={"num.standby.replicas": 1}) as three:
                wait_until(lambda: all(each.running_tasks for each in (one, two, three)))
                wait_until(lambda: has([one, two, three], 1))
            wait_until(lambda: has([one, two], 1))
        wait_until(lambda: not one._standbys)
    with (
        running(kafka, PROGRAMS["count"](), config={"num.standby.replicas": 2}) as one,
        running(kafka, PROGRAMS["count"](), config={"num.standby.replicas": 2}) as two,
    ):
        wait_until(lambda: has([one, two], 1))
        with running(kafka, PROGRAMS["count"](), config={"num.standby.replicas": 2}) as three:
            wait_until(lambda: has([one, two, three], 2))


def test_an_instance_restores_stores_before_it_joins(kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    """Warm-up: what the group gives to an instance that joins others goes on at once."""
    cold: dict[KafkaStreams, set[TaskId]] = {}
    assigned = KafkaStreams._assigned

    def watched(app: KafkaStreams, places: list[TopicPartition]) -> None:
        tasks = {TaskId(app._leaders[topic].number, partition) for topic, partition in places}
        cold.setdefault(app, set()).update(tasks - app._standbys.keys())
        assigned(app, places)

    monkeypatch.setattr(KafkaStreams, "_assigned", watched)
    kafka.seed({"a": 4, "out": 1})
    produce(kafka.bootstrap_servers, [each for each in inputs(120, seed=3) if each.topic == "a"])
    with running(kafka, PROGRAMS["windowed_count"](), config={"num.standby.replicas": 1}) as one:
        wait_until(lambda: len(one.running_tasks) == 4)
        with running(kafka, PROGRAMS["windowed_count"](), config={"num.standby.replicas": 1}) as two:
            wait_until(lambda: len(two.running_tasks) == 2)
            assert (len(cold[one]), cold[two]) == (4, set())
