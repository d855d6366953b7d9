"""The project itself: its data is what Kafka wrote, its lock and its package hold what they should."""

import hashlib
import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.conftest import GOLDEN, SAMPLES

ROOT = Path(__file__).parents[1]
PACKAGES = ("formats", "kcli", "pyspark_kafka_log")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]

# Over every path and its bytes. A change means that git, an editor or a test has touched what only Kafka may write.
GOLDEN_SHA256 = "6cd54374d26fae86a6e7ffc2f1162dc575683996df43d2fa9b61c680df8dd299"


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


@pytest.mark.parametrize("line", [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]])
def test_lock_holds(line: str) -> None:
    requirement = Requirement(line)
    version = locked_versions().get(canonicalize_name(requirement.name))
    assert version is not None, "not in .ci/dev.lock: run make lock"
    assert version in requirement.specifier, "run make lock"


def test_version_is_one() -> None:
    assert importlib.metadata.version("kcli") == PROJECT["version"]


def test_package_holds_all_modules_and_data(tmp_path: Path) -> None:
    """What goes into a wheel beside the compiled kernels: every module, schema and type marker, and nothing else."""
    build = ["egg_info", "--egg-base", str(tmp_path), "build_py", "--build-lib", str(tmp_path / "lib")]
    subprocess.run([sys.executable, "setup.py", "--quiet", *build], cwd=ROOT, check=True, capture_output=True)
    packed = {path.relative_to(tmp_path / "lib").as_posix() for path in (tmp_path / "lib").rglob("*") if path.is_file()}
    kinds = {".py", ".pyi", ".json", ".typed"}
    sources = (path for package in PACKAGES for path in (ROOT / package).rglob("*") if path.suffix in kinds)
    assert packed == {path.relative_to(ROOT).as_posix() for path in sources}
