"""Ask a registry of Confluent's all requests of transcript.jsonl, and write its answers there.

    python -m tests.registry.make_transcript HOST:PORT

The registry must be new. The requests are ours; the answers are those of Confluent's Schema Registry 8.3, with every
`ts` (a record's time) set to 0. What the registry wrote to `_schemas` goes to records.jsonl: `kcli dump` shows it.
"""

from __future__ import annotations

import http.client
import json
import re
import sys
from pathlib import Path

TRANSCRIPT = Path(__file__).with_name("transcript.jsonl")
_TS = re.compile(r'"ts":\d+')


def ask(connection: http.client.HTTPConnection, entry: dict[str, object]) -> dict[str, object]:
    """Return an entry of the transcript with a registry's answer."""
    method, path = str(entry["request"]).split(" ", 1)
    headers = {"content-type": "application/vnd.schemaregistry.v1+json"} if "body" in entry else {}
    given = entry.get("headers", {})
    assert isinstance(given, dict)
    body = str(entry["body"]).encode() if "body" in entry else None
    connection.request(method, path, body, {**headers, **given})
    response = connection.getresponse()
    answer = _TS.sub('"ts":0', response.read().decode())
    known = {name: each for name, each in entry.items() if name not in ("status", "type", "answer")}
    return {**known, "status": response.status, "type": response.getheader("content-type", ""), "answer": answer}


def main() -> None:
    """Write the answers."""
    host, port = sys.argv[1].split(":")
    entries = [json.loads(line) for line in TRANSCRIPT.read_text().splitlines()]
    connection = http.client.HTTPConnection(host, int(port))
    answered = [ask(connection, entry) for entry in entries]
    TRANSCRIPT.write_text("".join(json.dumps(each, ensure_ascii=False) + "\n" for each in answered))


if __name__ == "__main__":
    main()
