"""The compiled part of the build: each formats/kernels/*.pyx becomes an extension module. The rest: pyproject.toml."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

KERNELS = Path("formats/kernels")

# The C headers and Cython includes beside the kernels: a change in one rebuilds them all.
SHARED = [str(path) for pattern in ("*.h", "*.pxi") for path in KERNELS.glob(pattern)]


def extension(source: Path) -> Extension:
    name = ".".join(source.with_suffix("").parts)
    return Extension(name, [str(source)], depends=SHARED, extra_compile_args=["-O3", "-g0"])


kernels = [extension(source) for source in sorted(KERNELS.glob("*.pyx"))]
setup(
    ext_modules=cythonize(kernels, compiler_directives={"language_level": "3"}),
    options={"build_ext": {"parallel": os.cpu_count() or 1}},
)
