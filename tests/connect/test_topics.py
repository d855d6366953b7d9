"""Records of Connect's topics: Kafka's bytes, and the state that replay makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcli.connect.plugins import TaskId
from kcli.connect.topics import configs, offsets, statuses
from kcli.connect.topics.configs import ConfigState, TargetState
from kcli.connect.topics.json_values import Record
from kcli.connect.topics.statuses import State, Status, StatusState, connector_status_record, task_status_record
from kcli.java.hashing import murmur2

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "topics.jsonl").read_text().splitlines()]
"""Records that a real worker of Kafka 4.3 wrote while tests/connect/record.py ran: topic, partition, key, value."""


def written_again(key: str, value: str) -> Record:
    """Return the record that kcli writes for what a record of Kafka's says."""
    fields = json.loads(value)
    match key.split("-", 1):
        case ["connector", name]:
            return configs.connector_record(name, fields["properties"])
        case ["task", name]:
            (record,) = configs.task_records(name.rpartition("-")[0], [fields["properties"]])
            return record
        case ["commit", name]:
            return configs.commit_record(name, fields["tasks"])
        case ["target", name]:
            return configs.target_state_record(name.removeprefix("state-"), TargetState(fields["state.v2"]))
        case ["restart", name]:
            request = configs.Restart(name.removeprefix("connector-"), fields["only-failed"], fields["include-tasks"])
            return configs.restart_record(request)
        case ["logger", name]:
            return configs.logger_record(name.removeprefix("cluster-"), fields["level"])
        case ["session", _]:
            state = replayed((key.encode(), value.encode()))
            assert state.session_key is not None
            return configs.session_key_record(state.session_key)
        case ["status", name]:
            return written_status(name, key.encode(), value.encode())
        case _:
            connector, partition = json.loads(key)
            return offsets.offset_record(connector, partition, fields)


def written_status(name: str, key: bytes, value: bytes) -> Record:
    """Return the record that kcli writes for a status of Kafka's."""
    state = StatusState()
    state.replay(key, value)
    if name.startswith("topic-"):
        ((used,),) = [list(topics.values()) for topics in state.topics.values()]
        return statuses.topic_record(used)
    if name.startswith("task-"):
        ((connector, tasks),) = state.tasks.items()
        ((number, status),) = tasks.items()
        return statuses.task_status_record(TaskId(connector, number), status)
    ((connector, status),) = state.connectors.items()
    return statuses.connector_status_record(connector, status)


@pytest.mark.parametrize(("topic", "partition", "key", "value"), RECORDED)
def test_records_are_those_of_kafkas_worker(topic: str, partition: int, key: str, value: str | None) -> None:
    if value is not None:
        assert written_again(key, value) == (key.encode(), value.encode())
    if "{DIR}" not in key:
        count = {"connect-configs": 1, "connect-offsets": 25, "connect-status": 5}[topic]
        assert (murmur2(key.encode()) & 0x7FFFFFFF) % count == partition


def replayed(*records: Record) -> ConfigState:
    state = ConfigState()
    for offset, (key, value) in enumerate(records):
        state.replay(offset, key, value)
    return state


def test_records_of_configurations() -> None:
    assert configs.connector_record("n", {"name": "n", "x": None}) == (
        b"connector-n",
        b'{"properties":{"name":"n","x":null}}',
    )
    assert configs.connector_record("n", None) == (b"connector-n", None)
    assert configs.task_records("n", [{"a": "b"}]) == [(b"task-n-0", b'{"properties":{"a":"b"}}')]
    assert configs.commit_record("n", 1) == (b"commit-n", b'{"tasks":1}')
    assert configs.target_state_record("n", TargetState.STOPPED) == (
        b"target-state-n",
        b'{"state":"PAUSED","state.v2":"STOPPED"}',
    )
    assert configs.fencing_record("n", 2) == (b"tasks-fencing-n", b'{"task-count":2}')
    assert configs.restart_record(configs.Restart("n", only_failed=True, include_tasks=False)) == (
        b"restart-connector-n",
        b'{"include-tasks":false,"only-failed":true}',
    )
    assert configs.session_key_record(configs.SessionKey(b"\0\1", "HmacSHA256", 5)) == (
        b"session-key",
        b'{"key":"AAE=","algorithm":"HmacSHA256","creation-timestamp":5}',
    )
    assert configs.logger_record("a.b", "WARN") == (b"logger-cluster-a.b", b'{"level":"WARN"}')


def test_tasks_have_their_configurations_with_the_commit() -> None:
    tasks = configs.task_records("a-b", [{"n": "0"}, {"n": "1"}])
    state = replayed(configs.connector_record("a-b", {"x": "y"}), *tasks)
    assert state.task_ids("a-b") == []
    assert not state.tasks
    assert state.replay(3, *configs.commit_record("a-b", 2)) == configs.TasksChanged("a-b")
    assert state.tasks == {TaskId("a-b", 0): {"n": "0"}, TaskId("a-b", 1): {"n": "1"}}
    assert state.applied["a-b"] == {"x": "y"}
    assert "a-b" in state.pending_fencing
    state.replay(4, *configs.fencing_record("a-b", 2))
    assert state.fenced_counts == {"a-b": 2}
    assert not state.pending_fencing


