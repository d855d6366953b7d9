"""The brokers of a test run: shared brokers, one for each configuration that tests ask for, and brokers of a single
test.

A shared broker is a host (a thread or a process, see host.py) and a snapshot of the broker's state before the first
test. For each test a node starts on a copy of the snapshot, at a new port, so that a client which an earlier test left
running cannot reach the node. Data is in shared memory if there is room: there a file is created in microseconds; on a
disk, creating files takes most of the time of making the copy.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from kcli.errors import KcliError, UsageError
from kcli.testing import snapshot
from kcli.testing.kafka import Kafka, Process, Snapshot
from kcli.testing.plugin import KEEP, KEPT, MARKER, PROCESSES, USED

if TYPE_CHECKING:
    from kcli.testing.security import Kind

SHOWN_REQUESTS, SHOWN_LOGS = 15, 5
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (a directory of our own is made in it)
ROOM_BYTES = 1 << 30
PREFIX = "kcli-pytest-"
WANTS = {"acls", "config", "process", "security", "seed"}


@dataclass(frozen=True)
class BrokerSpec:
    """The broker that a test asks for. config: broker configurations. process: "thread" or "child". seed: the first
    topics and records, as for `Kafka.seed`. security: how clients connect, None for plain text. acls: what users may
    do, None if everybody may do everything."""

    config: Mapping[str, str]
    process: Process
    seed: Any
    security: Kind | None
    acls: tuple[str, ...] | None

    @property
    def key(self) -> str:
        """A text that is equal for tests that can share a broker."""
        wanted = [sorted(self.config.items()), self.process, self.seed, self.security, self.acls]
        return json.dumps(wanted, sort_keys=True, default=repr)

    def prepare(self, kafka: Kafka) -> None:
        """Bring a broker that was just started into the state before the first test: its ACLs and its seed."""
        kafka.add_acls(*(self.acls or ()))
        kafka.seed(self.seed)


class Brokers:
    """The brokers of a test run. They decide whose data is kept after a test."""

    def __init__(self, config: pytest.Config) -> None:
        _leave_asserts_alone(config)
        self._config = config
        self._shared: dict[str, tuple[Kafka, Snapshot]] = {}
        self._count = 0
        self._keep = config.getoption("--kafka-keep") or config.getini("kafka_keep")
        if self._keep not in KEEP:
            raise pytest.UsageError(f"kafka_keep: {self._keep}: it is one of {', '.join(KEEP)}")
        self._home = _home(config)

    def shared(self, node: pytest.Item) -> Iterator[Kafka]:
        """Yield the shared broker that a test asks for, restored to its state before the first test; stop it after the
        test."""
        with _without_traceback(node):
            spec = self._spec_of(node)
            if spec.key not in self._shared:
                self._shared[spec.key] = self._first_state(spec)
            kafka, first = self._shared[spec.key]
            kafka.restore(first, port=0)
        _begin(node, kafka)
        yield kafka
        try:
            kafka.stop()
        finally:
            self._keep_data(node, kafka)

    def _first_state(self, spec: BrokerSpec) -> tuple[Kafka, Snapshot]:
        kafka = self._new(spec)
        kafka.start()
        spec.prepare(kafka)
        return kafka, kafka.snapshot_stopped()

    def own(self, node: Any) -> Iterator[Kafka]:
        """Yield a new broker for `node`, which is a test or the session, and remove the broker at its end."""
        with _without_traceback(node):
            spec = self._spec_of(node)
            kafka = self._new(spec)
        try:
            with _without_traceback(node):
                kafka.start()
                spec.prepare(kafka)
            _begin(node, kafka)
            yield kafka
        finally:
            kafka.close()
            self._keep_data(node, kafka)
            kafka.remove()

    def _new(self, spec: BrokerSpec) -> Kafka:
        self._count += 1
        root = self._home / str(self._count)
        root.mkdir()
        return Kafka(
            root,
            process=spec.process,
            config=spec.config,
            security=spec.security,
            authorized=spec.acls is not None,
        )

    # data that is kept for analysis

    def failed(self, node: pytest.Item | pytest.Session) -> str:
        """Return the text for the report of a failed test, and mark the broker's data to be kept, unless kafka_keep is
        none."""
        kafka = node.stash[USED]
        kept = None if self._keep == "none" else self._kept_path(node)
        return describe(kafka, kept)

    def _kept_path(self, node: pytest.Item | pytest.Session) -> Path:
        """Return the directory for the data of the test's broker, chosen at the first call, which also marks the data
        to be kept."""
        if KEPT not in node.stash:
            factory = cast("pytest.TempPathFactory", self._config._tmp_path_factory)  # type: ignore[attr-defined]  # noqa: SLF001 (where the tmp_path fixture has its factory)
            node.stash[KEPT] = factory.mktemp("kafka", numbered=True) / "data"
        return node.stash[KEPT]

    def _keep_data(self, node: pytest.Item | pytest.Session, kafka: Kafka) -> None:
        """Copy the data of a stopped broker to the directory of `_kept_path`, if it is marked to be kept or kafka_keep
        is all."""
        if self._keep == "all":
            self._kept_path(node)
        if KEPT in node.stash:
            snapshot.copy_tree(kafka.data_dir, node.stash[KEPT])

    def _spec_of(self, node: Any) -> BrokerSpec:
        """Return the broker that a test asks for: by ini file and command line, overridden by the test's markers, of
        which the nearest overrides the others. Raises UsageError."""
        config = self._config
        process = config.getoption("--kafka-process") or config.getini("kafka_process")
        entries = dict(_entry(each) for each in config.getini("kafka_config"))
        seed: Any = config.getini("kafka_seed") or None
        if seed is not None:
            seed = str(config.rootpath / seed)
        security, acls = None, None
        for marker in reversed(list(node.iter_markers(MARKER))):
            if marker.args or not set(marker.kwargs) <= WANTS:
                raise UsageError(f"@pytest.mark.{MARKER} takes {', '.join(sorted(WANTS))}, by name")
            entries |= {name: _text(value) for name, value in (marker.kwargs.get("config") or {}).items()}
            process = marker.kwargs.get("process") or process
            security = marker.kwargs.get("security", security)
            acls = marker.kwargs.get("acls", acls)
            if isinstance(acls, str):
                raise UsageError(f'acls={acls!r}: a list of texts: ["alice read topic:orders"]')
            seed = marker.kwargs.get("seed", seed)
            if isinstance(seed, str | Path):
                seed = str(node.path.parent / seed)
        if process not in PROCESSES:
            raise UsageError(f"{process}: a broker runs on a thread or in a child process: thread, child")
        return BrokerSpec(entries, process, seed, security, None if acls is None else tuple(acls))

    def close(self) -> None:
        """Close all shared brokers and remove the data of the run."""
        for kafka, _ in self._shared.values():
            kafka.close()
        self._shared.clear()
        snapshot.remove_tree(self._home)


def _begin(node: Any, kafka: Kafka) -> None:
    """Note the broker of a test that begins. A test may run again after a failure: each run's data is kept apart."""
    node.stash[USED] = kafka
    if KEPT in node.stash:
        del node.stash[KEPT]


