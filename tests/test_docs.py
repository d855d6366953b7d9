"""Every command in README and man pages runs, and README's outputs are what it prints.

In README: fenced blocks that begin with `$ kcli`: each command, then its output, in which a line `...` stands for
any lines and `…` in a line for any text (times, mostly). In man pages: lines `.Dl $ command`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.running import served_node

ROOT = Path(__file__).parent.parent
FINDINGS = 1


@pytest.fixture(scope="module", autouse=True)
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A broker for the examples that talk to one."""
    with served_node(tmp_path_factory.mktemp("broker")) as node, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KCLI_BOOTSTRAP_SERVER", node.bootstrap)
        yield


def run(command: str) -> subprocess.CompletedProcess[str]:
    """Run a shell line with `kcli` being ours, from the top of the project."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "NO_COLOR": "1", "COLUMNS": "120"}
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def readme_examples() -> Iterator[tuple[str, str]]:
    """Command and expected output of every example."""
    for block in re.findall(r"```\n(\$ kcli.*?)```", (ROOT / "README.md").read_text(), re.DOTALL):
        for example in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = example.partition("\n")
            yield command, output.rstrip("\n")


def manual_examples() -> Iterator[tuple[str, str]]:
    """Page and command of every example."""
    for page in sorted((ROOT / "man").glob("*.[0-9]")):
        for command in re.findall(r"^\.Dl \$ (.*)$", page.read_text(), re.MULTILINE):
            yield page.name, unescaped(command)


def unescaped(text: str) -> str:
    """A line of a man page as it is shown."""
    for escape, shown in {"\\&": "", "\\e": "\\", "\\(dq": '"', "\\(aq": "'"}.items():
        text = text.replace(escape, shown)
    return text


@pytest.mark.parametrize(("command", "output"), list(readme_examples()))
def test_readme(command: str, output: str) -> None:
    done = run(command)
    assert done.returncode in (0, FINDINGS), done.stderr
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace("…", ".*") + r"\n" for line in output.splitlines()
    )
    assert re.fullmatch(pattern, done.stdout), f"$ {command}\n{done.stdout}"


@pytest.mark.parametrize(("page", "command"), list(manual_examples()))
def test_manual(page: str, command: str) -> None:
    done = run(command)
    assert done.returncode in (0, FINDINGS), f"{page}: {done.stderr}"
    assert "Traceback" not in done.stderr


def test_there_are_examples() -> None:
    assert len(list(readme_examples())) >= 4
    assert len(list(manual_examples())) >= 8


@pytest.mark.parametrize("page", sorted((ROOT / "man").glob("kcli-*.1")), ids=lambda page: page.name)
def test_manual_names_every_option(page: Path) -> None:
    command = page.name.removeprefix("kcli-").removesuffix(".1")
    options = set(re.findall(r"(--[a-z][a-z-]+)", run(f"kcli {command} --help").stdout)) - {"--help"}
    described = page.read_text().replace("\\-", "-")
    missing = [option for option in options if f"Fl Fl {option.removeprefix('--')}" not in described]
    assert not missing
