"""The lines of kafka.authorizer.logger for every question of access_cases.py, with some sets of rights: kcli's, or real
Kafka's, which are kept:

    python -m tests.broker.security.audit DIRECTORY PORT

starts one real node in DIRECTORY, with listeners at PORT and at the two ports behind it.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from kcli.security.acls import Operation, ResourceType
from tests.broker.running import Client
from tests.broker.security.access import Answer, ask_all, real_node
from tests.broker.security.access_cases import CLIENT, CREATED, GROUP_AND_TOPIC, IN_TRANSACTION, Rights, questions

LINES = Path(__file__).with_name("audit_lines.jsonl.gz")
SETS: list[Rights] = [
    (),
    ((ResourceType.TOPIC, Operation.DESCRIBE),),
    ((ResourceType.TOPIC, Operation.WRITE),),
    GROUP_AND_TOPIC,
    IN_TRANSACTION,
    CREATED,
    tuple((ResourceType.CLUSTER, each) for each in (Operation.ALTER, Operation.DESCRIBE, Operation.CREATE)),
    ((ResourceType.CLUSTER, Operation.CLUSTER_ACTION), (ResourceType.CLUSTER, Operation.IDEMPOTENT_WRITE)),
]
OURS = f"Principal = {CLIENT} "
NAME = " kafka.authorizer.logger - "
JAVA = "-Dorg.slf4j.simpleLogger.log.kafka.authorizer.logger=trace"


def record(directory: Path, port: int) -> None:
    log = directory / "log"

    def ask(api: str, version: int, request: dict[str, Any]) -> Answer:
        before = log.stat().st_size
        with Client(("127.0.0.1", port)) as client:
            try:
                client.call(api, version, **request)
            finally:
                found.append(sorted(_lines(log.read_bytes()[before:].decode())))
        return {}

    found: list[list[str]] = []
    with real_node(directory, port, JAVA) as admin:
        ask_all(lambda *asked: admin.call(asked[0], asked[1], **asked[2]), ask, SETS, 0.5)
    count = len(list(questions()))
    sets = [found[start : start + count] for start in range(0, len(found), count)]
    text = "".join(json.dumps(each) + "\n" for each in sets)
    LINES.write_bytes(gzip.compress(text.encode(), mtime=0))


def _lines(text: str) -> list[str]:
    """Return the audit lines about the client: level and message."""
    found = []
    for line in text.splitlines():
        head, is_audit, message = line.partition(NAME)
        if is_audit and message.startswith(OURS):
            found.append(f"{head.rpartition(' ')[2]} {message}")
    return found


if __name__ == "__main__":
    record(Path(sys.argv[1]), int(sys.argv[2]))
