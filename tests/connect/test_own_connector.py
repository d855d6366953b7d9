"""The connector that docs/connectors.md shows, as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kcli.connect.builtin import built_in
from kcli.connect.engine import source_turn
from kcli.connect.engine.turn import Turn, outcome_of
from kcli.connect.plugin_path import plugins_of
from kcli.connect.plugins import Plugin, PluginType
from kcli.connect.rest_client import ask
from kcli.errors import NotInstalled
from kcli.pipelines.cluster import Cluster
from kcli.testing.kafka import Kafka
from tests.connect.engines import wait_until
from tests.connect.test_run import running
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


def blocks(language: str) -> list[str]:
    """Return the code of the page's section, in a language."""
    section = PAGE.read_text().partition("\n## A connector of your own\n")[2].partition("\n## ")[0]
    return re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Path]:
    """The files of the page's section, as it says where they are."""
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / "example.py").write_text(blocks("python")[0])
    (tmp_path / "worker.properties").write_text(blocks("properties")[0])
    (tmp_path / "counter.properties").write_text(blocks("properties")[1])
    yield tmp_path
    sys.modules.pop("example", None)
    sys.path[:] = [each for each in sys.path if each != str(tmp_path / "plugins")]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["validate", "counter.properties", "--worker", "worker.properties"], "valid\n"),
        (["run", "worker.properties", "counter.properties", "--dry-run"], "counter: example.Counter: valid\n"),
    ],
)
def test_the_page_is_followed(page: Path, arguments: list[str], told: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "kcli", "connect", *arguments], cwd=page, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert told in done.stdout


def test_the_page_is_followed_to_its_end(page: Path, kafka: Kafka) -> None:
    """The worker runs the connector, and its REST API has it."""
    given = (page / "worker.properties").read_text().replace("127.0.0.1:9092", kafka.bootstrap_servers)
    (page / "worker.properties").write_text(f"{given}listeners=http://127.0.0.1:0\n")
    with running(page, "counter.properties") as (url, _):
        listed = ask(url, "GET", "/connector-plugins")
        assert {"class": "example.Counter", "type": "source", "version": "1.0"} in listed
        wait_until(lambda: len(kafka.records("numbers")) > 2 if "numbers" in kafka.topics() else False)
    assert [int.from_bytes(each.value or b"", "big") for each in kafka.records("numbers")[:3]] == [1, 2, 3]


def test_what_is_left_out_of_a_plugin_path(page: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As Kafka leaves out what it cannot load; of jars there is nothing to take."""
    for name, text in (("broken.py", "1 / 0"), ("json.py", ""), ("a.jar", "x"), ("more.py", "from example import *")):
        (page / "plugins" / name).write_text(text)
    found = plugins_of(f"{page}/plugins, {page}/none")
    assert [(each.name, each.where, each.directory) for each in found] == [
        ("example.Counter", "example:Counter", f"{page}/plugins")
    ]
    assert [each.getMessage().partition("in ")[0] for each in caplog.records] == [
        "plugin.path: module broken ",
        "plugin.path: module json ",
        f"plugin.path: {page}/none: No such file or directory: ignored",
    ]
    assert plugins_of("") == []
