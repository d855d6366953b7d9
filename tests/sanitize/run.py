"""The loop in the process with a sanitizer's build. A file always names the current input.

python -m tests.sanitize.run BUILD_DIRECTORY NOTE KIND SEED FIRST COUNT SECONDS
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
"""The time limit of fifty inputs. It is CPU time, since a process may stand still for long on a busy machine."""


class Report(Exception):
    """Something that Python told and nobody caught."""


def main(build: Path, note: Path, kind: str, seed: int, first: int, count: int, seconds: float) -> None:
    """Run `count` inputs from `first` on, or as many as `seconds` allow. A seed below 0 means the undamaged data."""
    formats.kernels.__path__.insert(0, str(build / KERNELS))
    from tests.sanitize import inputs

    check_kernels(build)

    logging.disable(logging.CRITICAL)  # errors of skipped damage are not of interest here
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
            inputs.run(kind, seed, n)
        elif not inputs.run_whole(n):
            break
        if unraisable:
            raise Report(unraisable[0])
        done += 1
    signal.setitimer(signal.ITIMER_PROF, 0)
    check_kernels(build)
    print(done)


def check_kernels(build: Path) -> None:
    """Check that every imported kernel is one of the build."""
    for name, module in sorted(sys.modules.items()):
        if name.startswith("formats.kernels.") and str(module.__file__).endswith(".so"):
            assert build in Path(str(module.__file__)).parents, f"{module.__file__} is not of {build}"


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        sys.argv[3],
        int(sys.argv[4]),
        int(sys.argv[5]),
        int(sys.argv[6]),
        float(sys.argv[7]),
    )
