"""Throttle times of users: kcli's, or real Kafka's, which are kept:

    python -m tests.broker.security.user_quotas DIRECTORY PORT

starts one real node in DIRECTORY, with listeners at PORT and at the two ports behind it.

In case N the entities from the Nth on in Kafka's order of precedence have quotas, each another one. Three clients
produce, each once: c of user N, d of user N, c of another user.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.broker.security.access import AdminClient, Ask, real_node
from tests.log.batches import batch

THROTTLES = Path(__file__).with_name("user_quotas.json")
ENTITIES: list[dict[str, str | None]] = [
    {"user": "USER", "client-id": "CLIENT"},
    {"user": "USER", "client-id": None},
    {"user": "USER"},
    {"user": None, "client-id": "CLIENT"},
    {"user": None, "client-id": None},
    {"user": None},
    {"client-id": "CLIENT"},
    {"client-id": None},
]
"""In Kafka's order of precedence."""
USERS = [f"{kind}{number}" for number in range(len(ENTITIES)) for kind in "uv"]
RECORDS_BYTES = 20_000
REQUEST_BYTES = 20_112
"""The size of a Produce request with these records and no client id."""


def quotas(case: int) -> Iterator[tuple[dict[str, str | None], float]]:
    """The entities of a case, each with its producer_byte_rate."""
    names = {"USER": f"u{case}", "CLIENT": f"c{case}"}
    for number, entity in enumerate(ENTITIES):
        if number >= case:
            yield {kind: name and names[name] for kind, name in entity.items()}, 100.0 * (number + 1)


def clients(case: int) -> list[tuple[str, str]]:
    """Yield the users and client ids of the producers."""
    return [(f"u{case}", f"c{case}"), (f"u{case}", f"d{case}"), (f"v{case}", f"c{case}")]


def request() -> dict[str, Any]:
    """What each of them produces."""
    records = bytes(batch(bytes(RECORDS_BYTES)))
    data = {"index": 0, "records": records}
    topics = [{"name": "t", "partition_data": [data]}]
    return {"transactional_id": None, "acks": 1, "timeout": 1000, "topic_data": topics}


def alter(admin: Ask, case: int, *, is_set: bool) -> None:
    """Set the quotas of a case, or take them away."""
    entries = [
        {
            "entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()],
            "ops": [{"key": "producer_byte_rate", "value": rate if is_set else 0.0, "remove": not is_set}],
        }
        for entity, rate in quotas(case)
    ]
    answer = admin("alter_client_quotas", 1, {"entries": entries, "validate_only": False})
    assert not any(each["error_code"] for each in answer["entries"]), answer


def record(directory: Path, port: int) -> None:
    found = []
    with real_node(directory, port, users=USERS) as admin:

        def ask(api: str, version: int, asked: dict[str, Any]) -> Any:
            return admin.call(api, version, **asked)

        admin.create_topic("t", 1)
        for case in range(len(ENTITIES)):
            alter(ask, case, is_set=True)
            found.append([_produced(port + 1, *each) for each in clients(case)])
            alter(ask, case, is_set=False)
    THROTTLES.write_text(json.dumps(found) + "\n")


def _produced(port: int, user: str, client_id: str) -> int:
    with AdminClient(("127.0.0.1", port), client_id) as client:
        client.login(user, "p")
        throttle_ms: int = client.call("produce", 8, **request())["throttle_time"]
        return throttle_ms


if __name__ == "__main__":
    record(Path(sys.argv[1]), int(sys.argv[2]))
