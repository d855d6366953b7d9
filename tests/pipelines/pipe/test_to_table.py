"""Pipes of live brokers into tables, without Spark."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any, cast

import pytest

from kcli.client.wire import NobodyAnswers
from kcli.errors import UsageError
from kcli.export.decoding import DecoderSpec
from kcli.export.export_options import RAW, ExportOptions
from kcli.export.outcome import Outcome
from kcli.export.splits import DataLoss
from kcli.export.table_writer import TableFormat
from kcli.pipelines.pipe.plan import PipeProgress
from kcli.pipelines.pipe.to_table import TablePipe
from kcli.pipelines.source import live_options
from kcli.pipelines.tables.job import TableJob
from kcli.pipelines.tables.live import LiveTableJob
from kcli.schema_client.errors import RegistryError
from kcli.testing.kafka import Kafka
from tests.export.decoding.test_registry import RegistryServer
from tests.export.in_process import InProcess
from tests.pipelines.tables.places import COLUMNS, Place
from tests.pipelines.tables.places import source as source_of
from tests.pipelines.test_bootstrap import history, numbered
from tests.pipelines.test_live_batch import delete_records, delete_topic


def job(kafka: Kafka, place: Place, **options: str) -> LiveTableJob:
    return decoding(kafka, place, RAW, options)


def decoding(kafka: Kafka, place: Place, value: DecoderSpec, options: Mapping[str, str] | None = None) -> LiveTableJob:
    given = {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        "subscribe": "t",
        "columns": COLUMNS,
        **(options or {}),
    }
    live = live_options(given)
    assert live is not None
    source, cluster = live
    form = TableFormat(is_whole=place.kind != "delta")
    given_options = ExportOptions(source, place.out, form, value=value)
    return LiveTableJob(given_options, cluster, place.table(), InProcess())  # type: ignore[arg-type]


def pipe(kafka: Kafka, place: Place, **options: str) -> Outcome:
    return job(kafka, place, **options).run()


def test_what_is_new(kafka: Kafka, place: Place) -> None:
    kafka.create_topic("t", 2)
    kafka.produce("t", *({"value": f"{i}", "partition": i % 2} for i in range(10)))
    assert job(kafka, place).unread() == [(("t", 0), 0, 5), (("t", 1), 0, 5)]
    assert pipe(kafka, place).records == 10
    assert job(kafka, place).unread() == []
    assert pipe(kafka, place).records == 0
    kafka.produce("t", {"value": "late", "partition": 1})
    assert job(kafka, place).unread() == [(("t", 1), 5, 6)]
    assert pipe(kafka, place).records == 1
    assert place.offsets() == [*((0, i) for i in range(5)), *((1, i) for i in range(6))]


def test_the_plan_writes_nothing(kafka: Kafka, plain_place: Place) -> None:
    numbered(kafka, 1)
    job(kafka, plain_place).unread()
    assert not plain_place.out.exists()
    assert not [each for each in plain_place.out.parent.iterdir() if each.name.startswith(".out")]


ORDER = b"\0\0\0\0\1\x02\x02a"
"""The id 1, of a schema of SCHEMAS, and an order."""


@pytest.mark.parametrize("source", ["topic", "log directory"])
@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (None, None),
        ((401, b'{"error_code": 401, "message": "Unauthorized"}'), "/schemas/ids/1 answers 401 Unauthorized"),
        ((403, b"no"), "/schemas/ids/1 answers 403 Forbidden"),
        ("stopped", "the schema registry .* does not answer: Connection refused"),
    ],
)
def test_the_plan_asks_the_registry_as_the_job_does(
    kafka: Kafka,
    plain_place: Place,
    server: RegistryServer,
    source: str,
    failure: tuple[int, bytes] | str | None,
    reason: str | None,
) -> None:
    """For the schema of the first record that has one, in whichever partition, and before Spark starts."""
    kafka.create_topic("t", 2)
    kafka.produce("t", {"value": None, "partition": 0}, *({"value": ORDER, "partition": 1} for _ in range(3)))
    url = server.url
    if isinstance(failure, tuple):
        server.failures += [failure] * 9
    elif failure:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{free.getsockname()[1]}"
    spec = DecoderSpec.parse(f"avro:{url}")
    made: TableJob = decoding(kafka, plain_place, spec)
    if source == "log directory":
        given = ExportOptions(source_of(kafka.data_dir, subscribe="t"), plain_place.out, TableFormat(), value=spec)
        made = TableJob(given, plain_place.table(), InProcess())  # type: ignore[arg-type]
    if reason is None:
        assert made.unread() == [(("t", 0), 0, 1), (("t", 1), 0, 3)]
        assert server.asked == ["/schemas/ids/1"]
        return
    told = []
    for work in (made.unread, made.run):
        with pytest.raises(RegistryError, match=reason) as raised:
            work()
        told.append(str(raised.value))
    assert told[0] == told[1]
    assert not plain_place.out.exists()


def test_a_plan_without_new_records_asks_no_registry(kafka: Kafka, plain_place: Place, server: RegistryServer) -> None:
    """Nor does the job."""
    kafka.create_topic("t")
    assert decoding(kafka, plain_place, DecoderSpec.parse(f"avro:{server.url}")).unread() == []
    assert server.asked == []
    with pytest.raises(UsageError, match="not a registry's URL"):
        decoding(kafka, plain_place, DecoderSpec.parse("avro:ftp://registry")).unread()


def test_from_a_disk_to_the_brokers(kafka: Kafka, place: Place, tmp_path: Path) -> None:
    disk = history(kafka, tmp_path / "disk")
    assert pipe(kafka, place, bootstrapFrom=disk).records == 15
    numbered(kafka, 15)
    shutil.rmtree(tmp_path / "disk")
    assert pipe(kafka, place).records == 1
    assert place.offsets() == [(0, i) for i in range(16)]


@pytest.mark.parametrize("runs", [0, 1])
def test_a_broker_that_goes_away(runs: int, kafka: Kafka, plain_place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe that follows waits for it, as streams do; the first run tells at once."""
    numbered(kafka, 1)
    table_pipe = TablePipe("t", "out", lambda *_: job(kafka, plain_place), orders=False)
    spark: Any = InProcess()
    none = PipeProgress(0, 0, 0.0, 0)
    kafka.stop()
    monkeypatch.setattr("kcli.pipelines.pipe.to_table.RETRY_S", 0)
    tries = iter([None, None, kafka.start])
    once = table_pipe._once

    def counted(*arguments: Any) -> PipeProgress:
        if (start := next(tries)) is not None:
            start()
        return once(*arguments)

    monkeypatch.setattr(table_pipe, "_once", counted)
    if runs:
        assert table_pipe._patiently(spark, none, lambda _: None, runs).records == 1
        assert plain_place.offsets() == [(0, 0)]
    else:
        with pytest.raises(NobodyAnswers):
            table_pipe._patiently(spark, none, lambda _: None, runs)
        assert next(tries) is None


