"""python -m tests.pipelines.tables.exporting KIND SRC OUT [CATALOG]: one export without Spark, to be killed."""

import sys
from pathlib import Path

from tests.pipelines.tables.places import Place, source


def main() -> None:
    """Say `ready`, wait for a line, export."""
    kind, path, out, *catalog = sys.argv[1:]
    place = Place(kind, Path(out), catalog[0] if catalog else None)
    print("ready", flush=True)
    sys.stdin.readline()
    place.export(source(Path(path)), ("partition",))
    print("done", flush=True)


main()
