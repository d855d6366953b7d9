"""A Spark session that starts quietly, on any master, and whose errors are one sentence.

The output of the JVM and of the Python workers is written to a log file of the session, not to the terminal. If
Spark fails, the error names the cause, and --debug shows the whole log. Workers run this Python interpreter
(PYSPARK_PYTHON); executors on other machines can receive a packed Python through `SparkSettings.environment`.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kcli.errors import KcliError, NotInstalled, UsageError
from kcli.export import class_archive, warnings
from kcli.export.interrupts import held
from kcli.export.java import Java, find_java

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

LOG4J_FILE = "log4j2.properties"
WARNINGS_FILE = "warnings"
LOG4J = """rootLogger.level = warn
rootLogger.appenderRef.file.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""

TASK_ATTEMPTS = 4
QUICK_JAVA = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
QUICK_START = {JAVA_OPTIONS: QUICK_JAVA}
"""Java options for a local JVM that only schedules Python tasks: starting takes half the CPU time, sorting takes
longer."""
MASTER_TIMEOUT_S = 10
UNANSWERED = re.compile(r"An error occurred while calling \S+")
"""The whole text of py4j's error where the JVM has ended during a call."""
JVM_ENDED = "Spark's JVM ended"
WORKER_LATE = "a Python worker of Spark did not start in time, as on a machine that is too busy"
DISK_FULL = "no space left on the device"
KNOWN_REASONS = (JVM_ENDED, WORKER_LATE, DISK_FULL)
"""Reasons of a failure that need no more of Spark's log."""
NO_REASON = "it gave no reason"
QUERY_FAILED = re.compile(r"\[STREAM_FAILED\] Query \[[^\]]*\] terminated with exception: ")
ERROR_CLASS = re.compile(r"^(?:\[[A-Z][A-Z0-9_.]+\] )+")
OWN_ERROR = re.compile(r"^(?:kcli|formats)\.[\w.]+: (.+)", re.MULTILINE)
SQL_STATE = re.compile(r" SQLSTATE: \w{5}\s*$")
QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.structuredLogging.enabled": "false",
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    "spark.python.worker.reuse": "true",
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "10",
}
"""What jobs of kcli do not need, Spark does not do. It keeps a thousand jobs with their tasks otherwise, also without
its user interface."""


class SparkFailed(KcliError):
    """Spark could not start, or a Spark job failed. `trace`: Spark's error text and log, shown with --debug. is_of_job:
    whether the job's own code raised the error; otherwise Spark failed, and the same job may succeed the next time."""

    def __init__(self, reason: str, trace: str = "", *, is_of_job: bool = True) -> None:
        super().__init__(reason)
        self.trace = trace
        self.is_of_job = is_of_job


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to start Spark. master: Spark's master URL. conf: further Spark properties. environment: an archive of a
    Python environment, which executors unpack and run; None to run this Python interpreter. warn: called, in another
    thread, with each warning of Spark's Python processes on this machine; None to leave them in Spark's log."""

    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)
    environment: str | None = None
    warn: Callable[[str], None] | None = None

    @property
    def is_local(self) -> bool:
        """Whether Spark's workers are processes on this machine, which can read its files."""
        return self.master.startswith("local")

    @property
    def is_one_process(self) -> bool:
        """Whether driver and executor are one JVM (master `local` or `local[N]`)."""
        return re.match(r"local(\[|$)", self.master) is not None


def needs(*modules: str) -> None:
    """Raise NotInstalled for the first of these Python modules that is not installed."""
    for module in modules:
        if importlib.util.find_spec(module) is None:
            raise NotInstalled(module, "spark")


def _checked_master(master: str) -> str:
    """Return the master URL to give to Spark; `local[N]` becomes `local[N,4]`, so that Spark retries a failed task.

    For a standalone master (spark://host:port), connect to it first: if it does not answer, Spark takes 90 s to fail,
    and then names another cause. Raises UsageError for an unknown master, SparkFailed if no standalone master answers.
    """
    if re.fullmatch(r"local(\[(\d+|\*)\])?", master):
        cores = "1" if master == "local" else master[6:-1]
        return f"local[{cores},{TASK_ATTEMPTS}]"
    if re.fullmatch(r"local\[(\d+|\*),\d+\]|local-cluster\[\d+,\d+,\d+\]|yarn|k8s://.+", master):
        return master
    if not re.fullmatch(r"spark://[^:,/]+:\d+(,[^:,/]+:\d+)*", master):
        known = "local[4], local[*], spark://host:port, yarn, k8s://..."
        raise UsageError(f"--master {master!r} is no master that Spark knows: {known}")
    reasons = []
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), MASTER_TIMEOUT_S).close()
        except (OSError, OverflowError) as error:
            reasons.append(f"{address}: {getattr(error, 'strerror', None) or error}")
        else:
            return master
    raise SparkFailed(f"no Spark master answers: {'; '.join(reasons)}")


