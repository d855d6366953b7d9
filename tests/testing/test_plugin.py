"""The plugin in test runs of its own: fixtures, marker, options, reports; and what it costs where it is not used."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PLUGIN = ("-p", "no:kcli", "-p", "kcli.testing.plugin", "-p", "no:cacheprovider", "-p", "no:timeout")
"""The plugin by its module's name, whether or not the entry point is installed. A test run in this process would end
this test's time limit."""

SENDING = """
    from confluent_kafka import Producer

    def send(kafka, topic, value):
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce(topic, value, partition=0)
        assert producer.flush(20) == 0
"""


def run(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """A run of the tests there."""
    return pytester.runpytest_inprocess(*PLUGIN, *arguments)


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Load what brokers need: after each run pytester forgets the modules that the run has loaded."""
    from confluent_kafka import Producer

    import kcli.testing.brokers  # noqa: F401 (loaded, not used)
    from kcli.testing.kafka import Kafka

    with Kafka.started(seed={"t": ["a"]}) as kafka:
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        producer.produce("u", "b")
        assert producer.flush(20) == 0
        assert kafka.values("u") == [b"b"]


@pytest.fixture(autouse=True)
def data_in_the_tests_directory(pytester: pytest.Pytester) -> None:
    """Put the data directory into the test's directory, which the test can inspect."""
    pytester.path.joinpath("memory").mkdir()
    pytester.makeini("[pytest]\nkafka_data = memory\n")


def test_every_test_finds_the_first_state(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        SENDING
        + """
    import pytest

    pytestmark = pytest.mark.kafka_broker(seed={"t": ["a"]})
    addresses = set()

    @pytest.mark.parametrize("i", range(3))
    def test_it(kafka, i):
        assert kafka.values("t") == [b"a"]
        assert kafka.requests() == kafka.faults.all() == []
        send(kafka, "t", "b")
        send(kafka, "new", "c")
        kafka.faults.add(api="Produce", error="NOT_LEADER_OR_FOLLOWER")
        kafka.clock.advance(hours=1)
        addresses.add(kafka.bootstrap_servers)

    def test_nobody_finds_anothers_broker():
        assert len(addresses) == 3
    """
    )
    run(pytester).assert_outcomes(passed=4)
    assert list(pytester.path.joinpath("memory").iterdir()) == [], "all is removed"


def test_own_brokers_and_one_for_the_run(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        SENDING
        + """
    def test_one(kafka_broker, kafka_session, kafka):
        assert len({kafka_broker.bootstrap_servers, kafka_session.bootstrap_servers, kafka.bootstrap_servers}) == 3
        for each in (kafka_broker, kafka_session, kafka):
            send(each, "t", "a")

    def test_two(kafka_broker, kafka_session, kafka):
        assert kafka_session.values("t") == [b"a"]
        assert kafka_broker.topics() == kafka.topics() == []
    """
    )
    run(pytester).assert_outcomes(passed=2)


def test_markers_and_ini_say_how_it_is_wanted(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\nkafka_data = memory\nkafka_seed = all.toml\n"
        "kafka_config =\n  num.partitions=2\n  message.max.bytes = 500\n"
    )
    pytester.makefile(".toml", all='everywhere = ["x"]')
    pytester.makefile(".yaml", some="topics:\n  here:\n    partitions: 3\n    records: [y]\n")
    pytester.makepyfile(
        """
    import os
    import pytest

    def config(kafka, name):
        asked = {"resource_type": 4, "resource_name": "1", "configuration_keys": [name]}
        answer = kafka.call("DescribeConfigs", resources=[asked], include_synonyms=False, include_documentation=False)
        return answer["results"][0]["configs"][0]["value"]

    def test_ini(kafka):
        assert kafka.values("everywhere") == [b"x"]
        assert (config(kafka, "num.partitions"), config(kafka, "message.max.bytes")) == ("2", "500")
        assert kafka.pid == os.getpid()

    @pytest.mark.kafka_broker(config={"num.partitions": 5, "auto.create.topics.enable": False}, seed="some.yaml")
    class TestMarked:
        def test_class(self, kafka):
            assert (config(kafka, "num.partitions"), config(kafka, "message.max.bytes")) == ("5", "500")
            assert config(kafka, "auto.create.topics.enable") == "false"
            assert kafka.topics() == ["here"] and kafka.values("here") == [b"y"]

        @pytest.mark.kafka_broker(config={"num.partitions": 7}, process="child", seed={})
        def test_function(self, kafka):
            assert config(kafka, "num.partitions") == "7"
            assert config(kafka, "auto.create.topics.enable") == "false"
            assert kafka.topics() == []
            assert kafka.pid != os.getpid()
    """
    )
    run(pytester, "--strict-markers").assert_outcomes(passed=3)


def test_options_come_before_the_ini_file(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("import os\ndef test_it(kafka_broker):\n    assert kafka_broker.pid != os.getpid()\n")
    run(pytester, "--kafka-process=child").assert_outcomes(passed=1)
    run(pytester, "-o", "kafka_process=child").assert_outcomes(passed=1)
    run(pytester).assert_outcomes(failed=1)


@pytest.mark.parametrize("fixture", ["kafka", "kafka_broker", "kafka_session"])
def test_data_of_a_failed_test_is_kept_and_found(pytester: pytest.Pytester, fixture: str) -> None:
    pytester.makepyfile(
        f"""
    {SENDING}
    def test_it({fixture}):
        {fixture}.faults.add(api="Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER", count=1)
        {fixture}.faults.add(api="Fetch", drop=True, skip=2)
        send({fixture}, "orders", "a")
        assert {fixture}.values("orders") == [b"b"]
    """
    )
    result = run(pytester)
    result.assert_outcomes(failed=1)
    result.stdout.re_match_lines_random(
        [
            r"-+ Kafka -+",
            r"fault rules:",
            r"  Produce topic orders: NOT_LEADER_OR_FOLLOWER  \(1 of 1 hit\)  used up",
            r"  Fetch: request dropped  \(0 hit, after 2 more\)",
            r"last of \d+ requests:",
            r"  Produce v\d+  rdkafka  orders-0  fault: NOT_LEADER_OR_FOLLOWER",
        ]
    )
    commands = re.findall(r"^  kcli (.*)$", result.stdout.str(), re.MULTILINE)
    assert [each.split()[0] for each in commands] == ["verify", "serve", "dump-segment"]
    for each, said in ((commands[0], "sound in"), (commands[2], "orders-0")):
        done = subprocess.run([sys.executable, "-m", "kcli", *each.split()], capture_output=True, text=True, check=True)
        assert said in done.stdout


@pytest.mark.parametrize(("keep", "kept"), [("all", 2), ("failed", 1), ("none", 0)])
def test_what_is_kept_can_be_chosen(pytester: pytest.Pytester, keep: str, kept: int) -> None:
    pytester.makepyfile("def test_good(kafka): pass\ndef test_bad(kafka): assert 0\n")
    run(pytester, f"--kafka-keep={keep}", f"--basetemp={pytester.path / 'base'}").assert_outcomes(passed=1, failed=1)
    assert len(list(pytester.path.glob("base/kafka[0-9]*/data/meta.properties"))) == kept


@pytest.mark.parametrize("fixture", ["kafka", "kafka_broker"])
def test_each_run_of_a_test_that_runs_again_is_kept(pytester: pytest.Pytester, fixture: str) -> None:
    pytester.makepyfile(f"def test_bad({fixture}): assert 0\n")
    result = run(pytester, "--reruns=2", f"--basetemp={pytester.path / 'base'}")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*1 failed*2 rerun*"])
    assert len(list(pytester.path.glob("base/kafka[0-9]*/data/meta.properties"))) == 3


@pytest.mark.parametrize(
    ("marker", "reason"),
    [
        ("{'a': 1}", "@pytest.mark.kafka_broker takes acls, config, process, security, seed, by name"),
        ("topics=[]", "@pytest.mark.kafka_broker takes acls, config, process, security, seed, by name"),
        ("config={'log.dirs': '/tmp'}", "log.dirs: the broker's directory and address are not the test's to choose"),
        ("process='moon'", "moon: a broker runs on a thread or in a child process: thread, child"),
        ("config={'num.partitions': 'x'}", "num.partitions"),
        ("seed=7", "a seed is a mapping of topics, not 7"),
        ("seed='none.yaml'", "none.yaml"),
        ("security='scrum'", "security 'scrum' is none of tls, mtls, scram, oauth"),
        ("acls='alice read topic:orders'", "a list of texts"),
        ("acls=['alice writ topic:orders']", "acls: 'writ' is none of "),
    ],
)
def test_what_makes_no_sense_is_said(pytester: pytest.Pytester, marker: str, reason: str) -> None:
    for fixture in ("kafka", "kafka_broker"):
        pytester.makepyfile(f"import pytest\n@pytest.mark.kafka_broker({marker})\ndef test_it({fixture}): pass\n")
        result = run(pytester)
        result.assert_outcomes(errors=1)
        assert reason in result.stdout.str()
        shown = "".join(result.outlines[result.outlines.index(" ERRORS ".center(80, "=")) :])
        assert "kcli/testing" not in shown, "no traceback"


def test_a_configuration_that_kafka_does_not_know_is_warned_of(pytester: pytest.Pytester) -> None:
    marker = "@pytest.mark.kafka_broker(config={'num.partitoins': 2, 'num.partitions': 2})"
    pytester.makepyfile(f"import pytest\n{marker}\ndef test_it(kafka): pass\n")
    result = run(pytester, "-Wdefault")
    result.assert_outcomes(passed=1, warnings=1)
    assert "num.partitoins: no configuration of Kafka 4.3" in result.stdout.str()


def test_a_broker_that_dies_is_back_for_the_next_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        SENDING
        + """
    import os, pytest, signal

    pytestmark = pytest.mark.kafka_broker(process="child", seed=["t"])

    def test_killed(kafka):
        send(kafka, "t", "a")
        kafka.kill()

    def test_died(kafka):
        assert kafka.values("t") == []
        os.kill(kafka.pid, signal.SIGKILL)

    def test_next(kafka):
        assert kafka.values("t") == []
    """
    )
    result = run(pytester)
    result.assert_outcomes(passed=3, errors=1)
    assert "the broker's process has ended, with status -9" in result.stdout.str()


def test_what_a_killed_run_left_is_removed(pytester: pytest.Pytester) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = pytester.path / "memory" / f"kcli-pytest-{gone.pid}-x"
    left.mkdir()
    (left / "file").touch()
    other = pytester.path / "memory" / "kcli-pytest-1-y"
    other.mkdir()
    pytester.makepyfile("def test_it(kafka): pass")
    run(pytester).assert_outcomes(passed=1)
    assert list(pytester.path.joinpath("memory").iterdir()) == [other]


def test_runs_without_it_load_nothing(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
    import sys

    def test_it():
        loaded = {each for each in sys.modules if each.split(".")[0] in ("kcli", "formats", "kio", "confluent_kafka")}
        assert loaded == {"kcli", "kcli.testing", "kcli.testing.plugin"}
    """
    )
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=1)


def test_assertions_of_kcli_are_not_rewritten(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        "import pytest\npytest.register_assert_rewrite('kcli', 'formats')  # as for an installed plugin\n"
    )
    pytester.makepyfile(
        """
    import sys

    def test_it(kafka):
        for each in ("kcli.broker.node", "kcli.log.live.partition_log"):
            assert type(sys.modules[each].__loader__).__name__ == "SourceFileLoader"
    """
    )
    pytester.runpytest_subprocess(*PLUGIN, "-W", "ignore").assert_outcomes(passed=1)


def test_the_entry_point_is_the_plugin() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert '[project.entry-points.pytest11]\nkcli = "kcli.testing.plugin"\n' in text


def test_pytest_imports_kcli_unchanged() -> None:
    """Its threads import modules, and two threads must not rewrite assertions at the same time."""
    import kcli.testing.kafka as imported

    assert type(imported.__spec__.loader).__name__ == "SourceFileLoader"
