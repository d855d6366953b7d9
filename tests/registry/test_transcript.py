"""The registry answers what Confluent's registry has answered, and writes what it has written to `_schemas`.

transcript.jsonl has our requests with the original's answers, records.jsonl the records that it wrote then, by
make_transcript.py. Where a message quotes a parser of Java's, only the status and the code are equal.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from kcli.registry.api import Answer
from tests.registry.registry import Registry

HERE = Path(__file__).parent
ENTRIES = [json.loads(line) for line in (HERE / "transcript.jsonl").read_text().splitlines()]
RECORDS = [json.loads(line) for line in (HERE / "records.jsonl").read_text().splitlines()]
_TS = re.compile(r'"ts":\d+')
_GUID = re.compile("guid=[^,]*")
_JAVA = ("JsonEOFException", "Unexpected end-of-input", "Unexpected character")
_KNOWN = {
    "GET /exporters": "kcli says what is missing",
    "GET /dek-registry/v1/keks": "kcli says what is missing",
    "GET /subjects//s/versions": "Jetty answers in HTML",
    "POST /subjects/a%01b/versions": "Jetty answers in HTML, before anything looks at the subject",
}


@pytest.fixture(scope="module")
def replayed() -> tuple[Registry, list[Answer]]:
    """The registry after all requests, and its answers."""
    registry = Registry()
    answers = []
    for entry in ENTRIES:
        body = entry["body"].encode() if "body" in entry else None
        headers = {"content-type": "application/vnd.schemaregistry.v1+json", **entry.get("headers", {})}
        answers.append(registry.ask(entry["request"], body, headers))
    return registry, answers


def _is_java(answer: str) -> bool:
    return any(each in answer for each in _JAVA)


def test_answers_are_the_originals(replayed: tuple[Registry, list[Answer]]) -> None:
    different = []
    for number, (entry, answer) in enumerate(zip(ENTRIES, replayed[1], strict=True)):
        got, want = _TS.sub('"ts":0', answer.body.decode()), entry["answer"]
        if entry["request"] in _KNOWN:
            continue
        if _is_java(want) and answer.status == entry["status"]:
            got, want = got[:24], want[:24]
        if "Invalid reference" in want:  # its guid is the hash of what is no reference
            got, want = _GUID.sub("", got), _GUID.sub("", want)
        if (answer.status, got) != (entry["status"], want):
            different.append((number, entry["why"], entry["request"], entry["status"], want, answer.status, got))
    assert different == []


def test_media_types_are_the_originals(replayed: tuple[Registry, list[Answer]]) -> None:
    """An answer without a media type, of a path that is not there, is JSON here."""
    different = [
        (entry["request"], entry["type"], answer.content_type)
        for entry, answer in zip(ENTRIES, replayed[1], strict=True)
        if entry["type"] not in ("", answer.content_type) and entry["request"] not in _KNOWN
    ]
    assert different == []


def test_records_are_the_originals_byte_for_byte(replayed: tuple[Registry, list[Answer]]) -> None:
    wrote = [[key.decode(), None if value is None else value.decode()] for key, value in replayed[0].log]
    assert wrote == [record for record in RECORDS if '"NOOP"' not in record[0]]


def test_nothing_is_passed_over(replayed: tuple[Registry, list[Answer]]) -> None:
    assert list(replayed[0].image.skipped) == []
