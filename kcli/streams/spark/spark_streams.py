"""SparkStreams: runs a topology as a query of Spark Structured Streaming.

    checks -> internal topics -> query: inputs -> tasks, which are its sink

Refused before anything is made: stores without a changelog, which are lost when another worker gets the task, and
punctuations by the clock; standbys; a program that cannot be sent to workers; an application whose group has members; a
checkpoint whose application has no offsets.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark import cloudpickle

from kcli.client.connection import Connection
from kcli.client.groups import Groups
from kcli.client.processing import delete_before
from kcli.export.stream import from_json
from kcli.pipelines.cluster import Cluster
from kcli.protocol.topic_partition import TopicPartition
from kcli.streams.config import STANDBYS, StreamsConfig, streams_config
from kcli.streams.errors import StreamsError, TopologyError
from kcli.streams.local.internal import set_up
from kcli.streams.local.plan import sub_topologies
from kcli.streams.spark.data_source import NAME, data_source
from kcli.streams.spark.inputs import input_options
from kcli.streams.spark.stages import feeds
from kcli.streams.spark.worker import Application, refusal_of_clock
from kcli.streams.topology.task import EMIT_INTERVAL_MS, Task
from kcli.streams.topology.topology import ProcessorNode, Topology, internal_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

COMMIT_INTERVAL_MS = 100
RECORDS_MAX = 250_000
IDLE_STATES = ("Empty", "Dead")
POLL_S = 0.2
STOP_S = 60.0
PURGE_INTERVAL_S = 30.0


class SparkStreams:
    """An application on Spark.

    application_id, bootstrap_servers, config, client_config: as for kcli.streams.local.KafkaStreams. checkpoint: the
    query's checkpoint, a directory or URL; a new one begins where the application's group has committed.
    commit_interval_ms: the time from the begin of a micro-batch to that of the next, at least. records_max: how many
    records a micro-batch has, about. emit_interval_ms: how long by the clock operators wait between two looks for
    windows that have closed.
    """

    def __init__(  # noqa: PLR0913 (one parameter a setting)
        self,
        topology: Topology,
        *,
        application_id: str,
        bootstrap_servers: str,
        checkpoint: str | Path,
        commit_interval_ms: int = COMMIT_INTERVAL_MS,
        records_max: int = RECORDS_MAX,
        emit_interval_ms: int = EMIT_INTERVAL_MS,
        config: Mapping[str, Any] | None = None,
        client_config: Mapping[str, str] | None = None,
    ) -> None:
        self._config = streams_config(config)
        self._topology, self._application_id = topology, application_id
        self._connection = Connection(bootstrap_servers, dict(client_config or {}))
        self._checkpoint = str(checkpoint)
        self._commit_interval_ms, self._records_max = commit_interval_ms, records_max
        self._emit_interval_ms = emit_interval_ms
        self._next_purge = time.monotonic() + PURGE_INTERVAL_S
        self._stop = threading.Event()

    def close(self) -> None:
        """Have `run` end after the micro-batch that runs. Any thread or signal handler may call this."""
        self._stop.set()

    def check(self) -> None:
        """Do what `run` does first: raise TopologyError and StreamsError for what Spark cannot run, before anything is
        made, and KcliError. Spark need not have been started."""
        refuse(self._topology, self._application_id, self._config)
        self._groups = Groups(self._connection)
        state = self._groups.group(self._application_id).state
        if state not in IDLE_STATES:
            raise StreamsError(f"{self._application_id} runs elsewhere: its group is {state}")
        checkpoint = Path(self._checkpoint)
        has_run = checkpoint.is_dir() and any(checkpoint.glob("commits/[0-9]*"))
        if has_run and not self._groups.committed(self._application_id):
            raise StreamsError(
                f"{checkpoint}: the checkpoint of an application that has been reset: begin with a new one"
            )

    def run(self, spark: SparkSession) -> None:
        """Run until `close` is called, in the thread that has started the session. Raises what `check` raises, and
        Spark's StreamingQueryException with the error of a task."""
        query = self._start(spark)
        try:
            while query.isActive and not self._stop.wait(POLL_S):
                self._purge(query)
            deadline = time.monotonic() + STOP_S
            while query.isActive and query.status["isTriggerActive"] and time.monotonic() < deadline:
                time.sleep(POLL_S / 10)
            if not query.isActive:
                query.awaitTermination()
        finally:
            query.stop()

    def _start(self, spark: SparkSession) -> StreamingQuery:
        self.check()
        committed = {place: found.offset for place, found in self._groups.committed(self._application_id).items()}
        plan = set_up(self._connection, self._topology, self._application_id, self._config)
        self._admin = self._connection.admin()
        topics = feeds(plan.sub_topologies)
        cluster = Cluster(self._connection.bootstrap, self._connection.properties)
        application = Application(
            self._topology,
            self._application_id,
            str(uuid4()),
            cluster,
            plan,
            self._emit_interval_ms,
            self._config.handlers,
        )
        start = {place: offset for place, offset in committed.items() if place.topic in topics}
        spark.dataSource.register(data_source(application, input_options(topics, start, self._records_max), topics))
        writer = spark.readStream.format(NAME).load().writeStream.format(NAME).queryName(self._application_id)
        writer = writer.option("checkpointLocation", self._checkpoint)
        return writer.trigger(processingTime=f"{self._commit_interval_ms} milliseconds").start()

    def _purge(self, query: StreamingQuery) -> None:
        """Delete what micro-batches that are complete have read of repartition topics."""
        if time.monotonic() < self._next_purge:
            return
        self._next_purge = time.monotonic() + PURGE_INTERVAL_S
        own = {internal_topic(self._application_id, topic) for topic in self._topology.internal_topics}
        delete_before(self._admin, {place: at for place, at in _begun(query).items() if place.topic in own})


def _begun(query: StreamingQuery) -> dict[TopicPartition, int]:
    """Return the offsets at which the last complete micro-batch has begun: no later one reads what is before."""
    progress: Any = query.lastProgress
    told = None if progress is None else progress["sources"][0]["startOffset"]
    found = json.loads(told) if isinstance(told, str) else told
    return from_json({topic: each for topic, each in (found or {}).items() if " " not in topic})


def refuse(topology: Topology, application_id: str, config: StreamsConfig) -> None:
    """Raise TopologyError for a program that Spark cannot run, with the processor or configuration that needs something
    else, StreamsError for one that cannot be sent to workers."""
    if config.standbys:
        raise TopologyError(f"{STANDBYS}: Spark's workers have no standbys: the local runner has")
    task = Task(topology, application_id, 0)
    task.start()
    if names := task.processors_with_clock:
        raise TopologyError(refusal_of_clock(names))
    for node, store in _unlogged(topology, application_id):
        raise TopologyError(
            f"{node} keeps the store {store} without a changelog, which is lost when another worker of Spark gets the "
            "task: the local runner runs the program"
        )
    try:
        cloudpickle.dumps((topology, config.handlers))  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001 (whatever the program's objects raise)
        raise StreamsError(f"the program cannot be sent to Spark's workers: {error}") from None


def _unlogged(topology: Topology, application_id: str) -> Iterator[tuple[str, str]]:
    for part in sub_topologies(topology, application_id):
        for name in sorted(part.names) if not part.is_global else ():
            node = topology.nodes[name]
            for store in node.stores if isinstance(node, ProcessorNode) else ():
                if not topology.stores[store].logging:
                    yield name, store
