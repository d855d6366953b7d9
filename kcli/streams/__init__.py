"""Streams: programs that turn topics into topics, with tables, joins and windows, as Kafka Streams does.

    StreamsBuilder -> KStream, KTable ... -> Topology -> Task -> records for topics and changelogs

    builder                       where a program begins
    kstream, grouped_stream       streams, and their records by key and window
    cogrouped                     groups of several streams, aggregated into one table
    ktable, grouped_table         tables, and their rows by another key
    graph, context, windowing     the steps of a program before they are a topology
    serdes, windows, suppressed   the arguments of steps
    schemas                       serdes with the schemas of a registry
    records, errors               the records that processors get, and the errors
    config                        the configuration of an application, by Kafka Streams' names
    topology                      nodes, operators and stores, without I/O and clock: begin with topology.task
    testing                       TopologyTestDriver, which runs a topology in a test
    local, spark                  run a topology on Kafka: as a member of a group, or as a query of Spark

The names are those of Kafka Streams in Python's spelling; the fields of its configuration objects (Named, Materialized,
Grouped, Consumed, Produced, Joined) are keyword arguments here.
"""

from kcli.streams.builder import StreamsBuilder
from kcli.streams.errors import ProcessingError, SerializationError, StreamsError, TopologyError
from kcli.streams.grouped_stream import (
    CogroupedKStream,
    KGroupedStream,
    SessionWindowedCogroupedKStream,
    SessionWindowedKStream,
    TimeWindowedCogroupedKStream,
    TimeWindowedKStream,
)
from kcli.streams.grouped_table import KGroupedTable
from kcli.streams.kstream import BranchedKStream, KStream
from kcli.streams.ktable import GlobalKTable, KTable
from kcli.streams.records import Record, ValueAndTimestamp, VersionedRecord
from kcli.streams.serdes import BYTES, DOUBLE, INTEGER, JSON, LONG, STRING, Serde, session_windowed, time_windowed
from kcli.streams.suppressed import Suppressed
from kcli.streams.testing import TopologyTestDriver
from kcli.streams.topology.error_handlers import ErrorContext, ErrorHandlers, Response, dead_letter
from kcli.streams.topology.operators.window_aggregate import EmitStrategy
from kcli.streams.topology.processor import Processor, ProcessorContext, PunctuationType
from kcli.streams.topology.stores.key_value import KeyValueStoreBuilder
from kcli.streams.topology.stores.session import SessionStoreBuilder
from kcli.streams.topology.stores.versioned import VersionedKeyValueStoreBuilder
from kcli.streams.topology.stores.window import WindowStoreBuilder
from kcli.streams.topology.topology import Topology
from kcli.streams.windows import JoinWindows, SessionWindows, SlidingWindows, TimeWindows, Window, Windowed

__all__ = [
    "BYTES",
    "DOUBLE",
    "INTEGER",
    "JSON",
    "LONG",
    "STRING",
    "BranchedKStream",
    "CogroupedKStream",
    "EmitStrategy",
    "ErrorContext",
    "ErrorHandlers",
    "GlobalKTable",
    "JoinWindows",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KeyValueStoreBuilder",
    "ProcessingError",
    "Processor",
    "ProcessorContext",
    "PunctuationType",
    "Record",
    "Response",
    "Serde",
    "SerializationError",
    "SessionStoreBuilder",
    "SessionWindowedCogroupedKStream",
    "SessionWindowedKStream",
    "SessionWindows",
    "SlidingWindows",
    "StreamsBuilder",
    "StreamsError",
    "Suppressed",
    "TimeWindowedCogroupedKStream",
    "TimeWindowedKStream",
    "TimeWindows",
    "Topology",
    "TopologyError",
    "TopologyTestDriver",
    "ValueAndTimestamp",
    "VersionedKeyValueStoreBuilder",
    "VersionedRecord",
    "Window",
    "WindowStoreBuilder",
    "Windowed",
    "dead_letter",
    "session_windowed",
    "time_windowed",
]
