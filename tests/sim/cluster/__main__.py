"""`python -m tests.sim.cluster [-q] SEED...`: replay seeds, and tell what happens; with -q only how each ends."""

from __future__ import annotations

import sys
from traceback import print_exception

from tests.sim.cluster.run import simulate


def main() -> int:
    """Returns how many seeds failed."""
    failed = 0
    is_quiet = "-q" in sys.argv
    for seed in map(int, [each for each in sys.argv[1:] if each != "-q"]):
        error = simulate(seed, tell=None if is_quiet else print)
        print(f"seed {seed}: {'holds' if error is None else f'{type(error).__name__}: {error}'}")
        if error is not None:
            print_exception(error)
            failed += 1
    return failed


if __name__ == "__main__":
    sys.exit(main())
