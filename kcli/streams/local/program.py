"""A program in a file: a Python module whose global `topology` is the Topology to run."""

from __future__ import annotations

import runpy
import sys
import traceback
from pathlib import Path

from kcli.errors import KcliError, UnreadableInput
from kcli.streams.errors import StreamsError
from kcli.streams.topology.topology import Topology

NAME = "topology"


def load(path: Path) -> Topology:
    """Run a file, not as __main__; return its topology. The file can import modules beside it. Raises UnreadableInput
    for a file that cannot be read, KcliError for one that raises or has no topology."""
    if not path.is_file():
        raise UnreadableInput(str(path), "no such file")
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        found = runpy.run_path(str(path), run_name=path.stem).get(NAME)
    except StreamsError as error:
        raise KcliError(f"{path}: {error}") from None
    except Exception as error:  # noqa: BLE001 (whatever the program raises)
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
        line = error.lineno if isinstance(error, SyntaxError) else lines[-1] if lines else 0
        raise KcliError(f"{path}: line {line}: {type(error).__name__}: {error}") from None
    if not isinstance(found, Topology):
        raise KcliError(f"{path}: the file must set {NAME} to a Topology, as StreamsBuilder.build returns it")
    return found
