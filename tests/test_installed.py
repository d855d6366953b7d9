"""kcli in an environment that has only what it declares to need. `make wheel` does the same with the wheel and PyPI: it
alone tries Spark, which takes minutes."""

import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from kcli.errors import DISTRIBUTION
from tests.test_project import PACKAGES, PROJECT, ROOT

COMMAND = """#!/bin/sh
exec "$(dirname "$0")/python" -m kcli "$@"
"""


def with_what_they_need(lines: Iterable[str]) -> set[str]:
    """The distributions that requirements stand for, and all that those require."""
    found: set[tuple[str, str]] = set()
    due = [Requirement(line) for line in lines]
    while due:
        requirement = due.pop()
        for extra in ("", *requirement.extras):
            key = canonicalize_name(requirement.name), extra
            if key not in found:
                found.add(key)
                further = map(Requirement, distribution(key[0]).requires or ())
                due += [each for each in further if each.marker is None or each.marker.evaluate({"extra": extra})]
    return {name for name, _ in found}


def environment(root: Path, extras: str | None) -> Path:
    """Make an environment with kcli, what it declares and nothing else, as links; returns where its programs are."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root)], check=True)
    (site,) = root.glob("lib/python*/site-packages")
    declared = [*PROJECT["dependencies"]]
    for extra in extras.split(",") if extras else ():
        declared += PROJECT["optional-dependencies"][extra]
    for name in with_what_they_need(declared):
        found = distribution(name)
        for top in {file.parts[0] for file in found.files or ()} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(found.locate_file(top))))
    for package in PACKAGES:
        (site / package).symlink_to(ROOT / package)
    described = site / f"kafka_kcli-{PROJECT['version']}.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {DISTRIBUTION}\nVersion: {PROJECT['version']}\n")
    plugins = PROJECT["entry-points"]["pytest11"].items()
    (described / "entry_points.txt").write_text("\n".join(["[pytest11]", *(" = ".join(each) for each in plugins)]))
    command = root / "bin" / "kcli"
    command.write_text(COMMAND)
    command.chmod(0o755)
    return command.parent


@pytest.mark.parametrize("extras", [None, "testing", "tier"])
def test_what_is_declared_is_enough(extras: str | None, tmp_path: Path) -> None:
    programs = environment(tmp_path / "venv", extras)
    use: list[str | Path] = [ROOT / ".ci/use-installed", programs, *([extras] if extras else [])]
    done = subprocess.run(use, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
