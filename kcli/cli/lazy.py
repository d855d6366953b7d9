"""Commands whose modules are imported only when they run: `kcli --help` and all other commands start without them."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from kcli.cli.interrupts import raise_again


class Target(NamedTuple):
    """A command: its module, and its line in the list of commands, which is the first line of its help.

    name: a function of the module, or `app`, a Typer application of several commands.
    """

    module: str
    name: str
    help: str
    no_args_is_help: bool = True


class LazyCommand(TyperCommand):
    """A placeholder for a command: it imports the command's module when it runs or shows its help."""

    def __init__(self, name: str, target: Target, settings: Mapping[str, Any]) -> None:
        super().__init__(name, help=target.help, rich_markup_mode=settings["rich_markup_mode"])
        self._target = target
        self._settings = settings

    def loaded(self) -> Any:
        """Import the command's module. Returns the command."""
        assert self.name is not None
        from kcli.cli.options import guard

        module = import_module(self._target.module)
        alone = typer.Typer(**self._settings)
        alone.callback()(lambda: None)
        if self._target.name == "app":
            alone.add_typer(module.app, name=self.name)
        else:
            register = alone.command(self.name, no_args_is_help=self._target.no_args_is_help, epilog=module.EPILOG)
            register(getattr(module, self._target.name))
        command = get_group(alone).commands[self.name]
        for each in (command, *getattr(command, "commands", {}).values()):
            for parameter in each.params:
                guard(parameter)
        return command

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Import the command. Returns its context, with which click runs it."""
        command = self.loaded()
        raise_again()
        return command.make_context(info_name, args, parent, **extra)


def lazy_group(targets: Mapping[str, Target], settings: Mapping[str, Any]) -> type[TyperGroup]:
    """Return a class of click groups with these commands, by name."""

    class LazyGroup(TyperGroup):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            for name, target in targets.items():
                self.add_command(LazyCommand(name, target, settings))

    return LazyGroup