@contextmanager
def _without_traceback(node: Any) -> Iterator[None]:
    """A context in which an error of kcli, such as a mistake in a marker, fails the test with one line in place of a
    traceback."""
    try:
        yield
    except KcliError as error:
        pytest.fail(f"{node.nodeid or 'kafka_session'}: {error}", pytrace=False)


def _leave_asserts_alone(config: pytest.Config) -> None:
    """Exclude kcli and formats from pytest's assertion rewriting, which pytest does for every package with a plugin.

    Without cached bytecode, rewriting the 100 modules takes a second of every run.
    """
    marked: set[str] = getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", set())
    marked -= {"kcli", "formats"}


def _home(config: pytest.Config) -> Path:
    """Return a new directory for the data of this run's brokers; remove the directories of runs that were killed."""
    directory = config.getini("kafka_data")
    if directory:
        base = config.rootpath / directory
    else:
        base = SHARED_MEMORY if _has_room(SHARED_MEMORY) else Path(tempfile.gettempdir())
    for old in base.glob(f"{PREFIX}*-*"):
        pid = old.name.removeprefix(PREFIX).partition("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists() and Path("/proc").exists():
            snapshot.remove_tree(old)
    return Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=base))


def _has_room(path: Path) -> bool:
    try:
        status = os.statvfs(path)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize >= ROOM_BYTES and os.access(path, os.W_OK)


def _entry(line: str) -> tuple[str, str]:
    name, equals, value = line.partition("=")
    if not equals:
        raise UsageError(f"kafka_config: {line}: expected name=value")
    return name.strip(), value.strip()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def describe(kafka: Kafka, kept: Path | None) -> str:
    """Return the report on the broker of a failed test: data directory, commands to look at the data, fault rules, most
    recent requests.

    kept: the directory where the data will be kept, None if it is not kept.
    """
    lines = []
    if kept is not None:
        path = shlex.quote(str(kept))
        lines += [f"data directory: {kept}", f"  kcli verify {path}", f"  kcli serve --read-only --data-dir {path}"]
        logs = sorted(kafka.data_dir.glob("*-*/*.log"))
        logs = [each for each in logs if each.stat().st_size and not each.parent.name.startswith("_")]
        shown = [shlex.quote(str(kept / each.relative_to(kafka.data_dir))) for each in logs[:SHOWN_LOGS]]
        lines += [f"  kcli dump-segment {each}" for each in shown]
    faults = kafka.last_faults()
    if faults:
        lines.append("fault rules:")
        lines += [f"  {each}{'  used up' if each.is_used_up else ''}" for each in faults]
    requests = kafka.last_requests()
    if requests:
        lines.append(f"last of {len(requests):,} requests:")
        lines += [f"  {each}" for each in requests[-SHOWN_REQUESTS:]]
    return "\n".join(lines)
