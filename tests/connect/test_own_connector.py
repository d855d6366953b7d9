"""The connector that docs/connectors.md shows, as it stands there."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path

import pytest

from kcli.connect.builtin import built_in
from kcli.connect.engine import source_turn
from kcli.connect.engine.turn import Turn, outcome_of
from kcli.connect.plugins import Plugin, PluginType
from kcli.errors import NotInstalled
from kcli.pipelines.cluster import Cluster
from kcli.testing.kafka import Kafka
from tests.connect.turns import consumed, task_start

PAGE = Path(__file__).parents[2] / "docs" / "connectors.md"


@pytest.fixture
def incomplete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plugin:
    """A connector whose module needs a package that is missing."""
    (tmp_path / "incomplete_connector.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return Plugin("example.Incomplete", PluginType.SOURCE, "1.0", "incomplete_connector:Incomplete")


def test_a_package_is_missing(incomplete: Plugin) -> None:
    with pytest.raises(NotInstalled, match=r"no_such_package is not installed, .*: pip install 'kafka-kcli\[spark\]'"):
        incomplete.load()


def test_thirty_lines(tmp_path: Path, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    code = found[1].split("\n\n\n", 1)[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    (tmp_path / "counter_of_docs.py").write_text(found[1])
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("kcli.connect.engine.turn.TURN_S", 0.5)
    plugin = Plugin("example.Counter", PluginType.SOURCE, "1.0", "counter_of_docs:Counter")
    plugins = built_in([plugin])
    long = {"value.converter": "org.apache.kafka.connect.converters.LongConverter"}
    config = {"name": "c", "connector.class": "Counter", "topic": "numbers", **long}
    start = task_start(kafka.bootstrap_servers, config, plugins=plugins)
    made = Turn(start, plugin, plugins, Cluster(kafka.bootstrap_servers), "/nonexistent", offsets={})
    outcome = outcome_of(made, partial(source_turn.run, is_repeated=False))
    assert outcome.trace is None
    numbers = [int.from_bytes(each.value(), "big") for each in consumed(kafka, "numbers", outcome.records)]
    assert numbers == list(range(1, outcome.records + 1))
    assert outcome.offsets['{"of":"all"}'] == ({"of": "all"}, {"at": outcome.records})
    del sys.modules["counter_of_docs"]