@contextmanager
def spark_session(settings: SparkSettings) -> Iterator[SparkSession]:
    """Start Spark with Spark SQL, and stop it at the end of the `with`. Raises as spark_context does."""
    with spark_context(settings) as context:
        from pyspark.sql import SparkSession

        session = SparkSession(context)
        try:
            yield session
        finally:
            with suppress(Exception):  # a JVM that has died cannot be stopped
                session.stop()


@contextmanager
def spark_context(settings: SparkSettings) -> Iterator[SparkContext]:
    """Start Spark without Spark SQL, which saves a third of the start's time; stop Spark at the end of the `with`.

    Raises UsageError (no Java, an unknown master), NotInstalled (pyspark, pyarrow) and SparkFailed, also for errors of
    Spark's that the body of the `with` raises.
    """
    needs("pyspark", "pyarrow")
    settings = replace(settings, master=_checked_master(settings.master))
    scratch = Path(tempfile.mkdtemp(prefix="kcli-spark-"))
    log = scratch / "spark.log"
    root = logging.getLogger()
    root.addFilter(_is_not_py4j)
    try:
        java = find_java()
        with _environment(settings, java, scratch), held() as interrupt:
            context = _start(settings, java, scratch, log)
        try:
            interrupt.deliver()
            with nullcontext() if settings.warn is None else warnings.told(scratch / WARNINGS_FILE, settings.warn):
                yield context
        except KcliError:
            raise
        except Exception as error:
            reason = cause(error)  # before Spark stops: str() of its errors calls the JVM
            if reason is None:
                raise
            text = _text(error)
            raise SparkFailed(reason, _tail(log, text), is_of_job=OWN_ERROR.search(text) is not None) from error
        finally:
            _stop(context)
    finally:
        root.removeFilter(_is_not_py4j)
        shutil.rmtree(scratch, ignore_errors=True)


def _is_not_py4j(record: logging.LogRecord) -> bool:
    """Whether a log record is not from py4j, which logs a trace of each failed call that it also raises as an error."""
    return "py4j" not in Path(record.pathname).parts


def interruptible(context: SparkContext) -> AbstractContextManager[None]:
    """Turn Ctrl-C inside the `with` into a stop of Spark, which ends the waiting py4j call, then a KeyboardInterrupt.

    A KeyboardInterrupt raised at once, in the middle of a py4j call, would come out as one of several other errors.
    """
    # context.stop() also forgets the JVM, which the waiting thread talks to
    return stopped_by_interrupt(context._jsc.stop)  # noqa: SLF001


@contextmanager
def stopped_by_interrupt(stop: Callable[[], None]) -> Iterator[None]:
    """On Ctrl-C inside the `with` block, call `stop` in another thread, which ends the call that the block waits for;
    then raise KeyboardInterrupt."""

    def stop_if_there() -> None:
        with suppress(Exception):  # the JVM may have ended already
            stop()

    with held(stop_if_there) as interrupt:
        try:
            yield
        except Exception:
            interrupt.deliver()
            raise
    interrupt.deliver()


