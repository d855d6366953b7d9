"""Kafka, as a test holds it: `Kafka` is one broker, with its address and whatever can be done to it.

    with Kafka.started() as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

The pytest plugin makes them; without pytest they work too.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from kcli.errors import KcliError, UsageError
from kcli.testing import seed as seeds
from kcli.testing import snapshot as copies
from kcli.testing.host import ChildHost, Gone, Host, ThreadHost

if TYPE_CHECKING:
    from kcli.testing.faults import Fault
    from kcli.testing.records import Record
    from kcli.testing.requests import Request

T = TypeVar("T")
Process = Literal["thread", "child"]
LAST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, which is the last that Python's times have."""
FIXED = {"log.dir", "log.dirs", "metadata.log.dir", "listeners", "advertised.listeners"}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a broker at one time: a copy of its log directory. now_ms: the broker's clock then."""

    path: Path
    now_ms: int


class Clock:
    """The broker's time, which passes as everywhere, and which the test can move forward.

    What follows it: timers of the broker (retention, sessions, rebalances, transactions, delayed deletions, fetches
    that wait, delays of fault rules, quotas) and the times that it writes. What does not: timers of clients, and the
    timestamps that they give their records.
    """

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    def now_ms(self) -> int:
        """Milliseconds since 1970."""
        now: int = self._kafka.host.call("now_ms")
        return now

    def now(self) -> datetime:
        """The same, in UTC."""
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, ms: float = 0
    ) -> None:
        """Move it forward, and wait until the broker has done all that falls due on the way.

        It goes in 60 strides: what a stride sets off is done before the next, what is periodic happens once a stride.

        Raises UsageError for a step back, for one beyond the year 9999, and for what is no number.
        """
        for name, value in {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds, "ms": ms}.items():
            if not isinstance(value, int | float):
                raise UsageError(f"{name}={value!r} is no number")
        delta_ms = (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000 + ms
        if not delta_ms >= 0:
            raise UsageError(f"time goes forward, not by {delta_ms:,} ms; a restored snapshot is how to go back")
        if self.now_ms() + delta_ms > LAST_MS:
            raise UsageError(f"time ends with the year 9999; {delta_ms:,} ms from now is later")
        self._kafka.host.call("advance", delta_ms)


class Faults:
    """Rules by which the broker misbehaves."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    def add(
        self,
        *,
        api: str | None = None,
        topic: str | None = None,
        client_id: str | None = None,
        count: int | None = None,
        skip: int = 0,
        delay_ms: float = 0,
        error: str | None = None,
        drop: bool | Literal["request", "answer"] = False,
    ) -> Fault:
        """Add a rule; the first that fits a request takes it.

        api ("Produce"), topic, client_id: which requests, None for any; count: how many of them, None for all; skip:
        let so many pass first. delay_ms: answer so much later. error: answer with that error of Kafka's
        ("NOT_LEADER_OR_FOLLOWER"), which it tells for all that the request names. drop: close the connection; "request"
        (or True) before anything is done, "answer" after it.

        Raises ValueError.
        """
        from kcli.testing.faults import Fault

        what = "request" if drop is True else None if drop is False else drop
        wanted = Fault(0, api, topic, client_id, count, skip, delay_ms, error, what)
        added: Fault = self._kafka.host.call("add_fault", wanted)
        return added

    def all(self) -> list[Fault]:
        """The rules, each with its `hits`."""
        rules: list[Fault] = self._kafka.host.call("faults")
        return rules

    def hits(self, fault: Fault) -> int:
        """How many requests a rule was applied to so far."""
        return next((each.hits for each in self.all() if each.id == fault.id), 0)

    def remove(self, fault: Fault) -> None:
        """Take a rule away. Raises UsageError for what is none."""
        from kcli.testing.faults import Fault

        if not isinstance(fault, Fault):
            raise UsageError(f"{fault!r} is no fault rule: Faults.add makes one")
        self._kafka.host.call("remove_fault", fault.id)

    def clear(self) -> None:
        """Take all rules away."""
        self._kafka.host.call("clear_faults")


class Kafka:
    """One broker. Its constructor starts nothing: see `started`."""

    def __init__(self, root: Path, *, process: Process = "thread", config: Mapping[str, str] | None = None) -> None:
        """root: a directory of its own, for data and snapshots; config: as in server.properties.

        Raises UsageError for configurations of what is the kit's own.
        """
        if fixed := sorted(FIXED & set(config or {})):
            raise UsageError(f"{', '.join(fixed)}: the broker's directory and address are not the test's to choose")
        self.config = dict(config or {})
        self.process = process
        self.faults = Faults(self)
        self.clock = Clock(self)
        self._root = root
        self._host: Host | None = None
        self._address = ("127.0.0.1", 0)
        self._count = 0
        self._data_dir = self._new_path("data")

    @classmethod
    @contextmanager
    def started(
        cls, *, process: Process = "thread", config: Mapping[str, str] | None = None, seed: Any = None
    ) -> Iterator[Kafka]:
        """A new broker in a temporary directory, which is removed with it."""
        root = Path(tempfile.mkdtemp(prefix="kafka-"))
        kafka = cls(root, process=process, config=config)
        try:
            kafka.start()
            kafka.seed(seed)
            yield kafka
        finally:
            kafka.close()
            shutil.rmtree(root, ignore_errors=True)

    def __repr__(self) -> str:
        return f"<Kafka {self.bootstrap_servers} {self.data_dir}>"

    # where it is

    @property
    def bootstrap_servers(self) -> str:
        """What clients take: "127.0.0.1:49152"."""
        return "{}:{}".format(*self._address)

    @property
    def data_dir(self) -> Path:
        """Its log directory."""
        return self._data_dir

    @property
    def pid(self) -> int:
        """The process it runs in."""
        return self.host.pid

    @property
    def host(self) -> Host:
        """Where it runs. Raises UsageError when it is closed."""
        if self._host is None:
            raise UsageError("the broker is not running")
        return self._host

    # life

    def start(self) -> None:
        """Start it, after `stop` or `kill` with the same address and directory."""
        if self._host is None:
            self._host = self._new_host()
        self._address = self._host.call("start", self._data_dir, self._address[1], self.config)

    def _new_host(self) -> Host:
        return ChildHost() if self.process == "child" else ThreadHost()

    def stop(self) -> None:
        """Stop it in order, if it runs; requests, rules and clock stay. Raises Gone where its process has died."""
        if self._host is None:
            return
        try:
            self._host.call("stop")
        except Gone:
            self.close()
            raise

    def restart(self) -> None:
        """Stop it in order and start it again. Clients have to reconnect."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kill -9; needs process="child". Requests, rules and a moved clock go with it."""
        if not isinstance(self._host, ChildHost):
            raise UsageError('only a broker in a child process can be killed: process="child"')
        self._host.kill()
        self._host = None

    def close(self) -> None:
        """Stop it for good."""
        host, self._host = self._host, None
        if host is not None:
            host.close()

    # state

    def snapshot(self) -> Snapshot:
        """Take a copy of the running broker, for `restore`. Clients notice nothing."""
        path = self._new_path("snapshot")
        path.mkdir(parents=True)
        now_ms = self.clock.now_ms()
        self.host.call("copy_to", path)
        return Snapshot(path / "0", now_ms)

    def restore(self, snapshot: Snapshot, *, port: int | None = None) -> None:
        """Go back to a snapshot: topics, records, groups, configurations. Requests and fault rules are forgotten, the
        clock is the system's again. Connections are closed, the address stays, unless another port is wanted (0: a free
        one)."""
        if not isinstance(snapshot, Snapshot):
            raise UsageError(f"{snapshot!r} is no snapshot: Kafka.snapshot takes one")
        with suppress(Gone):
            self.stop()
        if self._host is not None:
            self._host.call("reset")
        gone, self._data_dir = self._data_dir, self._new_path("data")
        copies.copy_tree(snapshot.path, self._data_dir)
        copies.remove_tree(gone)
        self._address = self._address[0], self._address[1] if port is None else port
        self.start()

    def snapshot_stopped(self) -> Snapshot:
        """Stop it in order, its log directory is the snapshot: what is restored from it has nothing to recover."""
        now_ms = self.clock.now_ms()
        self.stop()
        first, self._data_dir = self._data_dir, self._new_path("data")
        return Snapshot(first, now_ms)

    def remove(self) -> None:
        """Remove all its directories. For one that is closed."""
        shutil.rmtree(self._root, ignore_errors=True)

    def _new_path(self, name: str) -> Path:
        self._count += 1
        return self._root / f"{name}-{self._count}"

    # topics and records

    def topics(self) -> list[str]:
        """The names of all topics."""
        names: list[str] = self.host.call("topics")
        return names

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, Any] | None = None) -> None:
        """Make a topic that is not there yet. Raises Refused, with Kafka's error."""
        if name in self.topics():
            from kcli.testing.controls import Refused

            raise Refused(f"topic {name}: TOPIC_ALREADY_EXISTS: Topic '{name}' already exists.")
        self.seed({name: {"partitions": partitions, "config": config or {}}})

    def produce(self, topic: str, *records: Any) -> None:
        """Append records to a topic, which is made if it is not there. A record is a value, or a mapping of key, value,
        partition, timestamp_ms and headers, see seed.py."""
        known = len({each["partition_index"] for each in self._partitions(topic)}) or 1
        self.seed({topic: {"partitions": known, "records": records}})

    def _partitions(self, topic: str) -> Sequence[Any]:
        if topic not in self.topics():
            return ()
        found = self.call("Metadata", topics=[{"name": topic, "topic_id": None}], allow_auto_topic_creation=False)
        partitions: Sequence[Any] = found["topics"][0]["partitions"]
        return partitions

    def seed(self, seed: Any) -> None:
        """Make topics and append records, from a mapping, or the path of a YAML, JSON or TOML file; see seed.py.

        Raises BadSeed, Refused.
        """
        if isinstance(seed, str | Path):
            seed = seeds.load(Path(seed))
        topics = seeds.parse(seed)
        if topics:
            self.host.call("seed", topics)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """The records of a topic, by partition and offset, read from its logs without a client. Raises Refused."""
        found: list[Record] = self.host.call("records", topic, partition)
        return found

    def values(self, topic: str) -> list[bytes | None]:
        """The values of a topic's records."""
        return [each.value for each in self.records(topic)]

    # requests

    def requests(
        self, *, api: str | None = None, topic: str | None = None, client_id: str | None = None
    ) -> list[Request]:
        """What clients have asked so far, in order; None fits any. `kafka.requests(api="Produce", topic="orders")`."""
        found: list[Request] = self.host.call("requests", api, topic, client_id)
        return found

    def last_requests(self) -> list[Request]:
        """All requests, or none where the broker is gone."""
        return self._unless_gone(self.requests)

    def last_faults(self) -> list[Fault]:
        """All fault rules, or none where the broker is gone."""
        return self._unless_gone(self.faults.all)

    def _unless_gone(self, look: Callable[[], list[T]]) -> list[T]:
        try:
            return [] if self._host is None else look()
        except (KcliError, TimeoutError):
            return []

    def clear_requests(self) -> None:
        """Forget them, to look at those that come from now on."""
        self.host.call("clear_requests")

    def call(self, api: str, version: int | None = None, /, **fields: Any) -> dict[str, Any]:
        """Ask the broker something in the protocol's own words, without a connection: field names as kio has them
        (`kafka.call("DescribeConfigs", resources=[...])`). Not for Produce and Fetch. Returns the answer as
        JSON has it. Raises Refused."""
        answer: dict[str, Any] = self.host.call("call", api, version, fields)
        return answer
