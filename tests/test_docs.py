"""Every command in README, docs and man pages runs; the pages show what it prints.

A page (README.md, docs/*.md) is one session in an empty directory with links to samples and tests. Its fenced blocks:

    ```python        a block whose first line is `# NAME.py` is that file
    ```              lines `$ command`, each followed by what the command prints, in which a line `...` stands for any
                     lines and `…` in a line for any text (times, mostly)

`$ kcli serve ... &` runs until the page ends, on free ports that the page shows as 9092 and following, its registry as
8081; later commands talk to it. A command in an indented line does not run, but must exist with its options. In man
pages the commands are the lines `.Dl $ command`.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.export.session import QUICK_JAVA
from samples import make_picture
from tests.broker.running import served_node
from tests.cli.options import command_of, options_of

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(?P<language>\w*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
FINDINGS = 1
FIRST_PORT = 9092
REGISTRY = "127.0.0.1:8081"


@pytest.fixture(scope="module", autouse=True)
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A broker for the examples that talk to one."""
    with served_node(tmp_path_factory.mktemp("broker")) as node, pytest.MonkeyPatch.context() as patch:
        patch.setenv("KCLI_BOOTSTRAP_SERVER", node.bootstrap)
        yield


def environment() -> dict[str, str]:
    """Variables with which `kcli` is this project's, and prints 120 columns without colours; Spark of a page's own
    starts as kcli starts it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "NO_COLOR": "1", "COLUMNS": "120", "JDK_JAVA_OPTIONS": QUICK_JAVA}


def run(command: str, directory: Path = ROOT, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a shell line in a directory."""
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=directory,
        env=environment() | variables,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """Language ("" for none) and text of each fenced block."""
    for block in BLOCK.finditer(page.read_text()):
        yield block["language"], block["body"]


def examples(page: Path) -> Iterator[tuple[str, str]]:
    """Command and expected output of each example."""
    for language, body in blocks(page):
        if not language and body.startswith("$ "):
            for example in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, output = example.partition("\n")
                yield command, output.rstrip("\n")


def shown_commands(page: Path) -> Iterator[str]:
    """The commands of kcli in indented lines, which no test runs."""
    text = BLOCK.sub("", page.read_text())
    for line in re.findall(r"^    (kcli .*)$", text, re.MULTILINE):
        yield line.partition(" #")[0].rstrip()


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


class Session:
    """The commands of one page, in a directory of its own, with the node that one of them has started."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._node: subprocess.Popen[str] | None = None
        self._ports: list[str] = []
        self._variables: dict[str, str] = {}
        self._registry = REGISTRY

    def check(self, command: str, output: str) -> None:
        """Run a command, and compare what it prints with the page."""
        if command.endswith(" &"):
            printed = self._start(command.removesuffix(" &"))
        else:
            done = run(command.replace(REGISTRY, self._registry), self._directory, **self._variables)
            assert done.returncode in (0, FINDINGS), f"$ {command}\n{done.stderr}"
            printed = done.stdout
        pattern = "".join(
            r"(?:.*\n)*?" if line == "..." else re.escape(line).replace("…", ".*") + r"\n"
            for line in output.splitlines()
        )
        printed = self._as_shown(printed)
        assert re.fullmatch(pattern, printed), f"$ {command}\n{printed}"

    def _start(self, command: str) -> str:
        """Start `kcli serve` on free ports, in place of the last one; returns its ready line."""
        self.close()
        with (self._directory / "serve.log").open("wb") as log:
            self._node = subprocess.Popen(
                ["bash", "-c", f"exec {command.replace(REGISTRY, '127.0.0.1:0')} --listen 127.0.0.1:0"],
                cwd=self._directory,
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert self._node.stdout is not None
        ready = self._node.stdout.readline()
        assert ready, (self._directory / "serve.log").read_text()
        addresses = ready.split()[2]
        self._ports = [address.rpartition(":")[2] for address in addresses.split(",")]
        self._variables["KCLI_BOOTSTRAP_SERVER"] = addresses
        if " --registry " in command:
            ready += self._node.stdout.readline()
            url = ready.split()[-1]
            self._registry = url.removeprefix("http://")
            self._variables["KCLI_REGISTRY_URL"] = url
        return self._as_shown(ready, in_columns=False)

    def _as_shown(self, printed: str, *, in_columns: bool = True) -> str:
        """Output with the ports that a page shows, and the columns of a table as wide as they were."""
        printed = printed.replace(self._registry, REGISTRY)
        for i, port in enumerate(self._ports):
            shown = str(FIRST_PORT + i)
            padded = shown.ljust(len(port)) if in_columns else shown
            printed = printed.replace(f":{port}  ", f":{padded}  ").replace(f":{port}", f":{shown}")
        return printed

    def close(self) -> None:
        """Stop the node, if a command has started one."""
        if self._node is not None:
            self._node.send_signal(signal.SIGTERM)
            self._node.communicate(timeout=60)
            self._node = None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_page(page: Path, tmp_path: Path) -> None:
    for name in ("samples", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    for language, body in blocks(page):
        if language == "python" and (named := re.match(r"# (\w+\.py)\n", body)):
            (tmp_path / named[1]).write_text(body)
    session = Session(tmp_path)
    try:
        for command, output in examples(page):
            session.check(command, output)
    finally:
        session.close()


@pytest.mark.parametrize("command", sorted({command for page in PAGES for command in shown_commands(page)}))
def test_a_command_that_is_shown_exists(command: str) -> None:
    words = command.split()[1:]
    given = {word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)}
    assert given <= options_of(command_of(words))


@pytest.mark.parametrize(("page", "command"), list(manual_examples()))
def test_manual(page: str, command: str) -> None:
    done = run(command)
    assert done.returncode in (0, FINDINGS), f"{page}: {done.stderr}"
    assert "Traceback" not in done.stderr


def test_there_are_examples() -> None:
    assert sum(len(list(examples(page))) for page in PAGES) >= 30
    assert sum(len(list(shown_commands(page))) for page in PAGES) >= 10
    assert len(list(manual_examples())) >= 8


FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")


def test_figures_are_in_the_tables_of_the_benchmarks() -> None:
    """Each figure of README is one of the linked table's, rounded."""
    rows = re.findall(r"^\|(.*)\| \[\w+\]\((tests/bench/\w+\.md)\) \|$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert len(rows) > 8
    for row, table in rows:
        measured = {float(each.replace(",", "")) for each in FIGURE.findall((ROOT / table).read_text())}
        _, *cells = row.split("|")
        for figure in FIGURE.findall(" ".join(cells)):
            shown, digits = float(figure.replace(",", "")), len(re.sub(r"[,.]", "", figure).strip("0"))
            assert any(float(f"{each:.{max(digits, 1)}g}") == shown for each in measured), f"{figure} is not in {table}"


def test_the_picture_is_what_a_terminal_shows() -> None:
    drawn = (ROOT / "samples/kcli.svg").read_text()
    assert without_times(make_picture.picture()) == without_times(drawn), "run: python samples/make_picture.py"


def without_times(picture: str) -> str:
    """A picture without the seconds that a command took, and without the name that rich makes of all of its text."""
    return re.sub(r"terminal-\d+", "terminal", re.sub(r"\d+\.\d+(&#160;| )s", "0.00 s", picture))


def test_the_reference_is_what_the_docstrings_say() -> None:
    check = [sys.executable, str(ROOT / "docs/make_reference.py"), "--check"]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
