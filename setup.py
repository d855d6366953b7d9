"""The compiled part of the build: every formats/kernels/*.pyx becomes one extension module. All else is in pyproject.toml."""

from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup

# The C headers and Cython includes beside the kernels: a change in one rebuilds them all.
SHARED = [*glob("formats/kernels/*.h"), *glob("formats/kernels/*.pxi")]


def extension(source: str) -> Extension:
    name = source.removesuffix(".pyx").replace("/", ".")
    return Extension(name, [source], depends=SHARED, extra_compile_args=["-O3"])


kernels = [extension(source) for source in sorted(glob("formats/kernels/*.pyx"))]
setup(ext_modules=cythonize(kernels, compiler_directives={"language_level": "3"}))
