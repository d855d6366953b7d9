"""The ends of a pipe, and the checkpoint that goes with them."""

from __future__ import annotations

import errno
import json
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import MagicMock

import pytest

from kcli.errors import UnreadableInput, UsageError
from kcli.export.commit import Busy
from kcli.export.session import SparkSettings
from kcli.pipelines.pipe import to_topic
from kcli.pipelines.pipe.ends import LogEnd, TableEnd, TopicEnd, parse_end
from kcli.pipelines.pipe.plan import Checkpoint, identity
from kcli.pipelines.pipe.to_topic import LogOrigin, TopicPipe
from kcli.testing.kafka import Kafka
from tests.pipelines.test_live_batch import delete_topic
from tests.pipelines.test_live_stream import add_partitions

ENDS = {"source": "a", "target": "b"}


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("kafka://a:9092/t", TopicEnd("a:9092", "t")),
        ("kafka://a:9092,[::1]:9093/t.x_y-1", TopicEnd("a:9092,[::1]:9093", "t.x_y-1")),
        ("log:/var/lib/kafka/orders", LogEnd("/var/lib/kafka", "orders")),
        ("log:data/orders", LogEnd(str(Path("data").absolute()), "orders")),
        ("log:/orders", LogEnd("/", "orders")),
        ("log:s3://bucket/logs/orders", LogEnd("s3://bucket/logs", "orders")),
        ("iceberg:/lake/orders", TableEnd("iceberg", Path("/lake/orders"))),
        ("delta:orders", TableEnd("delta", Path("orders").absolute())),
    ],
)
def test_ends(text: str, end: object) -> None:
    assert parse_end(text, {}) == end
    if not isinstance(end, LogEnd) or "s3:" not in text:
        assert parse_end(str(end), {}) == end


@pytest.mark.parametrize(
    "text",
    ["", "orders", "kafka:a:9092/t", "kafka://a/t", "kafka://a:9092", "kafka://a:9092/", "kafka://a:9092/a/b", "log:t",
     "kafka://a:9092/t$", "kafka://a:9092/..", "log:/x/", "delta:", "mysql://x/y", "kafka://:9092/t"],
)  # fmt: skip
def test_no_ends(text: str) -> None:
    with pytest.raises(UsageError, match=r"is no end of a pipe|names no topic"):
        parse_end(text, {})


def test_no_port() -> None:
    with pytest.raises(UsageError, match="kafka://a:9092,b:65536/t: b:65536 has no port from 0 to 65535"):
        parse_end("kafka://a:9092,b:65536/t", {})


def test_ends_elsewhere() -> None:
    with pytest.raises(UsageError, match="a table is in a directory of this machine"):
        parse_end("delta:s3://bucket/orders", {})
    with pytest.raises(UsageError, match="client properties are for kafka"):
        parse_end("delta:orders", {"ssl.truststore.location": "x"})


def test_properties_are_not_shown() -> None:
    end = parse_end("kafka://a:9092/t", {"sasl.jaas.config": "secret"})
    assert isinstance(end, TopicEnd)
    assert end.options == {"kafka.bootstrap.servers": "a:9092", "kafka.sasl.jaas.config": "secret"}
    assert "secret" not in f"{end} {end!r}"


def test_the_identity_of_a_topic(kafka: Kafka) -> None:
    kafka.create_topic("t")
    end = TopicEnd(kafka.bootstrap_servers, "t")
    known = identity(end)
    assert known == identity(end)
    delete_topic(kafka, "t")
    with pytest.raises(UsageError, match="no topic 't' in"):
        identity(end)
    kafka.create_topic("t")
    assert identity(end) != known


def test_a_checkpoint_that_a_full_disk_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", full)
        with pytest.raises(UsageError, match=rf"--checkpoint {tmp_path} cannot be made \(No space left on device\)"):
            Checkpoint(tmp_path, ENDS).make()
    assert [*tmp_path.iterdir()]
    again = Checkpoint(tmp_path, ENDS)
    assert again.is_new
    again.make()
    assert not Checkpoint(tmp_path, ENDS).is_new


