"""What every test shares: the golden data (see golden/README.md) and real Kafka, where the machine has it."""

import atexit
import gc
import gzip
import json
import os
import signal
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir

TESTS = Path(__file__).parent
GOLDEN = TESTS / "golden"
SAMPLES = Path(__file__).parents[1] / "samples"
BY_THE_CLOCK = {
    "broker",
    "chaos",
    "cli",
    "client",
    "connect",
    "export",
    "interop",
    "launcher",
    "pipelines",
    "streams",
    "test_docs.py",
    "testing",
}
LONGEST = (
    "cli/test_pipe.py",
    "streams/test_kills.py",
    "interop/test_live_source_kafka.py",
    "interop/test_backup_kafka.py",
    "streams/test_spark.py",
    "interop/test_groups_kafka.py",
    "pipelines/test_kills.py",
    "connect/test_worker_killed.py",
    "connect/test_sinks_killed.py",
    "interop/test_cluster_handover_kafka.py",
    "interop/test_secured_cluster_kafka.py",
    "interop/test_cluster_tools_kafka.py",
    "interop/test_handover_kafka.py",
    "interop/test_groups_handover_kafka.py",
    "export/test_cluster.py",
    "export/test_stream_spark.py",
    "broker/test_kill.py",
    "sim/cluster/test_cluster.py",
    "export/test_class_archive.py",
    "test_sanitize.py",
    "test_docs.py",
    "cli/test_cluster.py",
)
"""Test files that take 20 s or more by themselves. They run first: one that began last would leave the other processes
without work."""
TOGETHER = {
    "export/test_stream_spark.py": (
        "export/test_source.py",
        "export/test_spark_job.py",
        "export/test_table_upserts.py",
        "export/test_tiered.py",
        "pipelines/test_live_spark.py",
        "pipelines/test_sink_spark.py",
    ),
    "cli/test_cluster.py": (
        "cli/test_consume.py",
        "cli/test_groups.py",
        "cli/test_produce.py",
        "cli/test_topics.py",
        "cli/test_transactions.py",
        "client/test_consuming.py",
        "client/test_groups.py",
        "client/test_partitioner.py",
    ),
}
"""Test files that share a session's JVM, one of Spark or one of Kafka: they run in the process of the first."""
WAITING_WORKERS = 3
collect_ignore = ["golden"]
"""Hundreds of directories without a test."""
FIRST_PORT, PORTS_PER_WORKER = 22_000, 500  # below those that Linux gives to clients

Json = dict[str, Any]


def examples(usual: int, *, soak: int) -> settings:
    """Settings for a test with slow examples: their number, and the number in `make soak`."""
    return settings(max_examples=soak if is_soak() else usual)


def is_soak() -> bool:
    """Whether this is `make soak`."""
    return settings().max_examples >= SOAK_EXAMPLES


# not in the directory to which a test has changed when Hypothesis first writes
set_hypothesis_home_dir(Path(__file__).parents[1] / ".hypothesis")
# No deadline: a busy machine is not a failure. `make soak` looks fifty times further.
SOAK_EXAMPLES = 5_000
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("soak", settings.get_profile("default"), max_examples=SOAK_EXAMPLES)
settings.load_profile("default")


def read_jsonl(path: Path) -> Iterator[Json]:
    """Return the objects of a .jsonl or .jsonl.gz file, one a line."""
    data = path.read_bytes()
    for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines():
        yield json.loads(line)


def dump_runs(golden_set: str) -> Iterator[Json]:
    """Every saved run of kafka-dump-log of one golden set ("codecs"): dicts with `file` (relative to the set), `flags`,
    `exit`, `stdout` and, where it was not empty, `stderr`."""
    expected = GOLDEN / golden_set / "expected"
    for path in [*sorted((expected / "dump").rglob("*.jsonl.gz")), *expected.glob("dump.jsonl.gz")]:
        yield from read_jsonl(path)


def truth(path: str) -> list[Json]:
    """The records of a truth file, below golden ("codecs/expected/truth/mixed.jsonl.gz"), as a consumer read them:
    topic, partition, offset, timestamp, timestamp_type, key and value (base64 or null), headers, leader_epoch."""
    return list(read_jsonl(GOLDEN / path))


