"""The loop in the process whose kernels are a sanitizer's build: which input is at hand is always in a file.

python -m tests.sanitize.run BUILD_DIRECTORY NOTE SEED FIRST COUNT SECONDS
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import sys
import time
from pathlib import Path

import formats.kernels
from tests.sanitize.builds import KERNELS

CPU_SECONDS_MAX = 60
"""Of fifty inputs. Not by the clock: on a busy machine a process may stand still for long."""


class Report(Exception):
    """Something that Python told and nobody caught."""


def main(build: Path, note: Path, seed: int, first: int, count: int, seconds: float) -> None:
    """Run `count` inputs from `first` on, or as many as `seconds` allow; a seed below 0: the data as it is."""
    formats.kernels.__path__.insert(0, str(build / KERNELS))
    from tests.sanitize import inputs

    check_kernels(build)

    logging.disable(logging.CRITICAL)  # what is passed over is told to nobody here
    unraisable: list[str] = []
    sys.unraisablehook = lambda each: unraisable.append(f"{each.err_msg}: {each.exc_value!r}")
    faulthandler.register(signal.SIGPROF, all_threads=True, chain=True)  # told, then the end of the process
    until = time.monotonic() + seconds
    at = os.open(note, os.O_WRONLY | os.O_CREAT, 0o644)
    done = 0
    for n in range(first, first + count):
        os.pwrite(at, f"{n:12}".encode(), 0)
        if n % 50 == 0:
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS_MAX)
            if time.monotonic() > until:
                break
        if seed >= 0:
            inputs.run(seed, n)
        elif not inputs.run_whole(n):
            break
        if unraisable:
            raise Report(unraisable[0])
        done += 1
    signal.setitimer(signal.ITIMER_PROF, 0)
    check_kernels(build)
    print(done)


def check_kernels(build: Path) -> None:
    """Every kernel that was imported is of the build."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith("formats.kernels.") and str(module.__file__).endswith(".so"):
            assert build in Path(str(module.__file__)).parents, f"{module.__file__} is not of {build}"


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        int(sys.argv[3]),
        int(sys.argv[4]),
        int(sys.argv[5]),
        float(sys.argv[6]),
    )
