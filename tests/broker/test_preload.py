"""A served node has imported all handlers soon after it is ready: an upgrade may then replace the package on disk."""

from __future__ import annotations

import errno
import subprocess
import sys
from threading import Event

import pytest

from kcli.broker.dispatch import preload as preload_module
from kcli.broker.dispatch.preload import preload

LOADED = """
import sys
from threading import Event
from kcli.broker.dispatch.preload import preload
from kcli.broker.wire.apis import APIS
from kcli.broker.wire.messages import imported

preload(Event(), 0)
assert "kcli.broker.controller.topic_creation" in sys.modules
assert "construct" not in sys.modules
for api in APIS.values():
    assert f"kcli.broker.api.{api.name}" in sys.modules, api
    assert imported(api.key, api.most) is not None, api
"""


def test_all_handlers_and_newest_messages() -> None:
    ended = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_it_stops_when_the_node_stops() -> None:
    stop = Event()
    stop.set()
    preload(stop, 60)


def test_without_file_descriptors_it_tries_again(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts = []

    def few(stop: Event, _: float) -> None:
        attempts.append(stop)
        if len(attempts) < 3:
            raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(preload_module, "_import_all", few)
    monkeypatch.setattr(preload_module, "RETRY_S", 0.001)
    preload(Event())
    assert len(attempts) == 3
