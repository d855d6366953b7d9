"""The randomized proof of the PostgreSQL source in full: python -m tests.connect.postgres_kills --changes 100000"""

from __future__ import annotations

import argparse
import random
import time

from tests.connect.postgres import Server, binaries
from tests.connect.test_postgres_source import exact


def main() -> None:
    """Run random changes with kills; fail with the seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    given = parser.parse_args()
    programs = binaries()
    if programs is None:
        print("PostgreSQL is not installed: skipped")
        return
    print(f"seed {given.seed}", flush=True)
    began = time.monotonic()
    with Server.running(programs) as server:
        exact(server.new_database(), changes=given.changes, seed=given.seed)
    print(f"{given.changes} changes replay to the table's exact rows: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
