"""Ask a fresh node of real Kafka the cases of scram_cases.py, and keep its answers and its records:

kafka start NAME
python -m tests.broker.security.record scram $(kafka bootstrap NAME) $(kafka dir NAME)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from kcli.metadata_log.records import read_batches
from tests.broker.security import acl_cases, scram_cases
from tests.metadata.record_answers import record

FOLDER = Path(__file__).parent
MODULES: dict[str, ModuleType] = {"acl": acl_cases, "scram": scram_cases}


def records_of(log_dir: Path, names: frozenset[str]) -> list[Any]:
    """The records with these names in the metadata log, as JSON values without what differs from run to run."""
    log = log_dir / "__cluster_metadata-0/00000000000000000000.log"
    return [
        record_values(name, value) for batch in read_batches(log) for name, _, value in batch.records if name in names
    ]


def record_values(name: str, value: dict[str, Any]) -> list[Any]:
    return [name, {key: each.hex() if isinstance(each, bytes) else each for key, each in value.items() if key != "id"}]


if __name__ == "__main__":
    what, bootstrap, directory = sys.argv[1:]
    module = MODULES[what]
    record(bootstrap, module.cases(), FOLDER / f"{what}_answers.jsonl.gz")
    lines = [json.dumps(each) + "\n" for each in records_of(Path(directory), module.RECORDS)]
    (FOLDER / f"{what}_records.jsonl").write_text("".join(lines))
