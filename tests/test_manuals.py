"""Man pages agree with the commands: every option with its spellings, choices, bounds and default, and no other."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.options import commands, options_of
from tests.test_docs import unescaped

ROOT = Path(__file__).parent.parent
COMMANDS = sorted({name.partition(" ")[0] for name in commands()})
INT32_MAX = 2**31 - 1
OBVIOUS: set[Any] = {None, 0, 1, INT32_MAX}
"""Bounds that a page need not state."""
IN_WORDS = {("produce", "--delimiter"): "newline", ("cluster status", "--interval"): "every second"}
"""Defaults that a page has in words."""


def page_of(command: str) -> str:
    """The man page of a command or of kcli itself, in one line, without what roff does not show."""
    path = ROOT / "man" / ("kcli.1" if not command else f"kcli-{command.partition(' ')[0]}.1")
    return re.sub(r"\s+", " ", unescaped(path.read_text()).replace("\\-", "-"))


def options() -> Iterator[Any]:
    """Every option of every command, but --help."""
    for name, command in commands().items():
        for parameter in command.params:
            if parameter.param_type_name == "option" and "--help" not in parameter.opts:
                yield pytest.param(name, parameter, id=f"{name} {parameter.opts[0]}".strip())


def macro(option: str) -> str:
    """An option as mdoc writes it."""
    return f"Fl Fl {option[2:]}" if option.startswith("--") else f"Fl {option[1:]}"


def spellings(number: float) -> set[str]:
    """A number as a page may have it."""
    return {f"{number:g}", f"{number:,}", str(number)}


def is_on(page: str, word: str) -> bool:
    """Is a word on the page, not as part of another?"""
    return re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", page) is not None


@pytest.mark.parametrize(("command", "option"), list(options()))
def test_the_page_has_the_option(command: str, option: Any) -> None:
    page = page_of(command)
    assert [each for each in (*option.opts, *option.secondary_opts) if not is_on(page, macro(each))] == []
    choices = [str(getattr(each, "value", each)) for each in getattr(option.type, "choices", None) or ()]
    assert [each for each in choices if not is_on(page, each)] == []
    bounds: set[Any] = {getattr(option.type, side, None) for side in ("min", "max")} - OBVIOUS
    assert [each for each in bounds if not any(is_on(page, shown) for shown in spellings(each))] == []
    default = getattr(option.default, "value", option.default)
    if isinstance(default, str | int | float) and not isinstance(default, bool) and default not in ("", 0):
        shown = {IN_WORDS.get((command, option.opts[0]), str(default))}
        shown |= set() if isinstance(default, str) else spellings(default)
        assert any(each in page for each in shown), f"the default {default!r} is not on the page"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_has_no_other_option(command: str) -> None:
    whole = {option for name in commands() if name.partition(" ")[0] == command for option in options_of(name)}
    path = ROOT / "man" / (f"kcli-{command}.1" if command else "kcli.1")
    text = path.read_text().replace("\\-", "-")
    described = re.findall(r"^\.It ((?:.*\b)?Fl .*)$", text, re.MULTILINE)
    shown = {f"--{each}" for line in described for each in re.findall(r"Fl Fl ([\w-]+)", line)}
    shown |= {f"-{each}" for line in described for each in re.findall(r"(?<!Fl )Fl (\w)\b", line)}
    assert shown <= whole


@pytest.mark.parametrize("command", COMMANDS)
def test_the_page_is_that_of_the_command(command: str) -> None:
    commands_of_page = {name for name in commands() if name.startswith(f"{command} ")}
    page = page_of(command)
    assert [name for name in commands_of_page if not is_on(page, name.partition(" ")[2])] == []


PAGES = sorted((ROOT / "man").glob("*.[1-9]"))


@pytest.mark.parametrize("page", PAGES, ids=[each.name for each in PAGES])
def test_a_page_is_well_formed(page: Path) -> None:
    """A second page in one macro Xr would be shown without parentheses."""
    assert not re.findall(r"^\.Xr \S+ \d .*\b\d", page.read_text(), re.MULTILINE)
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    shown = subprocess.run(
        ["groff", "-mandoc", "-Tutf8", "-rLL=78n", str(page)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"LC_ALL": "C.UTF-8"},
    )
    assert shown.stderr == ""
