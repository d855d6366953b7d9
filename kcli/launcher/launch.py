"""Run a cluster for `kcli serve --nodes`.

start   import, fork the fork server, create the directory if it does not exist, lock it, start the nodes
run     until SIGTERM, SIGINT or `kcli cluster stop`, or until all nodes have ended and none is restarted
stop    all nodes in the order that `supervisor` describes; a second signal kills them
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from formats.file_name import FileKind
from kcli.broker.process.descriptors import raise_limit
from kcli.broker.process.unattended import attend
from kcli.errors import KcliError
from kcli.launcher.control import ControlServer
from kcli.launcher.directory import ClusterDirectory, ClusterRequest, open_cluster
from kcli.launcher.fork_server import ForkServer, NodeMain
from kcli.launcher.node_process import import_all, run_node
from kcli.launcher.output import NodeOutput, to_stderr
from kcli.launcher.ports import Ports
from kcli.launcher.supervisor import Supervisor
from kcli.log.disk import Disk
from kcli.log.log_directory import DirectoryLock

log = logging.getLogger("kcli.launcher")
AT_ONCE_STATUS = 130

Ready = Callable[[ClusterDirectory], None]


class ClusterFailed(KcliError):
    """All nodes of the cluster, or its fork server, have ended by themselves."""


def launch(
    path: Path,
    request: ClusterRequest,
    ready: Ready,
    *,
    restart: bool,
    json_lines: bool,
    main: NodeMain = run_node,
    leave: Callable[[int], object] = os._exit,
) -> None:
    """Run the cluster in the directory until it is stopped. Raises KcliError, OSError.

    request: the options of the command line. ready: called once, when every node is ready (a broker: unfenced).
    restart: restart nodes that die. json_lines: write the nodes' output as JSON. main: the main function of a node's
    process. leave: ends the process at once, with a status, at a second signal.
    """
    raise_limit()
    if main is run_node:
        import_all()
    forks = ForkServer(main)
    ports, disk = Ports(), Disk()
    try:
        with _locked(path, disk, secure=request.secure):
            cluster = open_cluster(path, request, ports, disk)
            asyncio.run(_run(cluster, forks, ready, leave, restart=restart, json_lines=json_lines))
    finally:
        ports.close()
        forks.close()


@contextmanager
def _locked(path: Path, disk: Disk, *, secure: bool) -> Iterator[None]:
    """Lock the directory, which is created if it does not exist; a directory that this call created is removed at the
    end if it is still empty. secure: whether only its owner may access a new directory."""
    is_new = not path.exists()
    if secure:
        from kcli.broker.startup.secure import make_private

        make_private(path)
    disk.make_directory(path)
    with DirectoryLock(disk, path):
        try:
            yield
        finally:
            if is_new and [each.name for each in path.iterdir()] == [FileKind.LOCK]:
                disk.remove(path / FileKind.LOCK)
                disk.remove_directory(path)


async def _run(
    cluster: ClusterDirectory,
    forks: ForkServer,
    ready: Ready,
    leave: Callable[[int], object],
    *,
    restart: bool,
    json_lines: bool,
) -> None:
    loop = asyncio.get_running_loop()
    attend(loop)
    forks.attach()
    supervisor = Supervisor(
        cluster.plans,
        cluster.properties_of,
        forks,
        lambda node: NodeOutput(node, to_stderr, json_lines=json_lines),
        restart=restart,
    )
    stop_reason: asyncio.Future[str] = loop.create_future()
    starting: asyncio.Future[None] | None = None
    down = asyncio.Event()

    def on_signal(number: signal.Signals) -> None:
        if stop_reason.done():
            supervisor.kill_all()
            leave(AT_ONCE_STATUS)
        stop_reason.set_result(number.name)

    async def stop_all() -> None:
        if not stop_reason.done():
            stop_reason.set_result("stop requested")
        await down.wait()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal, number)
    control = ControlServer(cluster, supervisor, stop_all)
    await control.start()
    try:
        await supervisor.start_all()
        starting = asyncio.ensure_future(supervisor.all_ready())
        ends: list[asyncio.Future[Any]] = [stop_reason, supervisor.failed]
        await asyncio.wait([starting, *ends], return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            ready(cluster)
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if stop_reason.done():
            log.info("%s: stopping the cluster", stop_reason.result())
    finally:
        if starting is not None:
            starting.cancel()
        await supervisor.stop_all()
        down.set()
        await asyncio.sleep(0)  # lets the answer to `kcli cluster stop` be written
        control.close()
    if supervisor.failed.done() and not stop_reason.done():
        raise ClusterFailed(supervisor.failed.result())
