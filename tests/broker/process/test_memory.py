"""Memory that a thread has freed goes back to the system, also below a small object that is still in use."""

from __future__ import annotations

import subprocess
import sys

import pytest

FREED_BELOW_A_SMALL_OBJECT = """
import threading
from pathlib import Path
from kcli.broker.process.memory import return_free_pages, return_large_buffers

def resident_mb():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 >> 20

small = []
def work():
    buffers = [bytes([1]) * (1 << 20) for _ in range(48)]
    small.append(bytearray(100_000))

return_large_buffers()
before = resident_mb()
thread = threading.Thread(target=work)
thread.start()
thread.join()
kept = resident_mb() - before
return_free_pages()
print(kept, resident_mb() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_free_pages_of_a_thread_go_back() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FREED_BELOW_A_SMALL_OBJECT], capture_output=True, text=True, check=True
    )
    kept_mb, left_mb = map(int, done.stdout.split())
    if kept_mb < 24:
        pytest.skip(f"the C library keeps {kept_mb} MB of 48: it is not glibc")
    assert left_mb < 8
