"""The daemon that forks Spark's Python workers on this machine, with the installed PySpark instead of pyspark.zip.

Python compiles modules in an archive at every start, and Spark's own daemon imports the worker module and its
dependencies again in each fork; together this costs more than a second of each session. This daemon imports them once,
before it forks. Spark runs it as `python -m kcli.export.daemon WORKER-MODULE`.
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
