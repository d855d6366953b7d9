"""Questions to Kafka's security classes: SecurityOracle.java, and its recorded answers (recorded/*.jsonl.gz).

python -m tests.security.oracle   asks Kafka, and records its answers anew; on Java 25, see name_cases
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.conftest import read_jsonl
from tests.interop import kit
from tests.security import authorizer_cases, jaas_cases, name_cases, principal_cases

PROGRAM = Path(kit.__file__).with_name("SecurityOracle.java")
RECORDED = Path(__file__).with_name("recorded")
AUDIT = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Dorg.slf4j.simpleLogger.log.kafka.authorizer.logger=trace")

Json = dict[str, Any]


def start(jars: Path) -> kit.Oracle:
    """The oracle in a JVM."""
    return kit.Oracle(jars, PROGRAM, *AUDIT)


def recorded(what: str) -> Iterator[tuple[Json, Any]]:
    """Questions with Kafka's answers."""
    for each in read_jsonl(RECORDED / f"{what}.jsonl.gz"):
        yield each["question"], each["answer"]


def record() -> None:
    """Ask Kafka, and write down what it answers."""
    oracle = start(kit.set_up())
    questions = {
        "authorizer": [authorizer_cases.case(seed) for seed in range(60)],
        "principals": [principal_cases.case(seed) for seed in range(600)],
        "names": [name_cases.case(seed) for seed in range(1_000)],
        "jaas": [jaas_cases.case(seed) for seed in range(1_000)],
        "jaas_files": [jaas_cases.file_case(seed) for seed in range(500)],
    }
    for what, asked in questions.items():
        lines = [json.dumps({"question": each, "answer": oracle.ask(**each)}) for each in asked]
        text = "\n".join(lines) + "\n"
        RECORDED.mkdir(exist_ok=True)
        (RECORDED / f"{what}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    oracle.close()


if __name__ == "__main__":
    record()
