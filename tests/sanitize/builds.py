"""The kernels compiled once more, so that what they must not do ends in a report and not in silence.

    bounds    Cython checks every index into a buffer, and whether a buffer is there; a report is an IndexError
    address   gcc's address and undefined behaviour sanitizers: reads and writes outside of what was allocated, sums and
              products of signed numbers that overflow, shifts too far, divisions by zero, pointers that wrap
    sample    the checks of both in one build without optimization, which compiles in a third of the time and runs a few
              hundred inputs in seconds: for `make test`

Each lies in a directory of its own under build/, named by a hash of sources, flags and compilers: nothing is compiled
twice. A copy of setup.py with the flags of the build makes it from a copy of the sources. Overflow checks of Cython's
own are off: they also hit hashes and the arithmetic that wraps as Java's does, which the sources write with unsigned
numbers; the undefined behaviour sanitizer tells the two apart. Division stays C's in all of them for the same reason.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
KERNELS: Final = Path("formats", "kernels")
BUILDS: Final = ROOT / "build" / "kernels"
FLAGS: Final = 'FLAGS = ["-O3", "-g0"]'
UNCHECKED: Final = ('"boundscheck": False', '"initializedcheck": False')
"""What the copy of setup.py says otherwise."""
SANITIZERS: Final = ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer")


class NoCompiler(Exception):
    """The machine cannot make the build; the text has the reason."""


@dataclass(frozen=True, slots=True)
class Build:
    """One way to compile the kernels. `sanitized`: the compiler's runtime must be loaded before everything else."""

    name: str
    flags: tuple[str, ...]
    checked: bool = False
    sanitized: bool = False

    def environment(self) -> dict[str, str]:
        """Return the environment of a process that loads the build. Raises NoCompiler."""
        if not self.sanitized:
            return dict(os.environ)
        return os.environ | {
            "LD_PRELOAD": runtime(),
            # CPython keeps interned objects, and the sanitizer can watch only what malloc allocates
            "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:halt_on_error=1:allocator_may_return_null=1",
            "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
            "PYTHONMALLOC": "malloc",
        }


BOUNDS: Final = Build("bounds", ("-O1", "-g0", "-fwrapv", "-UNDEBUG"), checked=True)
ADDRESS: Final = Build("address", ("-O1", "-g1", "-fno-wrapv", "-UNDEBUG", *SANITIZERS), sanitized=True)
SAMPLE: Final = Build("sample", ("-O0", "-g0", "-fno-wrapv", "-UNDEBUG", *SANITIZERS), checked=True, sanitized=True)
FULL: Final = (BOUNDS, ADDRESS)
NAMED: Final = {build.name: build for build in (*FULL, SAMPLE)}


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
    """Return the directories of the builds, and compile missing ones. Raises NoCompiler."""
    places = [BUILDS / f"{build.name}-{_hash(build)}" for build in builds]
    for build, place in zip(builds, places, strict=True):
        if not (place / "done").exists():
            say(f"compiling the kernels for {build.name}")
            _compile(build, place)
            (place / "done").touch()
            for old in BUILDS.glob(f"{build.name}-*"):
                if old != place:
                    shutil.rmtree(old, ignore_errors=True)
    return places


def _hash(build: Build) -> str:
    if build.sanitized:
        runtime()
    digest = hashlib.sha256(repr((build, sys.version)).encode())
    digest.update(_output([compiler(), "--version"]) + _output([sys.executable, "-m", "cython", "--version"]))
    for path in sorted(_sources()):
        digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _sources() -> list[Path]:
    """Yield setup.py and the sources of the kernels' modules."""
    kinds = ("*.py", "*.pyx", "*.pxd", "*.h")
    return [ROOT / "setup.py", *(path for kind in kinds for path in (ROOT / KERNELS).rglob(kind))]


def _compile(build: Build, place: Path) -> None:
    """Run a changed copy of setup.py over a copy of the sources."""
    for path in _sources():
        copy = place / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    (place / "formats" / "__init__.py").touch()
    changes = {FLAGS: f"FLAGS = {list(build.flags)}"}
    if build.checked:
        changes |= {setting: setting.replace("False", "True") for setting in UNCHECKED}
    text = (place / "setup.py").read_text()
    for old, new in changes.items():
        assert old in text, f"setup.py does not say {old}"
        text = text.replace(old, new)
    (place / "setup.py").write_text(text)
    _output([sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"], place, os.environ | {"CC": compiler()})


def _output(command: Sequence[str], cwd: Path | None = None, env: Mapping[str, str] | None = None) -> bytes:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, check=False)
    if done.returncode:
        raise NoCompiler(f"{' '.join(command[:4])}: {done.stderr.decode(errors='replace')[-2000:]}")
    return done.stdout