@contextmanager
def _environment(settings: SparkSettings, java: Java, scratch: Path) -> Iterator[None]:
    """Set the environment variables that PySpark and its launcher read while the JVM starts; restore them at the
    end."""
    given = os.environ.get("SPARK_CONF_DIR")
    conf = class_archive.configuration_directory() if settings.is_one_process and not given else None
    if conf is None:
        conf = scratch / "conf"
        conf.mkdir()
        if given and Path(given).is_dir():
            for each in Path(given).iterdir():
                if each.is_file() and not each.name.startswith("log4j"):
                    shutil.copy(each, conf)
        (conf / LOG4J_FILE).write_text(LOG4J)
    python = "./environment/bin/python" if settings.environment else sys.executable
    environment = {
        "JAVA_HOME": str(java.spark_home(scratch)),
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LAUNCHER_OPTS": QUICK_JAVA,
        "PYSPARK_PYTHON": python,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if settings.warn is not None:
        environment[warnings.VARIABLE] = str(scratch / WARNINGS_FILE)
    if settings.is_local:
        environment.setdefault("SPARK_LOCAL_IP", os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"))
    before = {name: os.environ.get(name) for name in environment}
    os.environ.update(environment)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _start(settings: SparkSettings, java: Java, scratch: Path, log: Path) -> SparkContext:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False)
    values = QUIET | {"spark.master": settings.master, "spark.app.name": "kcli", **settings.conf}
    values.setdefault("spark.local.dir", str(scratch))
    if settings.is_local and not settings.environment:
        values.setdefault("spark.python.daemon.module", "kcli.export.daemon")
    if settings.environment:
        values["spark.archives"] = f"{settings.environment}#environment"
    if settings.is_one_process:
        (scratch / LOG4J_FILE).write_text(LOG4J)
        given = values.get(JAVA_OPTIONS, "")
        log_options = shlex.quote(f"-Dlog4j2.configurationFile={scratch / LOG4J_FILE}")
        values[JAVA_OPTIONS] = " ".join(filter(None, [given, log_options, class_archive.options(java)]))
    for name, value in values.items():
        conf.set(name, value)
    with log.open("ab") as output:
        try:
            gateway = launch_gateway(conf, {"stdout": output, "stderr": output})  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            text = log.read_text(errors="replace")
            reason = cause(error) or _cause(text)
            raise SparkFailed(f"Spark does not start: {reason}", f"{error}\n{text}") from error
    context.setLogLevel("ERROR")
    return context


def _stop(context: SparkContext) -> None:
    gateway: Any = context._gateway  # noqa: SLF001 (there is no other way to end the JVM)
    with held():
        try:
            context.stop()
            gateway.shutdown()
        except Exception:  # noqa: BLE001, S110 (a JVM that has died cannot be stopped)
            pass
        process = getattr(gateway, "proc", None)
        if process is not None:
            process.stdin.close()
            process.wait()
        _forget_gateway()


def _forget_gateway() -> None:
    from pyspark import SparkContext

    SparkContext._gateway = None  # noqa: SLF001 (so that another session of this process starts its own)
    SparkContext._jvm = None  # noqa: SLF001 (so that another session of this process starts its own)


def _text(error: Exception) -> str:
    """Return the text of an error, which Spark's JVM may have: then an empty one if the JVM has ended."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 (py4j raises many)
        return ""


def _tail(log: Path, text: str) -> str:
    try:
        return f"{text}\n{log.read_text(errors='replace')}"
    except OSError:
        return text


def cause(error: BaseException) -> str | None:
    """Return the cause of an error of PySpark or py4j in one sentence; None for any other error."""
    if isinstance(error, ConnectionError) and _is_of_py4j(error):
        return JVM_ENDED
    if not type(error).__module__.startswith(("pyspark", "py4j")):
        return None
    java = getattr(error, "java_exception", None)
    try:
        text = str(error) if java is None else f"{java.toString()}\n{error}"
    except Exception:  # noqa: BLE001 (the text is in the JVM, which is gone)
        return JVM_ENDED
    if "Py4JNetworkError" in type(error).__name__ or "Answer from Java side is empty" in text:
        return JVM_ENDED
    if UNANSWERED.fullmatch(text.strip()):
        return JVM_ENDED
    return _cause(text)


def _is_of_py4j(error: BaseException) -> bool:
    """Whether py4j's connection to the JVM has raised an error."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return at is not None and at.tb_frame.f_globals["__name__"].startswith("py4j.")


def _cause(text: str) -> str:
    """Return the line of a Java or Python trace that names the cause of the failure, as a reason for the user; "it gave
    no reason" if no line names one."""
    if "No space left on device" in text:
        return DISK_FULL
    if "OutOfMemoryError" in text:
        return "Java ran out of memory; give it more with --spark-conf spark.driver.memory=4g"
    own_errors = OWN_ERROR.findall(text)
    if own_errors:
        return str(own_errors[-1]).strip()
    if "Python worker failed to connect back" in text:
        return WORKER_LATE
    causes = re.findall(r"Caused by: (?:[\w.$]+: )?(.+)", text)
    if causes:
        return _plain(str(causes[-1]))
    for line in text.splitlines():
        found = re.sub(r"^(?:Exception in thread \S+ |Error: )?(?:[\w.$]+(?:Exception|Error): )*", "", line)
        found = _plain(found)
        if found and not found.startswith(("at ", "An error occurred", "Traceback", "File ")):
            return found
    return NO_REASON


def _plain(line: str) -> str:
    """Return a line of Spark's without the names, ids and codes by which Spark knows the error."""
    return SQL_STATE.sub("", ERROR_CLASS.sub("", QUERY_FAILED.sub("", line.strip()))).strip()
