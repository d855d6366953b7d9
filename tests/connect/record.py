"""Records the calls of calls.py beside a real distributed worker of Kafka 4.3: `python -m tests.connect.record`.

Needs the kit's Kafka (tests/interop) and its Connect jars. Writes validations.jsonl and rest.jsonl next to this file.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.connect.calls import CALLS, VALIDATIONS, Call
from tests.connect.replaying import Worker
from tests.interop.kit import more_jars

HERE = Path(__file__).parent
POM = HERE.parent / "interop" / "connect-pom.xml"
START_S = 120.0


def properties(bootstrap: str, port: int, **more: str) -> str:
    """Return the configuration of a distributed worker."""
    known = {
        "bootstrap.servers": bootstrap,
        "group.id": "connect",
        "listeners": f"http://127.0.0.1:{port}",
        "rest.advertised.host.name": "127.0.0.1",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "config.storage.topic": "connect-configs",
        "offset.storage.topic": "connect-offsets",
        "status.storage.topic": "connect-status",
        "config.storage.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "offset.flush.interval.ms": "500",
        "plugin.discovery": "hybrid_warn",
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return "".join(f"{key}={value}\n" for key, value in known.items())


@contextmanager
def real_worker(kit: str, bootstrap: str, port: int, directory: Path, **more: str) -> Iterator[Worker]:
    """Run a real worker."""
    extra = more_jars(POM, "connect-mirror-4.3.0.jar")
    file = directory / f"worker-{port}.properties"
    file.write_text(properties(bootstrap, port, **more))
    with (directory / f"worker-{port}.log").open("w") as log:
        process = subprocess.Popen(
            [kit, "run", "org.apache.kafka.connect.cli.ConnectDistributed", str(file)],
            env={**os.environ, "KAFKA_CLASSPATH": f"{extra}/*", "KAFKA_LOG_LEVEL": "info"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            worker = Worker(port, directory)
            until = time.monotonic() + START_S
            while True:
                try:
                    if worker.send(Call("GET", "/health"))["status"] == 200:
                        break
                except OSError:
                    pass
                if time.monotonic() > until or process.poll() is not None:
                    raise TimeoutError(f"the worker does not start: {log.name}")
                time.sleep(0.2)
            yield worker
        finally:
            os.killpg(process.pid, 15)
            process.wait(30)
            with suppress(ProcessLookupError):  # Java outlives the script that has started it
                while True:
                    os.killpg(process.pid, 0)
                    time.sleep(0.1)


def write(path: Path, worker: Worker, calls: Iterable[Call]) -> None:
    """Record calls."""
    recorded = list(calls)
    with path.open("w") as file:
        for call, answer in zip(recorded, worker.answers(recorded), strict=True):
            file.write(json.dumps({"call": [call.method, call.path, call.body], **answer}) + "\n")
            file.flush()


def main() -> None:
    """Record all calls."""
    kit, bootstrap, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "in.txt").write_text("one\ntwo\nfour\n")
        with real_worker(kit, bootstrap, port, directory) as worker:
            write(HERE / "validations.jsonl", worker, VALIDATIONS)
            write(HERE / "rest.jsonl", worker, CALLS)


if __name__ == "__main__":
    main()
