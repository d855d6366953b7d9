"""The brokers of a test run: shared ones by what tests want of them, and those of a test's own.

A shared broker is a host and a snapshot of its first state. Each test gets a copy of the snapshot and a node started on
it, at a port of its own: what an earlier test left running cannot find it. Data is in shared memory where there is
room: making a file takes microseconds there, on a disk that is most of the time of a restore.
"""

from __future__ import annotations

import json
import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest

from kcli.testing import snapshot
from kcli.testing.kafka import Kafka, Process, Snapshot
from kcli.testing.plugin import KEEP, KEPT, MARKER, PROCESSES, USED

SHOWN_REQUESTS, SHOWN_LOGS = 15, 5
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (a directory of our own is made in it)
ROOM_BYTES = 1 << 30
PREFIX = "kcli-pytest-"
WANTS = {"config", "process", "seed"}


@dataclass(frozen=True)
class Wanted:
    """What a test wants of its broker."""

    config: Mapping[str, str]
    process: Process
    seed: Any

    @property
    def key(self) -> str:
        """The same for tests that can share a broker."""
        return json.dumps([sorted(self.config.items()), self.process, self.seed], sort_keys=True, default=repr)


class Brokers:
    """See above."""

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
        """A test's Kafka, put back to its first state."""
        wanted = self._wanted(node)
        if wanted.key not in self._shared:
            self._shared[wanted.key] = self._first_state(wanted)
        kafka, first = self._shared[wanted.key]
        kafka.restore(first, port=0)
        node.stash[USED] = kafka
        yield kafka
        try:
            kafka.stop()
        finally:
            self._keep_data(node, kafka)

    def _first_state(self, wanted: Wanted) -> tuple[Kafka, Snapshot]:
        kafka = self._new(wanted)
        kafka.start()
        kafka.seed(wanted.seed)
        return kafka, kafka.snapshot_stopped()

    def own(self, node: Any) -> Iterator[Kafka]:
        """A new Kafka for a test, or for the run."""
        wanted = self._wanted(node)
        kafka = self._new(wanted)
        try:
            kafka.start()
            kafka.seed(wanted.seed)
            node.stash[USED] = kafka
            yield kafka
        finally:
            kafka.close()
            self._keep_data(node, kafka)
            kafka.remove()

    def _new(self, wanted: Wanted) -> Kafka:
        self._count += 1
        root = self._home / str(self._count)
        root.mkdir()
        return Kafka(root, process=wanted.process, config=wanted.config)

    # what is kept

    def failed(self, node: pytest.Item | pytest.Session) -> str:
        """A test has failed. Returns what its report says."""
        kafka = node.stash[USED]
        kept = None if self._keep == "none" else self._kept_path(node)
        return describe(kafka, kept)

    def _kept_path(self, node: pytest.Item | pytest.Session) -> Path:
        """Where the data goes."""
        if KEPT not in node.stash:
            factory = cast("pytest.TempPathFactory", self._config._tmp_path_factory)  # type: ignore[attr-defined]  # noqa: SLF001
            node.stash[KEPT] = factory.mktemp("kafka", numbered=True) / "data"
        return node.stash[KEPT]

    def _keep_data(self, node: pytest.Item | pytest.Session, kafka: Kafka) -> None:
        """Copy the data of a stopped broker to where the report says that it is."""
        if self._keep == "all":
            self._kept_path(node)
        if KEPT in node.stash:
            snapshot.copy_tree(kafka.data_dir, node.stash[KEPT])

    def _wanted(self, node: Any) -> Wanted:
        """The ini file's and the command line's, then those of the marker that is nearest."""
        config = self._config
        process = config.getoption("--kafka-process") or config.getini("kafka_process")
        entries = dict(_entry(each) for each in config.getini("kafka_config"))
        seed: Any = config.getini("kafka_seed") or None
        if seed is not None:
            seed = str(config.rootpath / seed)
        for marker in reversed(list(node.iter_markers(MARKER))):
            if marker.args or not set(marker.kwargs) <= WANTS:
                raise pytest.UsageError(
                    f"{node.nodeid}: @pytest.mark.{MARKER} takes {', '.join(sorted(WANTS))}, by name"
                )
            entries |= {name: _text(value) for name, value in (marker.kwargs.get("config") or {}).items()}
            process = marker.kwargs.get("process") or process
            seed = marker.kwargs.get("seed", seed)
            if isinstance(seed, str | Path):
                seed = str(node.path.parent / seed)
        if process not in PROCESSES:
            raise pytest.UsageError(f"{process}: a broker runs on a thread or in a child process: thread, child")
        return Wanted(entries, process, seed)

    def close(self) -> None:
        """End all shared brokers."""
        for kafka, _ in self._shared.values():
            kafka.close()
        self._shared.clear()
        snapshot.remove_tree(self._home)


def _leave_asserts_alone(config: pytest.Config) -> None:
    """pytest rewrites the assertions of every package that brings a plugin: 100 modules of kcli, whose assertions are
    none of a test's business, for a second wherever no bytecode is written."""
    marked: set[str] = getattr(config.pluginmanager.rewrite_hook, "_must_rewrite", set())
    marked -= {"kcli", "formats"}


def _home(config: pytest.Config) -> Path:
    """A directory for the data of this run's brokers. Those that runs left which were killed are removed."""
    wanted = config.getini("kafka_data")
    if wanted:
        base = config.rootpath / wanted
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
        raise pytest.UsageError(f"kafka_config: {line}: name=value is wanted")
    return name.strip(), value.strip()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def describe(kafka: Kafka, kept: Path | None) -> str:
    """For the report of a failed test: where its data will be and how to look into it, fault rules, last requests."""
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