def files_below(root: Path) -> dict[str, tuple[int, int]]:
    """Return path below the root -> size in bytes and time of the last change in ns, of every file."""
    return {
        path.relative_to(root).as_posix(): ((stat := path.stat()).st_size, stat.st_mtime_ns)
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="session", autouse=True)
def data_unchanged() -> Iterator[None]:
    """No test writes to the golden data or the samples. Real kafka-dump-log does: it makes missing index files."""
    before = files_below(GOLDEN) | files_below(SAMPLES)
    yield
    assert files_below(GOLDEN) | files_below(SAMPLES) == before


@pytest.fixture(scope="module", autouse=True)
def nothing_left_open() -> Iterator[None]:
    """What tests leave open is told in their own module, not where the garbage happens to be collected."""
    yield
    gc.collect()


@pytest.fixture(scope="session", autouse=True)
def ports_of_our_own(worker_id: str) -> None:
    """Brokers that several workers start at the same time look for free ports in different ranges."""
    worker = int(worker_id.removeprefix("gw")) if worker_id.startswith("gw") else 0
    os.environ.setdefault("KAFKA_KIT_PORT", str(FIRST_PORT + worker * PORTS_PER_WORKER))


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--update-transcripts`: see tests/transcript.py."""
    parser.addoption("--update-transcripts", action="store_true", help="write all transcripts as they come out now")


def pytest_xdist_auto_num_workers() -> int:
    """Processes of `pytest -n auto`: three more than cores, for tests of brokers and clusters wait: for an
    election, a session that times out, a process that starts."""
    return (os.cpu_count() or 1) + WAITING_WORKERS


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Of `--dist loadfile`: no more long files at once than there are processes besides the cores."""
    if config.getoption("dist") != "loadfile":
        return None
    from tests.scheduling import FileScheduling

    runs_with = {f"tests/{name}": f"tests/{first}" for first, names in TOGETHER.items() for name in names}
    return FileScheduling(config, log, is_long, WAITING_WORKERS, runs_with)


def is_long(file: str) -> bool:
    """Whether a test file ("tests/interop/test_kit.py") is one of the longest, or starts real Kafka."""
    name = file.removeprefix("tests/")
    return name in LONGEST or name.startswith("interop/")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect without garbage collections, which would visit all tests again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


# or duckdb would find its objects left over; not before pytest has made its last collections
atexit.register(gc.unfreeze)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest tests first. Mark those that run real Kafka, so that `-m kafka` and `-m 'not kafka'` choose them.

    Kafka's controller answers before its broker knows, its coordinators before their markers are written: a test that
    lost such a race runs again, up to twice. So does, once, a test of ours that runs processes and clients by the
    clock: on a machine that is busy with others something may come too late. The summary counts both (`rerun`), which
    wants to be looked into; `-p no:rerunfailures` has no such mercy. What has no clock never runs again."""
    longest = {TESTS / name: place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: longest.get(item.path, len(longest)))
    for item in items:
        if isinstance(item, pytest.Function) and "kafka_jars" in item.fixturenames:
            item.add_marker("kafka")
        if item.get_closest_marker("kafka") is not None:
            item.add_marker(pytest.mark.flaky(reruns=2))
        elif _is_by_the_clock(item.path):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Ignore resource warnings when a failed test runs again: what its first run left open, such as the sockets of its
    traceback, must not fail it. Give it its time again: pytest-timeout's clock runs once for all runs of a test."""
    if getattr(item, "execution_count", 1) > 1:
        _give_time(item)
        for left in (ResourceWarning, pytest.PytestUnraisableExceptionWarning):
            warnings.simplefilter("ignore", left)


def _give_time(item: pytest.Item) -> None:
    marker = item.get_closest_marker("timeout")
    seconds = float(item.config.getini("timeout") if marker is None else marker.args[0])

    def late(*_: object) -> None:
        pytest.fail(f"it has run again for more than {seconds:g} s")

    signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)  # pytest-timeout ends it with the test


@cache
def _is_by_the_clock(path: Path) -> bool:
    return path.is_relative_to(TESTS) and path.relative_to(TESTS).parts[0] in BY_THE_CLOCK