def test_tasks_that_compaction_has_taken_apart_are_inconsistent() -> None:
    first, second = configs.task_records("n", [{"n": "0"}, {"n": "1"}])
    state = replayed(configs.connector_record("n", {}), second, configs.commit_record("n", 2))
    assert state.task_ids("n") == []
    assert state.inconsistent == {"n"}
    state.replay(3, *first)
    state.replay(4, *configs.commit_record("n", 1))
    assert state.task_ids("n") == [TaskId("n", 0)]
    assert not state.inconsistent


def test_a_deleted_connector_has_nothing_left() -> None:
    made = [configs.connector_record("n", {}), *configs.task_records("n", [{}]), configs.commit_record("n", 1)]
    state = replayed(*made, configs.connector_record("n", None), configs.target_state_record("n", None))
    assert not (state.connectors)
    assert not (state.tasks)
    assert not (state.task_counts)
    assert not (state.target_states)
    assert not (state.applied)
    assert state.replay(9, *configs.commit_record("n", 1)) is None
    assert not state.task_counts


def test_target_states() -> None:
    state = replayed(configs.connector_record("n", {}))
    assert state.target_states == {"n": TargetState.STARTED}
    assert state.replay(1, *configs.target_state_record("n", TargetState.STOPPED)) == configs.TargetStateChanged("n")
    assert state.replay(2, *configs.target_state_record("n", TargetState.STOPPED)) is None
    assert state.replay(3, b"target-state-n", b'{"state":"PAUSED"}') == configs.TargetStateChanged("n")
    assert state.replay(4, b"target-state-n", b'{"state":"DANCING"}') is None
    state.replay(5, *configs.target_state_record("n", None))
    assert state.target_states == {"n": TargetState.STARTED}


DEEP = 400
BAD = [
    b'{"state":[]}',
    b'{"state":{},"worker_id":"w","generation":1}',
    b'{"state":"RUNNING","worker_id":[],"generation":1}',
    b'{"tasks":1000000000000}',
    b'{"properties":{"a":{"b":1}}}',
    b'{"properties":{"a":' + b"[" * DEEP + b"]" * DEEP + b"}}",
]


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"\xff", b"{", b'{"properties":3}', b'{"tasks":"x"}', b'{"key":"?"}', *BAD]
)
@pytest.mark.parametrize(
    "key",
    [
        *(b"connector-n", b"task-n-0", b"task-n", b"task-", b"commit-n", b"target-state-n", b"session-key", b"\xff"),
        *(b"status-connector-n", b"status-task-n-0", b"x", None),
    ],
)
def test_any_record_is_taken_or_passed_over(key: bytes | None, value: bytes) -> None:
    state = replayed(configs.connector_record("n", {"a": "b"}))
    state.replay(1, key, value)
    assert state.connectors == {"n": {"a": "b"}}
    assert state.end_offset == 2
    found = StatusState()
    found.replay(key, value)
    offsets.OffsetState().replay(key, value)


def test_offsets() -> None:
    key, value = offsets.offset_record("n", {"filename": "/tmp/ä"}, {"position": 3})
    assert (key, value) == ('["n",{"filename":"/tmp/ä"}]'.encode(), b'{"position":3}')
    state = offsets.OffsetState()
    state.replay(key, value)
    state.replay(b'["other",{"a":1}]', b'{"b":2}')
    assert state.of("n") == [({"filename": "/tmp/ä"}, {"position": 3})]
    state.replay(key, None)
    assert state.of("n") == []


def test_statuses() -> None:
    running = Status(State.RUNNING, "h:1", 3)
    assert statuses.connector_status_record("n", running) == (
        b"status-connector-n",
        b'{"state":"RUNNING","trace":null,"worker_id":"h:1","generation":3,"version":null}',
    )
    key, value = statuses.topic_record(statuses.UsedTopic("t", TaskId("n", 0), 7))
    assert key == b"status-topic-t:connector-n"
    assert json.loads(value or b"") == {"topic": {"name": "t", "connector": "n", "task": 0, "discoverTimestamp": 7}}
    state = StatusState()
    state.replay(*statuses.task_status_record(TaskId("a-b", 1), running))
    state.replay(*statuses.task_status_record(TaskId("a-b", 1), Status(State.UNASSIGNED, "g:1", 2)))
    assert state.tasks == {"a-b": {1: running}}
    state.replay(*statuses.task_status_record(TaskId("a-b", 1), Status(State.UNASSIGNED, "g:1", 4)))
    assert state.tasks["a-b"][1].state is State.UNASSIGNED
    state.replay(key, value)
    assert list(state.topics["n"]) == ["t"]
    state.replay(*statuses.topic_tombstone("n", "t"))
    state.replay(*statuses.task_status_record(TaskId("a-b", 1), Status(State.DESTROYED, "g:1", 4)))
    assert state.topics == {"n": {}}
    assert state.tasks == {"a-b": {}}


@pytest.mark.parametrize("what", ["lines", TaskId("lines", 0)])
@pytest.mark.parametrize(
    ("worker", "generation", "may"), [("b:1", 3, True), ("b:1", 2, False), ("a:1", 2, True), ("b:1", 4, True)]
)
def test_a_status_is_replaced_by_its_worker_or_one_that_is_not_older(
    what: str | TaskId, worker: str, generation: int, may: bool
) -> None:
    state = StatusState()
    assert state.may_replace(what, worker, generation)
    failed = Status(State.FAILED, "a:1", 3)
    state.replay(
        *(connector_status_record(what, failed) if isinstance(what, str) else task_status_record(what, failed))
    )
    assert state.may_replace(what, worker, generation) is may
