"""The pytest plugin: `def test_x(kafka): kafka.bootstrap_servers`.

    kafka           a broker that the run shares, restored to its first state before each test
    kafka_broker    a new broker for one test
    kafka_session   a broker for the whole run, never put back to its first state: for programs that start once a run
    @pytest.mark.kafka_broker(config={...}, process="child", seed={...})     the broker that a test asks for
    @pytest.mark.kafka_broker(security="scram", acls=["alice read topic:orders"])  how clients connect; what they may do

pytest imports this module in every run, so it imports kcli only when a test uses a broker.
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
    """Add kcli's options to pytest's command line and ini file."""
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
    """Register the marker `kafka_broker` of tests."""
    _import_unchanged(config)
    config.addinivalue_line(
        "markers",
        f"{MARKER}(config=None, process=None, seed=None, security=None, acls=None): how a test wants its Kafka: broker "
        'configurations, "thread" or "child", topics and records as a mapping or a file, "tls", "mtls", "scram" or '
        '"oauth", and ACLs such as "alice read topic:orders"',
    )


def _import_unchanged(config: pytest.Config) -> None:
    """Have pytest import kcli's modules without rewriting their assertions, as it does with all modules of a plugin's
    distribution: a broker's thread imports some of them, and two threads that rewrite at the same time fail in CPython
    3.11 (SystemError: AST constructor recursion depth mismatch)."""
    rewritten: set[str] = getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", set())
    rewritten -= {"formats", "kcli", "pyspark_kafka_log"}


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A broker that the run shares; before each test it is restored to the seed of the test's marker or the ini file.

    Topics, records, groups, fault rules, clock and address are new for each test.
    """
    yield from _brokers(request.config).shared(request.node)


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """A new broker for this test only."""
    yield from _brokers(request.config).own(request.node)


@pytest.fixture(scope="session")
def kafka_session(request: pytest.FixtureRequest) -> Iterator[Kafka]:
    """One broker for the whole run, configured and seeded by the ini file, never put back to its first state."""
    yield from _brokers(request.config).own(request.node)


def _brokers(config: pytest.Config) -> Brokers:
    if BROKERS not in config.stash:
        from kcli.testing.brokers import Brokers

        config.stash[BROKERS] = Brokers(config)
    return config.stash[BROKERS]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Add to the report of a failed test the state of its broker, and have the broker's data kept."""
    report = yield
    if report.failed and report.when == "call" and BROKERS in item.config.stash:
        for holder in (item, item.session):
            if USED in holder.stash:
                report.sections.append(("Kafka", _brokers(item.config).failed(holder)))
    return report


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close all brokers of the run."""
    if BROKERS in config.stash:
        config.stash[BROKERS].close()
