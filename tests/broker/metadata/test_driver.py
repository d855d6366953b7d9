"""What raft saves is durable before anything that follows from it leaves the node, and the event loop does not wait for
the device."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from threading import Event
from typing import cast

from formats.file_name import FileKind
from kcli.broker.metadata.driver import RaftDriver
from kcli.broker.metadata.raft_log import QuorumStateFile, RaftMetadataLog
from kcli.broker.metadata.snapshots import Snapshots
from kcli.broker.network.peers import Network, Unanswered
from kcli.log.disk import Disk
from kcli.raft.messages import VoteAnswer
from kcli.raft.raft import Raft
from tests.broker.metadata_dirs import FakeClock
from tests.log.live.test_partition_log import open_log
from tests.raft.driver import config, vote


class SlowDisk(Disk):
    """A disk on which a small file takes until `go_on` is set."""

    def __init__(self) -> None:
        self.go_on = Event()
        self.go_on.set()

    def write_file(self, path: Path, data: bytes) -> None:
        assert self.go_on.wait(10), "set"
        super().write_file(path, data)


class NoNetwork:
    """A network without any other node."""

    def channel(self, *_: object) -> NoNetwork:
        return self

    async def call(self, *_: object, **__: object) -> None:
        raise Unanswered("there is no other node")

    def close(self) -> None:
        """Nothing is open."""


async def in_thread(work: Callable[[], object]) -> None:
    """Run `work` in a thread."""
    await asyncio.to_thread(work)


def test_a_vote_leaves_the_node_once_it_is_durable_and_the_loop_goes_on_meanwhile(tmp_path: Path) -> None:
    async def run() -> None:
        disk, clock, failures = SlowDisk(), FakeClock(), list[Exception]()
        log = open_log(tmp_path / "__cluster_metadata-0", {})
        store = QuorumStateFile(log.directory, disk)
        raft = Raft(config(), RaftMetadataLog(log, Snapshots(disk, log.directory), disk, clock), store, Random(1))
        driver = RaftDriver(
            raft,
            log,
            store,
            cast("Network", NoNetwork()),
            clock,
            in_thread=in_thread,
            advance=lambda: None,
            failed=failures.append,
        )
        driver.start()
        disk.go_on.clear()
        granted = driver.handle(vote(epoch=3, last=(0, 0)))
        refused = driver.handle(vote(source=3, epoch=3, last=(0, 0)))
        await asyncio.sleep(0.05)
        assert (raft.epoch, granted.done(), refused.done()) == (3, False, False)
        disk.go_on.set()
        answers = [cast("VoteAnswer", await asyncio.wait_for(each, 10)).granted for each in (granted, refused)]
        assert answers == [True, False]
        saved = json.loads((log.directory / FileKind.QUORUM_STATE).read_text())
        assert (saved["leaderEpoch"], saved["votedId"]) == (3, 2)
        await driver.shut_down(0)
        assert failures == []

    asyncio.run(run())
