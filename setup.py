"""The compiled part of the build: every formats/kernels/*.pyx becomes one extension module. All else is in pyproject.toml."""

from glob import glob

from Cython.Build import cythonize
from setuptools import Extension, setup


def extension(source: str) -> Extension:
    """The extension of one .pyx; its neighbours' C headers are dependencies, so that a changed header rebuilds it."""
    name = source.removesuffix(".pyx").replace("/", ".")
    return Extension(name, [source], depends=glob("formats/kernels/*.h"), extra_compile_args=["-O3"])


kernels = [extension(source) for source in sorted(glob("formats/kernels/*.pyx"))]
setup(ext_modules=cythonize(kernels, compiler_directives={"language_level": "3"}))