def followed(kafka: Kafka, place: Place) -> Callable[[], PipeProgress]:
    """A function that runs the next export of a pipe that follows."""
    table_pipe = TablePipe("t", "out", lambda *_: job(kafka, place), orders=False)
    runs, spark = count(), cast("Any", InProcess())
    return lambda: table_pipe._patiently(spark, PipeProgress(0, 0, 0.0, 0), lambda _: None, next(runs))


def test_a_table_that_is_dropped_between_two_runs(kafka: Kafka, plain_place: Place) -> None:
    """A pipe that follows says so; it does not begin again with what the topic still has."""
    kafka.create_topic("t")
    run = followed(kafka, plain_place)
    assert run().records == 0
    numbered(kafka, *range(4))
    assert run().records == 4
    numbered(kafka, 4)
    assert run().records == 1
    shutil.rmtree(plain_place.out)
    with pytest.raises(UsageError, match=r"the .* table .* was dropped meanwhile: the same command makes a new one"):
        run()
    assert not plain_place.out.exists()
    assert followed(kafka, plain_place)().records == 5


def test_somebody_else_commits_meanwhile(
    kafka: Kafka, plain_place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that follows repeats the export, also if the other writer was a second pipe of the same topic."""
    monkeypatch.setattr("kcli.pipelines.pipe.to_table.RETRY_S", 0)
    run = followed(kafka, plain_place)
    numbered(kafka, *range(4))
    run()
    numbered(kafka, 4, 5)
    table = type(plain_place.table())
    append, others = table.append, iter([True])

    def second(self: Any, files: Any, reached: Any) -> None:
        if next(others, False):
            shutil.move(tmp_path / ".out.kcli", tmp_path / "held")  # as if on another machine
            pipe(kafka, plain_place)
            shutil.rmtree(tmp_path / ".out.kcli", ignore_errors=True)
            shutil.move(tmp_path / "held", tmp_path / ".out.kcli")
            numbered(kafka, 6)
        append(self, files, reached)

    monkeypatch.setattr(table, "append", second)
    assert run().records == 1
    assert plain_place.offsets() == [(0, i) for i in range(7)]


def test_offsets_that_are_gone(kafka: Kafka, plain_place: Place) -> None:
    numbered(kafka, *range(4))
    pipe(kafka, plain_place)
    numbered(kafka, *range(4, 10))
    delete_records(kafka, "t", 7)
    with pytest.raises(DataLoss, match="t-0: offset 4 is gone, the log starts at 7"):
        pipe(kafka, plain_place)
    outcome = pipe(kafka, plain_place, failOnDataLoss="false")
    assert (outcome.records, outcome.lost) == (3, (("t", 0, 4, 6),))


def test_another_topic_of_the_name(kafka: Kafka, plain_place: Place) -> None:
    numbered(kafka, *range(4))
    pipe(kafka, plain_place)
    delete_topic(kafka, "t")
    with pytest.raises(UsageError, match="no topic 't'"):
        pipe(kafka, plain_place)
    for numbers in ([1], range(6)):  # shorter than the topic before, and longer
        numbered(kafka, *numbers)
        with pytest.raises(UsageError, match=r"the topic t was deleted and made anew: .* table .* has records of the"):
            job(kafka, plain_place).unread()
        with pytest.raises(UsageError, match=r"the topic t was deleted and made anew"):
            pipe(kafka, plain_place)
    assert plain_place.offsets() == [(0, i) for i in range(4)]
