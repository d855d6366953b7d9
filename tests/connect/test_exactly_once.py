"""Two workers whose source gets other tasks again and again: each of its records is in the topic once. The turns run in
this process, without Spark."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from kcli.connect.builtin import records
from kcli.connect.config.config_def import ConfigDef
from kcli.connect.data.records import SourceRecord
from kcli.connect.engine.spark_engine import SparkEngine
from kcli.connect.engine.tasks import SourceContext, SourceTask
from kcli.connect.plugins import Plugin, Plugins, PluginType, TaskId
from kcli.testing.kafka import Kafka
from tests.connect.engines import Here, wait_until
from tests.connect.running import running
from tests.connect.simple import Source
from tests.connect.test_distributed import ask, properties
from tests.connect.turns import consumed

PARTS, EACH, BATCH = 6, 700, 10
EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}


class Numbers(Source):
    """Counts in parts, which are dealt out to the tasks: another number of tasks moves them."""

    CLASS = "Numbers"

    @classmethod
    def config(cls) -> ConfigDef:
        return ConfigDef()

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        parts = [str(number) for number in range(PARTS)]
        return [{"parts": ",".join(parts[number::tasks_max])} for number in range(tasks_max)]

    class TASK(SourceTask):
        def start(self, config: Mapping[str, str], context: SourceContext) -> None:
            parts = config["parts"].split(",")
            self._at = {part: (context.offset({"part": part}) or {"at": 0})["at"] for part in parts}

        def poll(self) -> Sequence[SourceRecord]:
            left = [part for part, at in self._at.items() if at < EACH]
            if not left:
                return []
            part = random.choice(left)
            time.sleep(0.005)
            found = []
            for _ in range(BATCH):
                self._at[part] += 1
                found.append(
                    SourceRecord(
                        topic="numbers",
                        value=f"{part}-{self._at[part]}",
                        source_partition={"part": part},
                        source_offset={"at": self._at[part]},
                    )
                )
            return found


PLUGINS = Plugins([Plugin("Numbers", PluginType.SOURCE, "1", f"{__name__}:Numbers"), *records()])


class Late(SparkEngine):
    """Its tasks go on for a second when they are to stop, as those of a worker that has not replayed the change."""

    def stop(self, tasks: Sequence[TaskId]) -> None:
        time.sleep(1)
        super().stop(tasks)


def test_each_record_is_there_once(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Here(monkeypatch)
    monkeypatch.setattr("kcli.connect.engine.turn.TURN_S", 0.4)
    kafka.seed({"numbers": 2})
    known = properties(kafka, "numbers", EXACTLY_ONCE)
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(running(tmp_path, known, plugins=PLUGINS, engine=kind(PLUGINS)))
            for kind in (SparkEngine, Late)
        )
        changes = iter(range(1000))

        def change() -> int:
            number = next(changes)
            config = {"connector.class": "Numbers", "tasks.max": str((2, 4, 1, 3)[number % 4])}
            return ask((one, two)[number % 2], "PUT", "/connectors/numbers/config", config)[0]

        def committed() -> int:
            found = ask(one, "GET", "/connectors/numbers/offsets")[1].get("offsets", ())
            return sum(each["offset"]["at"] for each in found)

        wait_until(lambda: change() == 201)
        taken = 0
        while (now := committed()) < PARTS * EACH:
            if now > taken + 400:
                taken = now
                change()
            time.sleep(0.2)
    found = Counter(each.value().decode() for each in consumed(kafka, "numbers", PARTS * EACH, partitions=2))
    assert next(changes) > 5
    assert set(found) == {f"{part}-{at}" for part in range(PARTS) for at in range(1, EACH + 1)}
    assert set(found.values()) == {1}
