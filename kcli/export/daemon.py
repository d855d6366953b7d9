"""What forks Spark's Python workers on this machine: PySpark as it is installed, in place of the archive Spark brings.

Modules in an archive are compiled at every start, and Spark's own daemon imports the worker, and that what it works
with, anew in each fork. Together this costs more than a second of each session. Spark runs this as
`python -m kcli.export.daemon WORKER-MODULE`.
"""

import importlib
import sys

WORKER = "pyspark.worker"


def main() -> None:
    """Fork workers until Spark ends."""
    sys.path[:] = [each for each in sys.path if not each.endswith("pyspark.zip")]
    daemon = importlib.import_module("pyspark.daemon")
    importlib.import_module(sys.argv[1] if len(sys.argv) > 1 else WORKER)
    importlib.import_module("kcli.export.worker")
    daemon.manager()


if __name__ == "__main__":
    main()
