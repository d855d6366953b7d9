"""UUIDs that Python would give one hash."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
from uuid import UUID
from kcli.broker.process.uuid_hashes import guard_uuid_hashes

def distinct():
    return len({hash(UUID(int=12345 + i * (2**61 - 1))) for i in range(1000)})

before = distinct()
guard_uuid_hashes()
print(before, distinct(), UUID(int=7) in {UUID(int=7)})
"""


def test_no_two_ids_share_a_hash() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == "1 1000 True\n"
