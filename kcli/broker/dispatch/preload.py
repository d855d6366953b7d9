"""Imports all modules of the broker, and the messages of the newest versions, while the broker serves.

Otherwise a module would be imported when the first request needs it. If another version of kcli had been installed by
then, the broker would import that version's module.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import walk_packages
from threading import Event, Thread
from typing import Final

from kcli.broker.dispatch.handlers import handler
from kcli.broker.wire.apis import APIS
from kcli.broker.wire.messages import messages

PACKAGES: Final = (
    "kcli.broker",
    "kcli.log",
    "kcli.protocol",
    "kcli.group",
    "kcli.security",
    "kcli.raft",
    "kcli.coordinator",
    "kcli.metadata",
    "kcli.txn",
)
TOOLS: Final = ("kcli.log.recovery", "kcli.log.legacy_message")
"""Packages and modules of `kcli recover` and `kcli verify`: a broker imports some of them when it starts, none later.
They bring the library Construct, 6 MB."""
PAUSE_S: Final = 0.02
"""The pause between two imports, in seconds: an import holds the interpreter's lock for some milliseconds."""

RETRY_S: Final = 1.0
"""The pause, in seconds, before the imports are tried again after an import that found no free file descriptor: clients
may hold all of them."""


def preload(stop: Event, pause_s: float = PAUSE_S) -> None:
    """Import one module after the other, with a pause after each, until all are imported or `stop` is set. Begin again
    after an OSError, such as a lack of file descriptors."""
    while not stop.is_set():
        try:
            _import_all(stop, pause_s)
        except OSError:
            stop.wait(RETRY_S)
        else:
            return


def _import_all(stop: Event, pause_s: float) -> None:
    for package in map(import_module, PACKAGES):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            if stop.wait(pause_s):
                return
            if not module.name.endswith("__main__") and not module.name.startswith(TOOLS):
                import_module(module.name)
    for api in APIS.values():
        if stop.wait(pause_s):
            return
        handler(api.key)
        messages(api.key, api.most)
    gc.freeze()  # modules and classes are never freed, so no collection need visit them; imports leave no garbage


@contextmanager
def preloading() -> Iterator[None]:
    """Return a context manager that preloads in a thread; the thread ends with the context."""
    stop = Event()
    thread = Thread(target=preload, args=(stop,), name="preload", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
