"""python -m tests.raft.sim SEED: what happened in that run."""

from __future__ import annotations

import sys

from tests.raft.sim.run import run


def main() -> None:
    """See above."""
    world = run(int(sys.argv[1]))
    sys.stdout.write("\n".join([*world.trace, world.report(), ""]))


if __name__ == "__main__":
    main()
