"""The kernels compiled once more, so that what they must not do ends in a report and not in silence.

    bounds    Cython checks every index into a buffer, and whether a buffer is there; a report is an IndexError
    address   gcc's address and undefined behaviour sanitizers: reads and writes outside of what was allocated, sums and
              products of signed numbers that overflow, shifts too far, divisions by zero, pointers that wrap

Each lies in a directory of its own under build/, named by a hash of sources, flags and compilers: nothing is compiled
twice. Overflow checks of Cython's own are off: they also hit hashes and the arithmetic that wraps as Java's does, which
the sources write with unsigned numbers; the undefined behaviour sanitizer tells the two apart. Division stays C's in
both for the same reason.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
KERNELS: Final = ROOT / "formats" / "kernels"
BUILDS: Final = ROOT / "build" / "kernels"
MODULES: Final = ("log", "payload", "wire")
UNCHECKED: Final = "boundscheck=False, wraparound=False, cdivision=True, initializedcheck=False"
CHECKED: Final = "boundscheck=True, wraparound=False, cdivision=True, initializedcheck=True"
SANITIZERS: Final = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer")


class NoCompiler(Exception):
    """This machine cannot make the build; the text says why."""


@dataclass(frozen=True, slots=True)
class Build:
    """One way to compile the kernels. `sanitized`: needs the compiler's runtime in front of everything else."""

    name: str
    flags: tuple[str, ...]
    checked: bool = False
    sanitized: bool = False

    def environment(self) -> dict[str, str]:
        """Of a process that loads the build. Raises NoCompiler."""
        if not self.sanitized:
            return dict(os.environ)
        return os.environ | {
            "LD_PRELOAD": runtime(),
            # CPython keeps what it interned; what it allocates must be malloc's to be watched.
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:halt_on_error=1:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
            "PYTHONMALLOC": "malloc",
        }


BOUNDS: Final = Build("bounds", ("-O1", "-g0", "-fwrapv"), checked=True)
ADDRESS: Final = Build("address", ("-O1", "-g1", "-fno-wrapv", *SANITIZERS), sanitized=True)
NAMED: Final = {build.name: build for build in (BOUNDS, ADDRESS)}


def compiler() -> str:
    """The C compiler. Raises NoCompiler."""
    found = shutil.which(os.environ.get("CC", "gcc")) or shutil.which("cc")
    if found is None:
        raise NoCompiler("no C compiler")
    return found


def runtime() -> str:
    """The address sanitizer's library. Raises NoCompiler."""
    name = subprocess.run([compiler(), "-print-file-name=libasan.so"], capture_output=True, text=True, check=False)
    path = Path(name.stdout.strip())
    if not path.is_absolute() or not path.exists():
        raise NoCompiler(f"{compiler()} has no address sanitizer (libasan.so)")
    return str(path.resolve())


def make(*builds: Build, say: Callable[[str], None] = lambda _text: None) -> list[Path]:
    """The directories of the builds, their modules compiled where they are not yet, all at the same time.
    Raises NoCompiler."""
    wanted = [(build, BUILDS / f"{build.name}-{_hash(build)}") for build in builds]
    missing = [(build, place) for build, place in wanted if not (place / "done").exists()]
    if missing:
        say(f"compiling the kernels for {', '.join(build.name for build, _ in missing)}")
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            list(pool.map(lambda each: _compile(*each), [(*each, name) for name in MODULES for each in missing]))
        for build, place in missing:
            (place / "done").touch()
            for old in BUILDS.glob(f"{build.name}-*"):
                if old != place:
                    shutil.rmtree(old, ignore_errors=True)
    return [place for _, place in wanted]


def _hash(build: Build) -> str:
    if build.sanitized:
        runtime()
    digest = hashlib.sha256(repr((build, CHECKED, UNCHECKED, sys.version)).encode())
    digest.update(_output([compiler(), "--version"]) + _output([sys.executable, "-m", "cython", "--version"]))
    for path in sorted(_sources()):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _sources() -> list[Path]:
    return [path for pattern in ("*.pyx", "*.pxi", "*.h") for path in KERNELS.glob(pattern)]


def _compile(build: Build, place: Path, name: str) -> None:
    """One module: a copy of the sources with the directives of the build, through Cython and the C compiler."""
    work = place / name
    work.mkdir(parents=True, exist_ok=True)
    for path in _sources():
        text = path.read_text()
        if path.suffix == ".pyx":
            assert UNCHECKED in text, f"{path} does not open with the directives that all kernels have"
            text = text.replace(UNCHECKED, CHECKED if build.checked else UNCHECKED)
        (work / path.name).write_text(text)
    module = f"formats.kernels.{name}"
    _output([sys.executable, "-m", "cython", "-3", "--module-name", module, str(work / f"{name}.pyx")])
    include = sysconfig.get_path("include")
    target = place / f"{name}{sysconfig.get_config_var('EXT_SUFFIX')}"
    flags = ["-shared", "-fPIC", *build.flags, f"-I{include}", f"-I{work}"]
    _output([compiler(), *flags, str(work / f"{name}.c"), "-o", str(target)])


def _output(command: Sequence[str]) -> bytes:
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode:
        raise NoCompiler(f"{' '.join(command[:4])}: {done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout
