"""One seed in a directory of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.sim.world import World

MEMORY = Path("/dev/shm")


def simulate(seed: int, *, tell: Callable[[str], object] | None = None) -> Exception | None:
    """What was broken, if anything. tell: hears each line of what happened."""
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
