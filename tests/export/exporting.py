"""python -m tests.export.exporting SRC OUT STATE: one incremental export without Spark, to be killed."""

import sys
from pathlib import Path

from kcli.export.export_options import ExportOptions
from kcli.export.job import Job
from kcli.export.options import SourceOptions
from kcli.export.table_writer import TableFormat
from tests.export.in_process import InProcess


def main() -> None:
    """Say `ready`, wait for a line, export."""
    path, out, state = sys.argv[1:]
    given = SourceOptions.parse({"path": path, "columns": "key,value,topic,partition,offset,timestamp"})
    options = ExportOptions(given, Path(out), TableFormat(("partition",)), state=Path(state))
    print("ready", flush=True)
    sys.stdin.readline()
    Job(options, InProcess()).run()  # type: ignore[arg-type]
    print("done", flush=True)


main()