def test_a_checkpoint_in_an_impossible_place(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    directory = tmp_path / "file" / "checkpoint"
    with pytest.raises(UsageError, match=rf"--checkpoint {directory} cannot be made \(.+\): give a directory that"):
        Checkpoint(directory, ENDS).make()


def test_a_checkpoint(tmp_path: Path) -> None:
    directory = tmp_path / "checkpoint"
    made = Checkpoint(directory, ENDS)
    assert made.is_new
    assert made.offsets() is None
    assert not directory.exists()
    made.make()
    again = Checkpoint(directory, ENDS)
    assert not again.is_new
    for name in ("offsets", "commits"):
        (again.spark / name).mkdir(parents=True)
    for i in range(12):
        (again.spark / f"offsets/{i}").write_text(f'v1\n{{}}\n{{"t":{{"0":{i}}}}}')
    assert again.offsets() is None
    for i in range(11):
        (again.spark / f"commits/{i}").touch()
        (again.spark / f"commits/.{i}.crc").touch()
    assert again.offsets() == {"t": {"0": 10}}
    (again.spark / "offsets/10").write_text("v1\n")
    with pytest.raises(UnreadableInput, match="offsets/10: no offsets of a query"):
        again.offsets()
    with pytest.raises(UsageError, match="is the checkpoint of another pipe: its target is b, not c"):
        Checkpoint(directory, {**ENDS, "target": "c"})


def test_two_pipes_with_one_checkpoint(tmp_path: Path) -> None:
    first, second = (Checkpoint(tmp_path / "checkpoint", ENDS) for _ in range(2))
    for each in (first, second):
        each.make()
    with first.locked():
        with pytest.raises(Busy, match="checkpoint: another pipe is running with this checkpoint"), second.locked():
            pass
        with pytest.raises(Busy), second.locked():
            pass
    with second.locked():
        pass


def test_a_pipe_whose_checkpoint_is_in_use(kafka: Kafka, tmp_path: Path) -> None:
    source, target = (TopicEnd(kafka.bootstrap_servers, topic) for topic in "tu")
    kafka.seed({"t": 1, "u": 1})
    pipe = TopicPipe(LogOrigin(source, {}), target, tmp_path / "checkpoint")
    other = Checkpoint(tmp_path / "checkpoint", {"source": identity(source), "target": identity(target)})
    other.make()
    with other.locked(), pytest.raises(Busy, match="another pipe is running with this checkpoint"):
        pipe.run(SparkSettings(), lambda _: None, None)


def test_no_checkpoints(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="file is no directory"):
        Checkpoint(tmp_path / "file", ENDS)
    with pytest.raises(UsageError, match="is not empty, and no checkpoint of a pipe"):
        Checkpoint(tmp_path, ENDS)
    (tmp_path / "pipe.json").write_text("{")
    with pytest.raises(UnreadableInput, match=r"pipe\.json: not of a pipe"):
        Checkpoint(tmp_path, ENDS)
    (tmp_path / "pipe.json").write_text(json.dumps([]))
    with pytest.raises(UsageError, match="is the checkpoint of another pipe"):
        Checkpoint(tmp_path, ENDS)


def test_a_target_with_fewer_partitions(kafka: Kafka, tmp_path: Path) -> None:
    """It is refused before anything is written, whether or not the partitions that it lacks have records."""
    kafka.seed({"t": 4, "u": 2})
    source, target = (TopicEnd(kafka.bootstrap_servers, topic) for topic in "tu")
    pipe = TopicPipe(LogOrigin(source, {}), target, tmp_path / "checkpoint", keeps_partitions=True)
    for _ in range(2):
        with pytest.raises(UsageError) as raised:
            pipe.plan()
        assert str(raised.value) == (
            f"--keep-partitions: {source} has partitions up to 3, {target} only up to 1: kcli topics alter u "
            f"--partitions 4 --bootstrap-server {target.bootstrap}, and then the same command"
        )
        kafka.produce("t", "x")
    assert TopicPipe(LogOrigin(source, {}), target, tmp_path / "checkpoint").plan().unread == 2
    add_partitions(kafka, "u", 4)
    assert pipe.plan().unread == 2


def test_a_source_that_gets_partitions_meanwhile(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that fails is told by what is missing; with enough partitions by its own error."""
    kafka.seed({"t": 1, "u": 1})
    source, target = (TopicEnd(kafka.bootstrap_servers, topic) for topic in "tu")
    pipe = TopicPipe(LogOrigin(source, {}), target, tmp_path / "checkpoint", keeps_partitions=True)
    assert pipe.plan().unread == 0

    def failed(*_: object) -> None:
        raise RuntimeError("a task failed")

    monkeypatch.setattr(to_topic, "spark_session", lambda _: nullcontext(MagicMock()))
    monkeypatch.setattr(to_topic, "_watched", failed)
    with pytest.raises(RuntimeError, match="a task failed"):
        pipe.run(SparkSettings(), lambda _: None, None)
    add_partitions(kafka, "t", 3)
    with pytest.raises(UsageError, match="kcli topics alter u --partitions 3 --bootstrap-server"):
        pipe.run(SparkSettings(), lambda _: None, None)
