"""kcli's side of tests.bench.streams: runs a program of tests/streams/applications.py, and says when it is running.

python -m tests.bench.streams_side PROGRAM BOOTSTRAP_SERVERS TASKS GUARANTEE
"""

from __future__ import annotations

import sys
import threading
import time

from kcli.streams.local import KafkaStreams
from tests.streams.applications import PROGRAMS

LOOK_AGAIN_S = 0.005


def tell(app: KafkaStreams, tasks: int) -> None:
    """Print a line when so many tasks are running; close the instance when standard input ends."""
    while len(app.running_tasks) < tasks:
        time.sleep(LOOK_AGAIN_S)
    print("running", flush=True)
    sys.stdin.read()
    app.close()


if __name__ == "__main__":
    name, bootstrap_servers, tasks, guarantee = sys.argv[1:]
    instance = KafkaStreams(
        PROGRAMS[name](), application_id="app", bootstrap_servers=bootstrap_servers, processing_guarantee=guarantee
    )
    threading.Thread(target=tell, args=(instance, int(tasks)), daemon=True).start()
    instance.run()
