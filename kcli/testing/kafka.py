"""`Kafka`: one broker for a test, with its address and the operations of a test on it.

    with Kafka.started() as kafka:
        producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers)

The fixtures of the pytest plugin return objects of this class; a program without pytest uses `Kafka.started`.
"""

from __future__ import annotations

import shutil
import tempfile
import warnings
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
    from kcli.streams.topology.topology import Topology
    from kcli.testing.faults import Fault
    from kcli.testing.records import Record
    from kcli.testing.requests import Request
    from kcli.testing.security import Kind, Security
    from kcli.testing.streams import RunningStreams

T = TypeVar("T")
Process = Literal["thread", "child"]
LAST_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, the last year of Python's datetime; in ms since 1970."""
_REGISTRY, _SCHEMAS = "schema-registry", "_schemas"
FIXED = {"log.dir", "log.dirs", "metadata.log.dir", "listeners", "advertised.listeners"}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a broker at one time: a copy of its log directory.

    path: the copy. now_ms: the broker's time when the copy was made, in ms since 1970.
    """

    path: Path
    now_ms: int


class Clock:
    """The broker's clock. It runs at the speed of the system's clock, and a test can move it forward.

    All timers of the broker follow this clock (retention, session timeouts, rebalances, transactions, delayed
    deletions, waiting fetches, delays of fault rules, quotas), and so do the timestamps that the broker writes. The
    timers of clients and the timestamps of their records do not.
    """

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    def now_ms(self) -> int:
        """Return the broker's time in milliseconds since 1970."""
        now: int = self._kafka.host.call("now_ms")
        return now

    def now(self) -> datetime:
        """Return the broker's time, in UTC."""
        return datetime.fromtimestamp(self.now_ms() / 1000, UTC)

    def advance(
        self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0, ms: float = 0
    ) -> None:
        """Move the clock forward by the sum of the arguments; return when the broker has run all timers that fell due.

        The clock moves in at most 60 strides. Timers that fall due in a stride run before the next one begins; a
        periodic task runs once in a stride.

        Raises UsageError for a negative sum, a time beyond the year 9999, or an argument that is no number.
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
    """The fault rules of a broker: delays, errors and closed connections for the requests that match."""

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
        """Add a rule and return it. The first rule that matches a request and is not used up applies to it.

        api, topic, client_id: of the requests that match, None for any; api is Kafka's name ("Produce").
        skip: the number of matching requests that pass before the rule applies.
        count: the number of requests that it applies to, None for all.
        delay_ms: the delay before the request is handled, in milliseconds.
        error: the response has this error of Kafka ("NOT_LEADER_OR_FOLLOWER") at every topic, partition or group that
        the request names, and the request is not handled.
        drop: the connection is closed: "request" (or True) before the request is handled, "answer" after it.

        Raises ValueError for an API or error that Kafka does not have, a number out of range, a rule without delay_ms,
        error and drop, or one with both error and drop.
        """
        from kcli.testing.faults import Fault

        dropped = "request" if drop is True else None if drop is False else drop
        rule = Fault(0, api, topic, client_id, count, skip, delay_ms, error, dropped)
        added: Fault = self._kafka.host.call("add_fault", rule)
        return added

    def all(self) -> list[Fault]:
        """Return all rules in the order of `add`, used-up ones too, each with its `hits`."""
        rules: list[Fault] = self._kafka.host.call("faults")
        return rules

    def hits(self, fault: Fault) -> int:
        """Return how many requests a rule was applied to; 0 for a rule that was removed."""
        return next((each.hits for each in self.all() if each.id == fault.id), 0)

    def remove(self, fault: Fault) -> None:
        """Remove a rule, if it still exists. Raises UsageError for an object that is no Fault."""
        from kcli.testing.faults import Fault

        if not isinstance(fault, Fault):
            raise UsageError(f"{fault!r} is no fault rule: Faults.add makes one")
        self._kafka.host.call("remove_fault", fault.id)

    def clear(self) -> None:
        """Remove all rules."""
        self._kafka.host.call("clear_faults")


class Registry:
    """The schema registry of a broker, as `kcli serve --registry` runs it: started at the first use."""

    def __init__(self, kafka: Kafka) -> None:
        self._kafka = kafka

    @property
    def url(self) -> str:
        """The address for clients: "http://127.0.0.1:49153". It serves plain HTTP to everybody, also where the broker
        has security. Raises UsageError if the broker does not run."""
        url: str = self._kafka.host.call("start_registry", self._kafka.registry_client())
        return url


def _warn_of_unknown(config: Mapping[str, str]) -> None:
    """Warn of configuration names that Kafka does not know: the broker ignores them, as Kafka does."""
    from kcli.broker.config.names import is_known

    for name in config:
        if not is_known(name):
            warnings.warn(f"{name}: no configuration of Kafka 4.3", stacklevel=2)


class Kafka:
    """One broker, on a free port of 127.0.0.1. The constructor starts nothing: `started` yields a running one.

    faults: the fault rules. clock: the broker's clock. registry: its schema registry. config, process: the arguments of
    the constructor.
    """

    def __init__(
        self,
        root: Path,
        *,
        process: Process = "thread",
        config: Mapping[str, str] | None = None,
        security: Kind | None = None,
        authorized: bool = False,
    ) -> None:
        """root: a directory that only this object uses, for data and snapshots. process: "thread" runs the broker on a
        thread of this process, "child" in a process that can be killed. config: broker configurations, as in
        server.properties. security: how clients connect and log in, see kcli.testing.security; None for plain text.
        authorized: whether clients may do only what ACLs allow.

        Raises UsageError for a configuration of log directories or listeners, which this class sets itself. Warns of
        names that Kafka 4.3 does not know.
        """
        if fixed := sorted(FIXED & set(config or {})):
            raise UsageError(f"{', '.join(fixed)}: the broker's directory and address are not the test's to choose")
        _warn_of_unknown(config or {})
        self._security: Security | None = None
        secured: dict[str, str] = {}
        if security is not None:
            from kcli.testing.security import Security

            self._security = Security(security, root / "security")
            secured = self._security.properties()
        if authorized:
            from kcli.testing.security import authorizing

            secured |= authorizing()
        self.config = {**secured, **(config or {})}
        self.process = process
        self.faults = Faults(self)
        self.clock = Clock(self)
        self.registry = Registry(self)
        self._root = root
        self._host: Host | None = None
        self._address = ("127.0.0.1", 0)
        self._count = 0
        self._data_dir = self._new_path("data")

    @classmethod
    @contextmanager
    def started(
        cls,
        *,
        process: Process = "thread",
        config: Mapping[str, str] | None = None,
        seed: Any = None,
        security: Kind | None = None,
        acls: Sequence[str] | None = None,
    ) -> Iterator[Kafka]:
        """Yield a running broker in a temporary directory, which is removed at the end of the `with` block.

        process, config, security: as for the constructor. seed: as for `seed`. acls: as for `add_acls`; None: everybody
        may do everything. Raises UsageError, BadSeed, Refused.
        """
        root = Path(tempfile.mkdtemp(prefix="kafka-"))
        try:
            kafka = cls(root, process=process, config=config, security=security, authorized=acls is not None)
            try:
                kafka.start()
                kafka.add_acls(*(acls or ()))
                kafka.seed(seed)
                yield kafka
            finally:
                kafka.close()
        finally:
            shutil.rmtree(root, ignore_errors=True)

    def __repr__(self) -> str:
        return f"<Kafka {self.bootstrap_servers} {self.data_dir}>"

    # address, data and process

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients: "127.0.0.1:49152"."""
        return "{}:{}".format(*self._address)

    @property
    def data_dir(self) -> Path:
        """The broker's log directory."""
        return self._data_dir

    @property
    def pid(self) -> int:
        """The id of the process that the broker runs in. Raises UsageError if the broker does not run."""
        return self.host.pid

    @property
    def host(self) -> Host:
        """The thread or process that runs the broker. Raises UsageError if the broker does not run."""
        if self._host is None:
            raise UsageError("the broker is not running")
        return self._host

    @property
    def _protocol(self) -> str:
        return "PLAINTEXT" if self._security is None else self._security.protocol

    # clients and what they may do

    def client_config(
        self, library: Literal["kafka-python", "aiokafka", "confluent"], user: str | None = None
    ) -> dict[str, Any]:
        """Return what a client needs to connect: keyword arguments of kafka-python and aiokafka, properties of
        confluent-kafka.

        user: who connects, if the broker's security has users. A user who logs in by SCRAM is made at the first call.
        Raises UsageError for another library or one that is not installed, for a user if the broker has no users, and
        for none if it has users.
        """
        from kcli.testing.security import plain_config

        found = plain_config(library, self.bootstrap_servers)
        if self._security is None:
            if user is not None:
                raise UsageError("a broker without security has no users: @pytest.mark.kafka_broker(security=...)")
            return found
        found |= self._security.client_config(library, user)
        if user is not None and self._security.kind == "scram":
            self.host.call("add_user", user, self._security.password(user))
        return found

    def registry_client(self) -> dict[str, str]:
        """Return librdkafka's properties with which the schema registry connects to the broker. If the broker has
        security or an authorizer, the user `schema-registry` is made and allowed what a registry does."""
        user = None if self._security is None or self._security.kind == "tls" else _REGISTRY
        found = self.client_config("confluent", user)  # makes the user
        if user is not None and self._security is not None:
            found |= self._security.own_client(user)
            found.pop("oauth_cb", None)
        if self.config.get("authorizer.class.name"):
            resources = (f"topic:{_SCHEMAS}", f"group:{_REGISTRY}", f"transactional-id:{_REGISTRY}")
            self.add_acls(*(f"allow {user or 'ANONYMOUS'} all {each}" for each in resources))
        return {name: value for name, value in found.items() if name != "bootstrap.servers"}

    def add_acls(self, *acls: str) -> None:
        """Allow or deny users to do something: `alice read topic:orders`, `deny * write topic:audit*`.

        The words are `[allow|deny] USER OPERATION RESOURCE`; a name that ends with * is a prefix, * alone stands for
        every user, or every resource of the type. Raises UsageError; Refused if the broker has no authorizer.
        """
        if acls:
            from kcli.testing.security import parse_acl

            self.host.call("add_acls", [parse_acl(each) for each in acls])

    # start and stop

    def start(self) -> None:
        """Start the broker; after `stop` or `kill` with the same address and data. Return when it answers clients."""
        if self._host is None:
            self._host = self._new_host()
        self._address = self._host.call("start", self._data_dir, self._address[1], self.config, self._protocol)

    def _new_host(self) -> Host:
        return ChildHost() if self.process == "child" else ThreadHost()

    def stop(self) -> None:
        """Stop the broker by an orderly shutdown, if it runs. The request log, the fault rules and the clock stay as
        they are.

        Raises Gone if the broker's process has died.
        """
        if self._host is None:
            return
        try:
            self._host.call("stop")
        except Gone:
            self.close()
            raise

    def restart(self) -> None:
        """Stop the broker by an orderly shutdown and start it again, with the same address and data. Clients must
        reconnect."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Kill the broker's process with SIGKILL; `start` recovers its data.

        The request log, the fault rules and a moved clock are lost. Raises UsageError unless the process is "child".
        """
        if not isinstance(self._host, ChildHost):
            raise UsageError('only a broker in a child process can be killed: process="child"')
        self._host.kill()
        self._host = None

    def close(self) -> None:
        """Stop the broker and its thread or process for good; the data stays."""
        host, self._host = self._host, None
        if host is not None:
            host.close()

    # state

    def snapshot(self) -> Snapshot:
        """Copy the state of the running broker, for `restore`: topics, records, groups, transactions, configurations.

        Clients stay connected.
        """
        path = self._new_path("snapshot")
        path.mkdir(parents=True)
        now_ms = self.clock.now_ms()
        self.host.call("copy_to", path)
        return Snapshot(path / "0", now_ms)

    def restore(self, snapshot: Snapshot, *, port: int | None = None) -> None:
        """Replace the broker's state by a snapshot's. All connections are closed, the request log and the fault rules
        are cleared, and the clock is reset to the system's. port: the new port, 0 for a free one; None keeps the
        address.

        Raises UsageError for an object that is no Snapshot.
        """
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
        """Stop the broker by an orderly shutdown and return its log directory as a snapshot, which needs no recovery
        when it is restored; the broker's next start is in a new directory."""
        now_ms = self.clock.now_ms()
        self.stop()
        first, self._data_dir = self._data_dir, self._new_path("data")
        return Snapshot(first, now_ms)

    def remove(self) -> None:
        """Remove data and snapshots of a closed broker."""
        shutil.rmtree(self._root, ignore_errors=True)

    def _new_path(self, name: str) -> Path:
        self._count += 1
        return self._root / f"{name}-{self._count}"

    # topics and records

    def topics(self) -> list[str]:
        """Return the names of all topics, internal ones too."""
        names: list[str] = self.host.call("topics")
        return names

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, Any] | None = None) -> None:
        """Create a topic. config: the topic's configurations.

        Raises Refused, with Kafka's error, for a topic that exists or that Kafka would not create.
        """
        if name in self.topics():
            from kcli.testing.controls import Refused

            raise Refused(f"topic {name}: TOPIC_ALREADY_EXISTS: Topic '{name}' already exists.")
        self.seed({name: {"partitions": partitions, "config": config or {}}})

    def produce(self, topic: str, *records: Any) -> None:
        """Append records without a client, and create the topic if it does not exist.

        A record is a value (bytes, text, or anything that JSON can write), or a mapping with any of key, value,
        partition, timestamp_ms (milliseconds since 1970) and headers. Raises BadSeed, Refused.
        """
        known = len({each["partition_index"] for each in self._partitions(topic)}) or 1
        self.seed({topic: {"partitions": known, "records": records}})

    def _partitions(self, topic: str) -> Sequence[Any]:
        if topic not in self.topics():
            return ()
        found = self.call("Metadata", topics=[{"name": topic, "topic_id": None}], allow_auto_topic_creation=False)
        partitions: Sequence[Any] = found["topics"][0]["partitions"]
        return partitions

    def seed(self, seed: Any) -> None:
        """Create the topics and append the records of a seed: a mapping, a list of topic names, or the path of a YAML,
        JSON or TOML file.

        kcli.testing.seed describes its form. None does nothing.

        Raises BadSeed for a malformed seed, Refused with Kafka's error, NotInstalled for YAML without PyYAML.
        """
        if isinstance(seed, str | Path):
            seed = seeds.load(Path(seed))
        topics = seeds.parse(seed)
        if topics:
            self.host.call("seed", topics)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """Return the records of a topic, or of one of its partitions, below the high watermark, sorted by partition and
        offset.

        They are read from the logs without a client: records of open and aborted transactions are among them, control
        records are not. Raises Refused if there is no such topic or partition.
        """
        found: list[Record] = self.host.call("records", topic, partition)
        return found

    def values(self, topic: str) -> list[bytes | None]:
        """Return the values of a topic's records, which `records` returns."""
        return [each.value for each in self.records(topic)]

    # programs

    @contextmanager
    def streams(
        self,
        topology: Topology,
        *,
        application_id: str = "app",
        partitions: int = 1,
        user: str | None = None,
        **about: Any,
    ) -> Iterator[RunningStreams]:
        """Run a program of kcli.streams on a thread of this process in the `with` block; commit and end it behind that.

        Topics that the program reads or sends to are made with so many partitions, if they do not exist. user: as for
        `client_config`. about: further arguments of KafkaStreams. The group and the coordinator of its transactions
        give an instance up that was silent for a second. Raises what the program raises.
        """
        from kcli.client.connection import Connection
        from kcli.streams.local import KafkaStreams
        from kcli.streams.local.plan import topics_of
        from kcli.testing.streams import CLIENT_CONFIG, RunningStreams

        for topic in sorted(topics_of(topology) - set(self.topics())):
            self.create_topic(topic, partitions)
        properties = {**self.client_config("confluent", user), **CLIENT_CONFIG, **about.pop("client_config", {})}
        servers = properties.pop("bootstrap.servers")
        app = KafkaStreams(
            topology, application_id=application_id, bootstrap_servers=servers, client_config=properties, **about
        )
        running = RunningStreams(app, topology, application_id, Connection(servers, properties))
        try:
            yield running
        finally:
            running.close()

    # requests

    def requests(
        self, *, api: str | None = None, topic: str | None = None, client_id: str | None = None
    ) -> list[Request]:
        """Return the requests of clients so far, the last 100,000, in the order of their arrival.

        api ("Produce"), topic, client_id: of the requests to return, None for any.
        """
        found: list[Request] = self.host.call("requests", api, topic, client_id)
        return found

    def last_requests(self) -> list[Request]:
        """Return the requests that the broker still has, the last ones, for the report of a failed test; none if the
        broker does not run or its process has ended."""
        return self._unless_gone(self.requests)

    def last_faults(self) -> list[Fault]:
        """Return all fault rules for the report of a failed test; none if the broker does not run or its process has
        ended."""
        return self._unless_gone(self.faults.all)

    def _unless_gone(self, look: Callable[[], list[T]]) -> list[T]:
        try:
            return [] if self._host is None else look()
        except (KcliError, TimeoutError):
            return []

    def clear_requests(self) -> None:
        """Clear the request log: `requests` then returns only later ones."""
        self.host.call("clear_requests")

    def call(self, api: str, version: int | None = None, /, **fields: Any) -> dict[str, Any]:
        """Have the broker handle a request of Kafka's protocol without a connection, and return the response.

        api: Kafka's name. version: None for the newest. fields: the request's fields by kio's names, as plain values
        (`kafka.call("DescribeConfigs", resources=[...])`). The response is a dict of JSON values, with bytes in
        base64. Raises Refused for an API, version or field that does not exist. For Produce and Fetch use a
        client instead.
        """
        answer: dict[str, Any] = self.host.call("call", api, version, fields)
        return answer
