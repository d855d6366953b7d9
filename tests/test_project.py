"""The project itself: its data is what Kafka wrote, its lock and its package hold what they should."""

import ast
import hashlib
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kcli.errors import DISTRIBUTION
from tests.conftest import GOLDEN, SAMPLES

ROOT = Path(__file__).parents[1]
PACKAGES = ("formats", "kcli", "pyspark_kafka_log")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
WITH_EXTRA = {
    "kcli/connect": "spark",
    "kcli/connect/connectors/jdbc/postgres.py": "postgres",
    "kcli/connect/connectors/postgres": "postgres",
    "kcli/export": "spark",
    "kcli/pipelines": "spark",
    "kcli/pipelines/tables": "tables",
    "kcli/registry": "registry",
    "kcli/schema_client": "registry",
    "kcli/schemas": "registry",
    "kcli/service": "registry",
    "kcli/streams/spark": "spark",
    "pyspark_kafka_log": "spark",
    "kcli/testing": "testing",
    "kcli/tier/bucket.py": "tier",
}
"""Which extra the modules below a directory, or one module, may import from, besides the dependencies of all."""

# Over every path and its bytes. A change means that git, an editor or a test has touched what only Kafka may write.
GOLDEN_SHA256 = "98f8b7068d24e97f6594dcb58907651a4bc017eaaf068d321b3b5296008d1bf7"


def locked_versions() -> dict[str, str]:
    lines = (ROOT / ".ci/dev.lock").read_text(encoding="utf-8").splitlines()
    pairs = [line.split(" ")[0].split("==") for line in lines if "==" in line and not line.startswith(" ")]
    return {canonicalize_name(name): version for name, version in pairs}


def test_golden_bytes_are_kafkas() -> None:
    digest = hashlib.sha256()
    paths = (path for path in GOLDEN.rglob("*") if path.is_file() and path.suffix not in {".md", ".py", ".pyc"})
    for name, path in sorted((path.relative_to(GOLDEN).as_posix(), path) for path in paths):
        digest.update(f"{name}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    assert digest.hexdigest() == GOLDEN_SHA256


def test_samples_are_as_their_program_makes_them() -> None:
    check = [sys.executable, str(SAMPLES / "make_samples.py"), "--check"]
    done = subprocess.run(check, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0)


def declared(extra: str | None) -> set[str]:
    """The distributions that the project requires itself, with an extra."""
    lines = [*PROJECT["dependencies"], *(PROJECT["optional-dependencies"][extra] if extra else [])]
    return {canonicalize_name(Requirement(line).name) for line in lines}


def imported(source: Path) -> Iterator[str]:
    """The modules that a module imports, wherever in it."""
    for node in ast.walk(ast.parse(source.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def sources_with(extra: str | None) -> list[Path]:
    """The modules that may rely on an extra, or those that may rely on none."""
    found = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    return [path for path in found if extra_of(path) == extra]


def extra_of(path: Path) -> str | None:
    """The extra of the innermost directory that has one."""
    inner_first = sorted(WITH_EXTRA, key=len, reverse=True)
    return next((WITH_EXTRA[each] for each in inner_first if path.is_relative_to(ROOT / each)), None)


@pytest.mark.parametrize("extra", [None, *sorted(set(WITH_EXTRA.values()))])
def test_imports_are_declared(extra: str | None) -> None:
    """Not only installed: a distribution that another one brings today need not come with it tomorrow."""
    providers = importlib.metadata.packages_distributions()
    own = {*PACKAGES, *sys.stdlib_module_names}
    undeclared = set()
    for path in sources_with(extra):
        for module in {name.partition(".")[0] for name in imported(path)} - own:
            if not {canonicalize_name(name) for name in providers.get(module, [])} & declared(extra):
                undeclared.add(f"{path.relative_to(ROOT)} imports {module}")
    assert undeclared == set()


@pytest.mark.parametrize("extra", [None, *sorted(set(WITH_EXTRA.values()))])
def test_what_is_declared_is_used(extra: str | None) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources_with(extra))
    named = set()
    for module, providers in importlib.metadata.packages_distributions().items():
        if module in text and re.search(rf"\b{re.escape(module)}\b", text):
            named |= {canonicalize_name(name) for name in providers}
    assert declared(extra) - (declared(None) if extra else set()) - named == set()


@pytest.mark.parametrize("line", [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]])
def test_lock_holds(line: str) -> None:
    requirement = Requirement(line)
    version = locked_versions().get(canonicalize_name(requirement.name))
    assert version is not None, "not in .ci/dev.lock: run make lock"
    assert version in requirement.specifier, "run make lock"


def locked_lines(lock: str) -> set[str]:
    """The requirements of a lock, each with its hashes on one line; on what systems it holds differs between locks."""
    text = (ROOT / ".ci" / lock).read_text(encoding="utf-8").replace("\\\n", "")
    lines = (" ".join(line.split()) for line in text.splitlines() if "==" in line)
    return {re.sub(r" ;.*? --hash", " --hash", line, count=1) for line in lines}


def test_locks_agree() -> None:
    """What the demo installs is what the tests run with."""
    assert locked_lines("run.lock") | locked_lines("spark.lock") <= locked_lines("dev.lock")


@pytest.mark.parametrize("line", [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["spark"]])
def test_demo_has_what_kcli_needs(line: str) -> None:
    needed = canonicalize_name(Requirement(line).name)
    assert any(each.startswith(f"{needed}==") for each in locked_lines("run.lock") | locked_lines("spark.lock"))


def test_version_is_one() -> None:
    assert importlib.metadata.version(DISTRIBUTION) == PROJECT["version"]


def test_package_holds_all_modules_and_data(tmp_path: Path) -> None:
    """What goes into a wheel beside the compiled kernels: every module, schema, type marker and manual page, no
    more; and what into the source distribution: that, and what the kernels are made of."""
    lib, data = tmp_path / "lib", tmp_path / "data"
    build = ["egg_info", "--egg-base", str(tmp_path), "build_py", "--build-lib", str(lib)]
    build += ["install_data", "--install-dir", str(data)]
    subprocess.run([sys.executable, "setup.py", "--quiet", *build], cwd=ROOT, check=True, capture_output=True)
    kinds = {".py", ".pyi", ".json", ".typed"}
    sources = {path.relative_to(ROOT) for package in PACKAGES for path in (ROOT / package).rglob("*") if path.is_file()}
    modules = {path for path in sources if path.suffix in kinds}
    assert relative_files(lib) == modules
    manuals = {path.relative_to(ROOT) for path in (ROOT / "man").iterdir()}
    assert relative_files(data) == {Path(f"share/man/man{path.suffix[1:]}") / path.name for path in manuals}

    (listed,) = tmp_path.glob("*.egg-info/SOURCES.txt")
    kernels = {path for path in sources if path.suffix in {".h", ".pxd", ".pyx"}}
    beside = {Path(n) for n in ("CHANGELOG.md", "LICENSE", "MANIFEST.in", "README.md", "pyproject.toml", "setup.py")}
    packed = {Path(line) for line in listed.read_text().splitlines() if not Path(line).is_absolute()}
    assert {path for path in packed if ".egg-info" not in str(path)} == modules | manuals | kernels | beside


def relative_files(root: Path) -> set[Path]:
    return {path.relative_to(root) for path in root.rglob("*") if path.is_file()}
