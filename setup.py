"""Compiles the kernels: each .pyx in a room of kernels becomes an extension module. The rest: pyproject.toml."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

KERNELS = Path("formats/kernels")
ROOMS = KERNELS, Path("kcli/streams/kernels")
CORES = os.cpu_count() or 1

# What Cython adds to every module that takes buffers, compiled once for all of them.
SHARED = "formats.kernels.cython_shared"

DIRECTIVES = {
    "language_level": "3",
    "auto_pickle": False,
    "boundscheck": False,
    "cdivision": True,
    "initializedcheck": False,
    "wraparound": False,
}

FLAGS = ["-O3", "-g0"]


def extension(source: Path) -> Extension:
    """A module that is compiled anew when its source, a .pxd that it cimports or a C header has changed."""
    name = ".".join(source.with_suffix("").parts)
    headers = [str(path) for path in KERNELS.rglob("*.h")]
    return Extension(name, [str(source)], depends=headers, extra_compile_args=FLAGS, extra_link_args=FLAGS)


if __name__ == "__main__":
    # The largest first: then no core waits for another at the end.
    found = [path for room in ROOMS for path in room.rglob("*.pyx")]
    sources = sorted(found, key=lambda path: (-path.stat().st_size, path))
    kernels = [extension(path) for path in (*sources, KERNELS / "cython_shared.c")]
    setup(
        ext_modules=cythonize(
            kernels, compiler_directives=DIRECTIVES, nthreads=CORES, shared_utility_qualified_name=SHARED
        ),
        options={"build_ext": {"parallel": CORES}},
    )
