"""The commands that start each client's program; what a program needs is built or fetched once, outside the
repository."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tests.interop import kit

HERE = Path(__file__).parent
FETCH_TIMEOUT_S = 300.0
REGISTRY_PACKAGES = (
    "attrs",
    "authlib",
    "cachetools",
    "certifi",
    "fastavro",
    "googleapis-common-protos",
    "grpcio-tools",
    "httpx",
    "jsonschema",
)
"""What confluent-kafka's registry client, its serializers and the program on them need."""


class ToolchainMissing(Exception):
    """The client cannot run here; the message says why."""


def python_registry() -> list[str]:
    """Return the command for confluent-kafka's registry client, which needs packages that it does not bring itself."""
    for each in REGISTRY_PACKAGES:
        try:
            version(each)
        except PackageNotFoundError:
            raise ToolchainMissing(f"{each} is not installed") from None
    return python("registry")()


def python(module: str) -> Callable[[], list[str]]:
    """A program of python/."""
    return lambda: [sys.executable, "-m", f"tests.interop.clients.python.{module}"]


def java(program: str = "JavaClient", more_jars: Path | None = None) -> list[str]:
    """Return the command for Kafka's own client, which `java` compiles from java/. more_jars: as for kit.java."""
    try:
        jars = kit.set_up()
    except kit.KafkaUnavailableError as unavailable:
        raise ToolchainMissing(str(unavailable)) from None
    options = ["-Xmx256M", "-Dfile.encoding=UTF-8", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    return kit.java(jars, HERE / "java" / f"{program}.java", *options, more_jars=more_jars)


def java_registry() -> list[str]:
    """Return the command for Confluent's own registry client, in the jars that registry-pom.xml names."""
    pom = HERE / "java" / "registry-pom.xml"
    _need("mvn")

    def build(directory: Path) -> None:
        copy = ["dependency:copy-dependencies", f"-DoutputDirectory={directory}"]
        _fetch(["mvn", "-q", "-B", "-f", str(pom), *copy], directory)

    return java("JavaRegistry", kit.built("java-registry", [pom], build))


def go() -> list[str]:
    """Return the command for franz-go's program, built from go/ with the modules of go.sum."""
    _need("go")
    sources = HERE / "go"

    def build(directory: Path) -> None:
        _fetch(["go", "mod", "download"], sources)
        command = ["go", "build", "-trimpath", "-buildvcs=false", "-o", str(directory / "client"), "."]
        subprocess.run(command, cwd=sources, check=True)

    return [str(kit.built("go", sources.iterdir(), build) / "client")]


def node(program: str = "client") -> list[str]:
    """kafkajs, with the packages that package-lock.json names."""
    _need("node")
    _need("npm")
    sources = HERE / "node"
    packages = [sources / "package.json", sources / "package-lock.json"]

    def build(directory: Path) -> None:
        for path in packages:
            shutil.copy(path, directory)
        _fetch(["npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"], directory)

    modules = kit.built("node", packages, build) / "node_modules"
    return ["env", f"NODE_PATH={modules}", "node", str(sources / f"{program}.js")]


def _need(program: str) -> None:
    if shutil.which(program) is None:
        raise ToolchainMissing(f"no {program} on the PATH")


def _fetch(command: list[str], directory: Path) -> None:
    """Run a command that needs a registry. Raises ToolchainMissing if it fails, since there may be no network."""
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise ToolchainMissing(f"{command[0]} cannot fetch packages in {FETCH_TIMEOUT_S:.0f} s") from None
    if done.returncode:
        raise ToolchainMissing(f"{command[0]} cannot fetch packages: {(done.stderr or done.stdout).strip()[-500:]}")
