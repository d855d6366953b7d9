"""Run the simulation of one seed in a directory of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.sim.world import World

MEMORY = Path("/dev/shm")


def simulate(seed: int, *, tell: Callable[[str], object] | None = None) -> Exception | None:
    """Return the error that broke the simulation, None where all promises were kept. tell: called with each event's
    line."""
    broker = logging.getLogger("kcli.broker")
    level = broker.level
    broker.setLevel(logging.CRITICAL + 1)
    try:
        with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
            world = World(seed, Path(directory), tells=tell is not None)
            try:
                world.run()
            except Exception as error:  # noqa: BLE001  (what is broken, whatever it is)
                return error
            finally:
                for line in world.notes or ():
                    tell and tell(line)
    finally:
        broker.setLevel(level)
    return None
