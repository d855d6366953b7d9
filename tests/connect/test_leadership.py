"""KIP-618: the leader writes configurations in transactions, and another leader keeps it from that."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.client.log_appending import LogAppender
from kcli.client.wire import ErrorAnswer
from kcli.connect.engine.clients import become_producer
from kcli.connect.topics.configs import connector_record
from kcli.connect.worker.kafka_stores import NOT_BY_LEADER
from kcli.connect.worker.leadership import Leadership
from kcli.testing import Kafka
from tests.connect.calls import SOURCE
from tests.connect.running import running
from tests.connect.test_distributed import ask, done, properties, states, values


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with Kafka.started(config={"group.min.session.timeout.ms": "500"}) as kafka:
        yield kafka


def source(directory: Path) -> dict[str, str]:
    return {"connector.class": SOURCE, "file": str(directory / "in"), "topic": "lines"}


@pytest.mark.parametrize("support", ["preparing", "enabled"])
def test_a_leader_that_was_fenced(broker: Kafka, tmp_path: Path, support: str) -> None:
    """It writes nothing more; as the leader still, it may do so again after a heartbeat. What any worker writes is in
    no transaction."""
    client = {"bootstrap.servers": broker.bootstrap_servers}
    with running(tmp_path, properties(broker, support, {"exactly.once.source.support": support})) as worker:

        def put(name: str) -> tuple[int, Any]:
            return ask(worker, "PUT", f"/connectors/{name}/config", source(tmp_path))

        done("created", lambda: put("one")[0] == 201)
        done("running", lambda: states(worker, "one") == ["RUNNING", "RUNNING"])
        become_producer({**client, "transactional.id": f"connect-cluster-{support}"})
        assert put("two") == (500, {"error_code": 500, "message": NOT_BY_LEADER})
        assert ask(worker, "PUT", "/connectors/one/pause")[0] == 202
        done("paused", lambda: states(worker, "one") == ["PAUSED", "PAUSED"])
        assert ask(worker, "GET", "/connectors")[1] == ["one"]
        done("claimed again", lambda: put("two")[0] == 201)
        done("running", lambda: states(worker, "two") == ["RUNNING", "RUNNING"])
        assert {"connector-two", "commit-two", "target-state-one"} <= values(broker, f"{support}-config").keys()


def test_a_leader_without_exactly_once_support_has_no_transactions(broker: Kafka, tmp_path: Path) -> None:
    client = {"bootstrap.servers": broker.bootstrap_servers}
    with running(tmp_path, properties(broker, "plain")) as worker:
        become_producer({**client, "transactional.id": "connect-cluster-plain"})
        done("created", lambda: ask(worker, "PUT", "/connectors/one/config", source(tmp_path))[0] == 201)


def test_what_a_leader_has_left_open_is_aborted(broker: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one does not wait for it, and the late end of the transaction is refused."""
    more = properties(broker, "open", {"exactly.once.source.support": "enabled"})
    with running(tmp_path, more) as worker:
        done("leads", lambda: ask(worker, "PUT", "/connectors/one/config", source(tmp_path))[0] == 201)
    late = Leadership({"bootstrap.servers": broker.bootstrap_servers}, "open", "open-config")
    append, ends = LogAppender.append, iter([False])

    def stopped(self: LogAppender, batches: Any) -> Any:
        append(self, batches)
        for _ in ends:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(LogAppender, "append", stopped)
        with pytest.raises(KeyboardInterrupt):
            late.write([connector_record("late", source(tmp_path))])
    with running(tmp_path, more) as worker:
        done("leads", lambda: ask(worker, "PUT", "/connectors/two/config", source(tmp_path))[0] == 201)
        with pytest.raises(ErrorAnswer, match=r"FENCED|INVALID_PRODUCER_EPOCH"):
            late.write([connector_record("late", source(tmp_path))])
        assert sorted(ask(worker, "GET", "/connectors")[1]) == ["one", "two"]
