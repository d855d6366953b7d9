"""The commands and options that kcli has, as click knows them: man pages and guides must agree with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from typer.main import get_command

from kcli.cli.app import app


@cache
def commands() -> dict[str, Any]:
    """Every command, by its words behind `kcli` ("groups reset"), and "" for kcli itself."""
    return dict(_below("", get_command(app)))


def _below(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    loaded = command.loaded() if hasattr(command, "loaded") else command
    yield name, loaded
    for word, each in getattr(loaded, "commands", {}).items():
        yield from _below(f"{name} {word}".strip(), each)


def command_of(words: Sequence[str]) -> str:
    """The command that a line's words, without `kcli`, begin with: a group's own where no command of it is named."""
    longest = 2 if " ".join(words[:2]) in commands() else 1
    name = " ".join(words[:longest])
    assert name in commands(), f"there is no command {words[0]}"
    return name


def options_of(name: str) -> set[str]:
    """The options of a command, in every spelling."""
    spelled = {"-h", "--help"}
    for parameter in commands()[name].params:
        if parameter.param_type_name == "option":
            spelled |= {*parameter.opts, *parameter.secondary_opts}
    return spelled
