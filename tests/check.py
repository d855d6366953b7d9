"""The tests near what changed, the nearest first, within 75 seconds: the last part of `make check`.

    python -m tests.check [--since REVISION] [--seconds N] [--list] [FILE...]

Changed is what git finds different from REVISION, and what is untracked. The default REVISION is the commit where the
branch left main; on main itself it is the last commit. A changed file's tests are

    a test file       itself
    any other module  test files of its name (kcli/log/recovery/loader.py: test_loader*.py), and the nearest importers:
                      the test files that import it, themselves or through a helper of the tests, those of its room
                      (kcli/log/recovery: tests/log/recovery) first; where there are none those that import its
                      importers, and so on; a module that nothing imports: test files that name it
    any other file    what OTHERS says, else test files that name it

The 40 nearest files are run. Tests against real Kafka are left to `make test`, and so are tests that have not begun
when the time is over; pytest counts the latter as skipped.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from fnmatch import fnmatch
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("formats", "kcli", "pyspark_kafka_log", "tests")
SECONDS = 75.0
FILES = 40
"""How many test files are run: collecting more takes the time in which their tests could begin."""
ENDS = "KCLI_CHECK_ENDS"
"""Environment variable: when no further test begins, in seconds since 1970."""

OTHERS = {
    "*.md": ("tests/test_architecture.py", "tests/test_docs.py"),
    "docs/*": ("tests/test_docs.py",),
    "man/*": ("tests/test_docs.py", "tests/test_manuals.py"),
    "samples/*": ("tests/test_project.py", "tests/test_docs.py"),
    "pyproject.toml": ("tests/test_project.py",),
    "setup.py": ("tests/test_project.py",),
    "MANIFEST.in": ("tests/test_project.py",),
    ".ci/*": ("tests/test_project.py",),
    "formats/kernels/*": ("tests/formats/kernels/test_*.py",),
    "kcli/streams/kernels/*": ("tests/streams/test_cases.py", "tests/streams/test_kernels.py"),
    "formats/schemas/*": ("tests/formats/test_*.py",),
    "tests/transcripts/*": ("tests/cli/test_transcripts.py",),
}


def git(*arguments: str) -> list[str]:
    """The lines that a git command prints."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def left_main() -> str:
    """The commit where the branch left main: the last one on main itself, and where no main is known."""
    for main in ("origin/main", "main"):
        if found := git("merge-base", "HEAD", main):
            return found[0]
    return "HEAD"


def changed_files(since: str) -> list[str]:
    """Paths of the files that differ from a revision, and of those that git does not track."""
    return sorted({*git("diff", "--name-only", since), *git("ls-files", "--others", "--exclude-standard")})


class NearTests:
    """The test files of the project, and how near each is to a file."""

    def __init__(self) -> None:
        self._graph = grimp.build_graph(*PACKAGES, cache_dir=str(ROOT / ".import_linter_cache"))
        self._texts = {path: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("tests/**/test_*.py"))}
        self._by_module = {module_of(self._relative(path)): path for path in self._texts}

    def near(self, changed: Iterable[str]) -> list[str]:
        """The test files near any of these paths, the nearest first."""
        distances: dict[str, int] = {}
        for path in changed:
            for test, distance in self._near_one(path):
                distances[test] = min(distance, distances.get(test, distance))
        return sorted(distances, key=lambda test: (distances[test], test))

    def _near_one(self, path: str) -> Iterator[tuple[str, int]]:
        if path.endswith((".py", ".pyi")):
            found = list(self._near_module(path))
        else:
            patterns = [each for pattern, tests in OTHERS.items() if fnmatch(path, pattern) for each in tests]
            found = [(self._relative(each), 1) for pattern in patterns for each in ROOT.glob(pattern)]
        yield from found or self._naming(path)

    def _near_module(self, path: str) -> Iterator[tuple[str, int]]:
        module, name = module_of(path), Path(path).stem
        if module in self._by_module:
            yield path, 0
            return
        for test in self._texts:
            if re.fullmatch(rf"test_{re.escape(name)}(_\w+)?", test.stem):
                yield self._relative(test), 1
        room = Path("tests", *Path(path).parts[path.startswith("kcli/") :][:-1])
        seen, level, distance = {module}, {module} & self._graph.modules, 2
        while level:
            level = self._importers(level, seen)
            if tests := level & self._by_module.keys():
                paths = [self._relative(self._by_module[each]) for each in tests]
                yield from ((each, distance + (not Path(each).is_relative_to(room))) for each in paths)
                return
            distance += 2

    def _importers(self, modules: Iterable[str], seen: set[str]) -> set[str]:
        """The modules not seen yet that import one of these, themselves or through a helper of the tests."""
        found: set[str] = set()
        due = list(modules)
        while due:
            for each in self._graph.find_modules_that_directly_import(due.pop()) - seen:
                seen.add(each)
                found.add(each)
                if each.startswith("tests.") and each not in self._by_module:
                    due.append(each)
        return found

    def _naming(self, path: str) -> Iterator[tuple[str, int]]:
        """The test files that have a file's name in their text."""
        word = re.compile(rf"\b{re.escape(name_of(path))}\b")
        yield from ((self._relative(each), 4) for each, text in self._texts.items() if word.search(text))

    def _relative(self, path: Path) -> str:
        return path.relative_to(ROOT).as_posix()


def module_of(path: str) -> str:
    """The dotted name of the module in a file."""
    return re.sub(r"(/__init__)?\.pyi?$", "", path).replace("/", ".")


def name_of(path: str) -> str:
    """Return the name of a file in tests: for golden data that of the set, for a module its own, else the file's."""
    parts = Path(path).parts
    if parts[:2] == ("tests", "golden"):
        return parts[2]
    return Path(path).stem if path.endswith(".py") else parts[-1]


def main() -> int:
    """Choose the tests, and run them."""
    parser = argparse.ArgumentParser(description="run the tests near what changed")
    parser.add_argument("--since", metavar="REVISION", help="where changes count from; default: where main was left")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="no test begins later (default: %(default)g)")
    parser.add_argument("--list", action="store_true", help="print the test files, and run none")
    parser.add_argument("file", nargs="*", help="changed files, in place of what git finds")
    options = parser.parse_args()
    changed = options.file or changed_files(options.since or left_main())
    chosen = NearTests().near(changed)
    print(f"{len(changed)} changed files, {len(chosen)} test files near them, {min(len(chosen), FILES)} of them run")
    if options.list or not chosen:
        print("\n".join(chosen))
        return 0
    os.environ[ENDS] = str(time.time() + options.seconds)
    run = [sys.executable, "-m", "pytest", "-p", "tests.check", "-m", "not kafka", "-q", "-n", "auto"]
    done = subprocess.run([*run, "--dist", "load", "--maxschedchunk", "1", *chosen[:FILES]], cwd=ROOT, check=False)
    return 0 if done.returncode == pytest.ExitCode.NO_TESTS_COLLECTED else done.returncode


# hooks of pytest, which loads this module as a plugin in each of its processes


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Keep the nearest test files first, where tests/conftest.py would begin with the longest."""
    places = {path: place for place, path in enumerate(dict.fromkeys(item.path for item in items))}
    yield
    items.sort(key=lambda item: places[item.path])


def pytest_runtest_setup() -> None:
    """Skip the test if the time is over."""
    if time.time() > float(os.environ[ENDS]):
        pytest.skip("the time of make check is over: make test runs it")


if __name__ == "__main__":
    sys.exit(main())
