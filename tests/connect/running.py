"""Workers in a test's process, on an event loop of their own thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kcli.connect.plugins import Engine, Plugins
from kcli.connect.worker.server import WorkerServer
from kcli.connect.worker.settings import read_settings
from tests.connect.replaying import Worker
from tests.connect.simple import PLUGINS, SimpleEngine
from tests.registry.running import looped

STRING = "org.apache.kafka.connect.storage.StringConverter"
STANDALONE = {"listeners": "http://127.0.0.1:0", "key.converter": STRING, "value.converter": STRING}


@contextmanager
def running(
    directory: Path,
    properties: Mapping[str, str],
    plugins: Plugins = PLUGINS,
    engine: Engine | None = None,
) -> Iterator[Worker]:
    """Run a worker; it is standalone if the properties have no group.id."""
    known = {"listeners": "http://127.0.0.1:0", "key.converter": STRING, "value.converter": STRING, **properties}
    if "group.id" not in known:
        known.setdefault("offset.storage.file.filename", str(directory / "offsets"))
    settings = read_settings(known, "worker")

    async def made() -> WorkerServer:
        server = WorkerServer(settings, plugins, engine or SimpleEngine())
        await server.start()
        return server

    with looped() as loop:
        server = loop.run(made())
        try:
            yield Worker(int(server.worker_id.rpartition(":")[2]), directory)
        finally:
            loop.run(server.stop())
