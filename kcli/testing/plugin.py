"""The pytest plugin: `def test_x(kafka): kafka.bootstrap_servers`.

    kafka           a broker that every test finds as it was: one that the run shares, put back to its first state
    kafka_broker    a broker of the test's own
    kafka_session   a broker for the whole run, never put back: for what is started once a run
    @pytest.mark.kafka_broker(config={...}, process="child", seed={...})     how a test wants its broker

pytest imports this module in every run, so it imports nothing until a test asks for a broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kcli.testing.brokers import Brokers
    from kcli.testing.kafka import Kafka

MARKER = "kafka_broker"
PROCESSES = ("thread", "child")
KEEP = ("failed", "all", "none")
BROKERS: pytest.StashKey[Brokers] = pytest.StashKey()
KEPT: pytest.StashKey[Path] = pytest.StashKey()
USED: pytest.StashKey[Kafka] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, on the command line and in the ini file."""
    group = parser.getgroup("kafka", "kafka (kcli)")
    group.addoption(
        "--kafka-process",
        choices=PROCESSES,
        help="where brokers run: on a thread of this process, or in a child process",
    )
    group.addoption("--kafka-keep", choices=KEEP, help="whose data directories are kept: of failed tests, all, none")
    parser.addini("kafka_process", "thread (the default) or child, as --kafka-process", default="thread")
    parser.addini("kafka_keep", "failed (the default), all or none, as --kafka-keep", default="failed")
    parser.addini("kafka_config", "broker configurations, name=value, one a line", type="linelist")
    parser.addini(
        "kafka_data", "directory for data while it is in use; /dev/shm if that has room, else the temporary one"
    )
    parser.addini(
        "kafka_seed", "topics and records of every broker: a YAML, JSON or TOML file, from the root directory"
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(config=None, process=None, seed=None): how a test wants its Kafka: broker configurations, "
        '"thread" or "child", topics and records as a mapping or a file',
    )


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """Kafka in the state that its marker, or the ini file, seeds it with. The run shares it, but no test sees what
    another did: state, fault rules, clock and address are new each time."""
    yield from _brokers(request.config).shared(request.node)


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A Kafka that no other test has or had."""
    yield from _brokers(request.config).own(request.node)


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """One Kafka for the whole run, as the ini file says; what tests leave in it stays."""
    yield from _brokers(request.config).own(request.node)


def _brokers(config: pytest.Config) -> Brokers:
    if BROKERS not in config.stash:
        from kcli.testing.brokers import Brokers

        config.stash[BROKERS] = Brokers(config)
    return config.stash[BROKERS]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Where a test with a broker has failed: keep its data, and tell where it is and how to look into it."""
    report = yield
    if report.failed and report.when == "call" and BROKERS in item.config.stash:
        for holder in (item, item.session):
            if USED in holder.stash:
                report.sections.append(("Kafka", _brokers(item.config).failed(holder)))
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what runs."""
    if BROKERS in config.stash:
        config.stash[BROKERS].close()
