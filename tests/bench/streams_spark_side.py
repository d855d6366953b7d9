"""The Spark runner's side of tests.bench.streams: runs a program of tests/streams/applications.py, and says when its
query runs.

python -m tests.bench.streams_spark_side PROGRAM BOOTSTRAP_SERVERS CHECKPOINT
"""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

from kcli.export.session import SparkSettings, spark_session
from kcli.streams.spark import SparkStreams
from tests.streams.applications import PROGRAMS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOK_AGAIN_S = 0.05


def tell(app: SparkStreams, spark: SparkSession) -> None:
    """Print a line when the query runs; close the application when standard input ends."""
    while not spark.streams.active:
        time.sleep(LOOK_AGAIN_S)
    print("running", flush=True)
    sys.stdin.read()
    app.close()


if __name__ == "__main__":
    name, bootstrap_servers, checkpoint = sys.argv[1:]
    application = SparkStreams(
        PROGRAMS[name](), application_id="app", bootstrap_servers=bootstrap_servers, checkpoint=checkpoint
    )
    with spark_session(SparkSettings()) as session:
        threading.Thread(target=tell, args=(application, session), daemon=True).start()
        application.run(session)
