"""`python -m tests.sim.cluster SEED...`: replay seeds of the cluster's simulation, and tell what happens."""

from __future__ import annotations

import sys
from traceback import print_exception

from tests.sim.cluster.run import simulate


def main() -> int:
    """Returns how many seeds failed."""
    failed = 0
    for seed in map(int, sys.argv[1:]):
        error = simulate(seed, tell=print)
        print(f"seed {seed}: {'holds' if error is None else f'{type(error).__name__}: {error}'}")
        if error is not None:
            print_exception(error)
            failed += 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
