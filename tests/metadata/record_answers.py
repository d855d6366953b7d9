"""Ask a fresh broker of real Kafka the cases, and keep what it answers, as tests/metadata/answers.jsonl.gz has it.

kafka start answers && python -m tests.metadata.record_answers $(kafka bootstrap answers)
"""

from __future__ import annotations

import gzip
import io
import json
import re
import socket
import sys
import time
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from kcli.broker.wire.messages import entity_reader, entity_writer, messages
from kcli.testing.wire import message, plain
from tests.metadata.answer_cases import Case, cases

COORDINATOR_LOAD_IN_PROGRESS = 14
PAUSE_S = 0.15
ANSWERS = Path(__file__).with_name("answers.jsonl.gz")


def exchange(connection: socket.socket, case: Case, ids: dict[str, str]) -> dict[str, Any] | None:
    """Send a request and return its response, None where the connection is closed instead."""
    api_key, version, body = case
    kind = messages(api_key, version)
    request = message(kind.request_type, resolved(body, ids))
    buffer = io.BytesIO()
    header = kind.request_type.__header_schema__
    entity_writer(header)(
        buffer,
        header(request_api_key=api_key, request_api_version=version, correlation_id=1, client_id="cases"),
    )
    entity_writer(kind.request_type)(buffer, request)
    connection.sendall(len(buffer.getvalue()).to_bytes(4) + buffer.getvalue())
    try:
        size = connection.recv(4, socket.MSG_WAITALL)
    except ConnectionResetError:
        return None
    if len(size) < 4:
        return None
    answer = connection.recv(int.from_bytes(size), socket.MSG_WAITALL)
    module = import_module(kind.request_type.__module__.replace(".request", ".response"))
    response, _ = entity_reader(getattr(module, kind.response_name))(memoryview(answer), 5 if kind.flexible else 4)
    found = plain(response)
    assert isinstance(found, dict), "an answer"
    return found


def resolved(value: Any, ids: dict[str, str]) -> Any:
    """The request with the ids of topics in place of their names."""
    match value:
        case str() if value.startswith("$"):
            return ids[value[1:]]
        case list():
            return [resolved(each, ids) for each in value]
        case dict():
            return {key: resolved(each, ids) for key, each in value.items()}
    return value


def learn_ids(answer: Any, ids: dict[str, str]) -> None:
    """Keep the ids of topics in a response."""
    match answer:
        case list():
            for each in answer:
                learn_ids(each, ids)
        case dict():
            if answer.get("name") and re.fullmatch("(?!A{22})[-_0-9A-Za-z]{22}", answer.get("topic_id") or ""):
                ids[answer["name"]] = answer["topic_id"]
            for each in answer.values():
                learn_ids(each, ids)


def record(bootstrap: str, questions: Iterable[Case], path: Path) -> None:
    """Send these requests to a broker, one after the other, and write them with the responses as JSON lines in gzip."""
    host, _, port = bootstrap.rpartition(":")
    ids: dict[str, str] = {}
    lines = []
    connection = socket.create_connection((host, int(port)))
    for case in questions:
        answer = exchange(connection, case, ids)
        if answer is not None and answer.get("error_code") == COORDINATOR_LOAD_IN_PROGRESS:
            time.sleep(PAUSE_S)
            answer = exchange(connection, case, ids)
        time.sleep(PAUSE_S)  # the broker applies a change a little after the response
        if answer is None:
            connection.close()
            connection = socket.create_connection((host, int(port)))
        learn_ids(answer, ids)
        api_key, version, body = case
        line = {"api_key": api_key, "version": version, "request": body, "answer": answer}
        lines.append(json.dumps(line, default=bytes.hex))
    connection.close()
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode(), mtime=0))


if __name__ == "__main__":
    record(sys.argv[1], cases(), ANSWERS)
