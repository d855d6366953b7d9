"""Connectors of one's own: classes in the Python modules of the directories that a worker's `plugin.path` names, as
Kafka's names directories of jars.

    plugin.path=plugins,/opt/connectors     the modules and packages directly in these directories

A connector is a class with CLASS, TYPE and VERSION (kcli.connect.plugins.Connector). Every module is imported once,
when the worker starts; one that cannot be imported is told in the log and left out, as Kafka leaves out a plug-in whose
classes do not load. A directory may hold jars, of which there is nothing to take, or be missing.
"""

from __future__ import annotations

import inspect
import logging
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from kcli.connect.config.config_def import words
from kcli.connect.plugins import Plugin, PluginType

log = logging.getLogger("kcli.connect")
OPTION: Final = "plugin.path"


def plugins_of(path: str) -> list[Plugin]:
    """Return the connectors in the directories of a plugin.path."""
    return [each for directory in dict.fromkeys(words(path)) for each in _plugins_in(Path(directory).resolve())]


def _plugins_in(directory: Path) -> Iterator[Plugin]:
    try:
        names = sorted(_module_names(directory))
    except OSError as error:
        log.error("%s: %s: %s: ignored", OPTION, directory, error.strerror)  # noqa: TRY400 (no bug of ours)
        return
    if names and str(directory) not in sys.path:
        sys.path.append(str(directory))
    for name in names:
        try:
            module = import_module(name)
        except Exception as error:  # noqa: BLE001 (whatever a user's module raises)
            log.error("%s: module %s in %s: %r: ignored", OPTION, name, directory, error)  # noqa: TRY400
            continue
        if not Path(module.__file__ or "").resolve().is_relative_to(directory):
            log.error("%s: module %s in %s: another one has its name: ignored", OPTION, name, directory)
            continue
        yield from _connectors(module, directory)


def _module_names(directory: Path) -> Iterator[str]:
    for each in directory.iterdir():
        name = each.stem if each.suffix == ".py" else each.name if (each / "__init__.py").is_file() else ""
        if name.isidentifier():
            yield name


def _connectors(module: ModuleType, directory: Path) -> Iterator[Plugin]:
    for name, found in inspect.getmembers(module, inspect.isclass):
        kind, known, version = (getattr(found, each, None) for each in ("TYPE", "CLASS", "VERSION"))
        if not found.__module__.startswith(module.__name__) or kind not in (PluginType.SOURCE, PluginType.SINK):
            continue
        if isinstance(known, str) and isinstance(version, str):
            yield Plugin(known, PluginType(kind), version, f"{module.__name__}:{name}", str(directory))
