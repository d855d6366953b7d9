"""The REST API beside the answers that a real distributed worker gave to the same calls."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.testing import Kafka
from tests.connect.calls import CALLS, VALIDATIONS, Call
from tests.connect.replaying import Worker
from tests.connect.running import running
from tests.connect.test_distributed import properties

HERE = Path(__file__).parent
OWN_WORDS = (
    "Unexpected end-of-input",
    "Non-standard token",
    "Invalid numeric value",
    "Failed to alter consumer group offsets",
    "Cannot deserialize value",
    "Cannot construct instance",
    "Cannot invoke",
    "Unrecognized field",
    "Instantiation error",
    "Failed to modify offsets for sink",
)
"""Errors whose texts are those of Java's JSON parser, of its own null pointers, or without a reason: kcli's say what
is wrong."""
INTERNAL = re.compile(r"(available connectors are|Invalid regex): .*", re.DOTALL)
"""What follows is in Java's words, too, or names all connectors."""
NOT_COMPARED = ("override", "java.lang.String", "MirrorSource", "MirrorCheckpoint", "MirrorHeartbeat")
"""Calls that are not compared: overrides of clients; a class that is no plug-in; Mirror's, which test_client_options
compares, as the worker here has no connector on Spark."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Kafka]:
    with Kafka.started() as kafka:
        kafka.create_topic("lines")
        yield kafka


@pytest.fixture
def worker(broker: Kafka, tmp_path: Path) -> Iterator[Worker]:
    (tmp_path / "in.txt").write_text("one\ntwo\nfour\n")
    group = f"connect-{tmp_path.name}"
    with running(tmp_path, {**properties(broker, group), "listeners": "http://127.0.0.1:0"}) as found:
        yield found


def recorded(name: str) -> list[dict[str, Any]]:
    """Return the calls that were recorded with their answers."""
    return [json.loads(line) for line in (HERE / f"{name}.jsonl").read_text().splitlines()]


def plain(body: str, call: Call) -> Any:
    """Return what is compared of a body."""
    if call.method == "OPTIONS" or (call.path.startswith("/admin/loggers") and call.method == "GET"):
        return None
    try:
        found = json.loads(body)
    except ValueError:
        return body and "text"
    if call.path == "/":
        return sorted(found) if "version" in found else found
    if isinstance(found, dict) and str(found.get("message", "")).startswith(OWN_WORDS):
        return {**found, "message": "own words"}
    if isinstance(found, list) and call.path.startswith("/connector-plugins"):
        found = [each for each in found if "mirror" not in each.get("class", "")]
    return _plain(found)


def _plain(found: Any) -> Any:
    match found:
        case dict():
            kept = {key: _plain(each) for key, each in found.items()}
            if "trace" in kept:
                kept["trace"] = kept["trace"].partition(":")[0]
            return kept
        case list():
            return [_plain(each) for each in found]
        case str():
            return INTERNAL.sub("...", found)
        case _:
            return found


def differences(worker: Worker, name: str, calls: list[Call]) -> Iterator[str]:
    """Yield what is different from the recorded answers."""
    for call, was in zip(calls, recorded(name), strict=True):
        assert [call.method, call.path, call.body] == was["call"]
        (got,) = worker.answers([call])
        if call.until is not None or any(each in f"{call.path}{call.body}" for each in NOT_COMPARED):
            continue
        for key, wanted, found in (
            ("status", was["status"], got["status"]),
            ("location", was["headers"].get("location"), got["headers"].get("location")),
            ("body", plain(was["body"], call), plain(got["body"], call)),
        ):
            own = key == "body" and isinstance(wanted, dict) and wanted.get("message") == "own words"
            if own and isinstance(found, dict) and found.get("message"):
                continue
            if wanted != found:
                yield f"{call.method} {call.path} {call.body}: {key}\n   {wanted}\n   {found}"


def test_a_worker_answers_as_kafkas(worker: Worker) -> None:
    assert not list(differences(worker, "rest", CALLS))


def test_configurations_are_validated_as_kafkas_worker_does(worker: Worker) -> None:
    assert not list(differences(worker, "validations", VALIDATIONS))
