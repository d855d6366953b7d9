"""TopologyTestDriver: runs a topology in a test, without brokers, threads or waiting.

A record that is piped in is processed at once, with all records in repartition topics that follow from it. Time stands
still unless the test advances it. Stores of the DSL have no cache: every change of a table is forwarded, as in Kafka
Streams with statestore.cache.max.bytes=0. Source: TopologyTestDriver, TestInputTopic, TestOutputTopic of Kafka's
streams/test-utils.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from kcli.streams.config import streams_config
from kcli.streams.errors import ProcessingError
from kcli.streams.records import Headers, ProducerRecord, Record
from kcli.streams.serdes import Serde
from kcli.streams.topology.input_queues import RawRecord
from kcli.streams.topology.stores.key_value import KeyValueStore
from kcli.streams.topology.stores.session import SessionStore
from kcli.streams.topology.stores.store import StateStore
from kcli.streams.topology.stores.versioned import VersionedKeyValueStore
from kcli.streams.topology.stores.window import WindowStore
from kcli.streams.topology.task import Task
from kcli.streams.topology.topology import Topology

K = TypeVar("K")
V = TypeVar("V")
S = TypeVar("S", bound=StateStore)


class TopologyTestDriver:
    """Runs a topology in one partition of each topic.

    application_id: the names of internal topics begin with it. now_ms: the time of the clock at the start, in
    milliseconds since 1970. emit_interval_ms: how long by the clock operators wait between two looks for windows that
    have closed; in Kafka Streams a second, but none in tests. config: by Kafka Streams' names, see kcli.streams.config.
    Use it as a context manager, or close it.
    """

    def __init__(
        self,
        topology: Topology,
        *,
        application_id: str = "test",
        now_ms: int = 0,
        emit_interval_ms: int = 0,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        handlers = streams_config(config).handlers
        self._task = Task(topology, application_id, now_ms, emit_interval_ms, handlers=handlers)
        self._task.start()
        self._offsets: dict[str, int] = {}
        self._outputs: dict[str, deque[ProducerRecord]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def create_input_topic(
        self, topic: str, key_serde: Serde[K], value_serde: Serde[V], *, start_ms: int = 0, auto_advance_ms: int = 0
    ) -> TestInputTopic[K, V]:
        """Return a TestInputTopic, which pipes records into a topic. start_ms: the timestamp of the first record that
        is piped without a timestamp. auto_advance_ms: how much later the next such record is."""
        return TestInputTopic(self, topic, (key_serde, value_serde), start_ms, auto_advance_ms)

    def create_output_topic(self, topic: str, key_serde: Serde[K], value_serde: Serde[V]) -> TestOutputTopic[K, V]:
        """Return a TestOutputTopic, which reads the records that the topology has sent to a topic."""
        return TestOutputTopic(self, topic, (key_serde, value_serde))

    def pipe(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers = ()) -> None:
        """Process a record of a topic, and all records that follow from it. Raises ProcessingError."""
        if not self._task.reads(topic):
            raise ProcessingError(f"the topology does not read the topic {topic}")
        self._add(topic, key, value, timestamp, headers)
        self._process_all()

    def advance_wall_clock_time(self, by_ms: int) -> None:
        """Advance the clock, and call the punctuators that are due."""
        self._task.now_ms += by_ms
        self._task.punctuate_wall_clock()
        self._task.commit()
        self._process_all()

    @property
    def stream_time_ms(self) -> int:
        """The highest timestamp of the records processed so far, -1 before the first."""
        return self._task.stream_time

    def outputs(self, topic: str) -> deque[ProducerRecord]:
        """Return the records that were sent to a topic and not read yet. The topic may be an internal one."""
        return self._outputs.setdefault(topic, deque())

    def produced_topic_names(self) -> set[str]:
        """Return the topics that records were sent to, internal ones included."""
        return {topic for topic, sent in self._outputs.items() if sent}

    def get_all_state_stores(self) -> dict[str, StateStore]:
        """Return all stores by their names."""
        return dict(self._task.stores)

    def get_key_value_store(self, name: str) -> KeyValueStore[Any, Any]:
        """Return a key-value store. Those of tables have ValueAndTimestamp as values. Raises ProcessingError."""
        return self._store(name, KeyValueStore)

    def get_versioned_key_value_store(self, name: str) -> VersionedKeyValueStore[Any, Any]:
        """Return a versioned key-value store. Raises ProcessingError."""
        return self._store(name, VersionedKeyValueStore)

    def get_window_store(self, name: str) -> WindowStore[Any, Any]:
        """Return a window store. Those of tables have ValueAndTimestamp as values. Raises ProcessingError."""
        return self._store(name, WindowStore)

    def get_session_store(self, name: str) -> SessionStore[Any, Any]:
        """Return a session store. Raises ProcessingError."""
        return self._store(name, SessionStore)

    def close(self) -> None:
        """Close the processors of the topology."""
        self._task.close()

    def _store(self, name: str, kind: type[S]) -> S:
        store = self._task.stores.get(name)
        if not isinstance(store, kind):
            found = "does not have it" if store is None else f"has a {type(store).__name__} of that name"
            raise ProcessingError(f"there is no {kind.__name__} {name}: the topology {found}")
        return store

    def _add(self, topic: str, key: bytes | None, value: bytes | None, timestamp: int, headers: Headers) -> None:
        offset = self._offsets.get(topic, 0)
        self._offsets[topic] = offset + 1
        self._task.add(RawRecord(topic, 0, offset, timestamp, key, value, headers))

    def _process_all(self) -> None:
        self._take_sent()
        while self._task.process():
            self._task.commit()
            self._take_sent()

    def _take_sent(self) -> None:
        sent, self._task.sent = self._task.sent, []
        for record in sent:
            self._outputs.setdefault(record.topic, deque()).append(record)
            if self._task.reads(record.topic):
                self._add(record.topic, record.key, record.value, record.timestamp, record.headers)


class TestInputTopic(Generic[K, V]):
    """Pipes records into a topic."""

    __test__ = False

    def __init__(
        self,
        driver: TopologyTestDriver,
        topic: str,
        serdes: tuple[Serde[K], Serde[V]],
        start_ms: int,
        auto_advance_ms: int,
    ) -> None:
        self._driver, self._topic = driver, topic
        self._key_serde, self._value_serde = serdes
        self._next_ms, self._auto_advance_ms = start_ms, auto_advance_ms

    def pipe_input(self, key: K | None, value: V | None, timestamp: int | None = None, headers: Headers = ()) -> None:
        """Process a record. timestamp: in milliseconds; a record without one gets the time of the TestInputTopic, which
        then advances. Raises ProcessingError."""
        if timestamp is None:
            timestamp = self._next_ms
            self._next_ms += self._auto_advance_ms
        data = self._key_serde.to_bytes(key), self._value_serde.to_bytes(value)
        self._driver.pipe(self._topic, *data, timestamp, headers)

    def pipe_records(self, records: Iterable[Record[K, V]]) -> None:
        """Process records, one after the other."""
        for record in records:
            self.pipe_input(record.key, record.value, record.timestamp, record.headers)

    def advance_time(self, by_ms: int) -> None:
        """Advance the time that the next record without a timestamp gets."""
        self._next_ms += by_ms


class TestOutputTopic(Generic[K, V]):
    """Reads the records that a topology has sent to a topic, each once."""

    __test__ = False

    def __init__(self, driver: TopologyTestDriver, topic: str, serdes: tuple[Serde[K], Serde[V]]) -> None:
        self._driver, self._topic = driver, topic
        self._key_serde, self._value_serde = serdes

    def read_record(self) -> Record[K | None, V | None]:
        """Return the next record. Raises ProcessingError if there is none."""
        waiting = self._driver.outputs(self._topic)
        if not waiting:
            raise ProcessingError(f"the topology has sent no more records to the topic {self._topic}")
        sent = waiting.popleft()
        key, value = self._key_serde.from_bytes(sent.key), self._value_serde.from_bytes(sent.value)
        return Record(key, value, sent.timestamp, sent.headers)

    def read_records(self) -> list[Record[K | None, V | None]]:
        """Return all records that were not read yet."""
        return [self.read_record() for _ in range(self.queue_size())]

    def read_key_values(self) -> list[tuple[K | None, V | None]]:
        """Return keys and values of all records that were not read yet."""
        return [(record.key, record.value) for record in self.read_records()]

    def read_key_values_to_map(self) -> dict[K | None, V | None]:
        """Return the last value of each key of all records that were not read yet."""
        return dict(self.read_key_values())

    def queue_size(self) -> int:
        """Return how many records were not read yet."""
        return len(self._driver.outputs(self._topic))

    def is_empty(self) -> bool:
        """Whether all records were read."""
        return self.queue_size() == 0
