"""Run one seed: a world in a directory of its own, in which the seed decides everything random, and checks that see
each append of every replica."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from kcli.broker.controller import topic_creation
from kcli.broker.partition.partitions import Partition
from kcli.broker.replication import fetcher
from kcli.log.live.partition_log import Appended, PartitionLog
from kcli.metadata.partition import Partition as PartitionState
from kcli.metadata.topic_control import TopicContext
from tests.sim.cluster.lanes import Lane
from tests.sim.cluster.world import World
from tests.sim.run import MEMORY


def simulate(seed: int, *, tell: Callable[[str], object] | None = None) -> Exception | None:
    """Return the error that broke the run, None where all promises were kept. tell: called with each event's line."""
    logger = logging.getLogger("kcli.broker")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    gc.freeze()
    gc.disable()
    try:
        with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
            return _simulate(seed, Path(directory), tell)
    finally:
        logger.setLevel(level)
        gc.unfreeze()
        gc.enable()


def _simulate(seed: int, directory: Path, tell: Callable[[str], object] | None) -> Exception | None:
    with _seeded(seed):
        world = World(seed, directory, tells=tell is not None)
        error = None
        try:
            # followers that wait for a new leader's data send fewer Fetches
            with patch.object(fetcher, "EAGER_FETCHES", 2), _watched(world):
                world.run()
        except Exception as broken:  # noqa: BLE001  (what is broken, whatever it is)
            error = broken
        if error is not None and tell is None:
            error = error.with_traceback(None)
        for line in world.notes or ():
            tell and tell(line)
        _forget(world)
    return error


def _forget(world: World) -> None:
    """Drop the tasks of dead nodes without the warnings of asyncio."""
    time = world.time
    nowhere = time.lane(random.Random(0))
    asyncio._set_running_loop(nowhere)
    try:
        with (
            patch.object(Lane, "call_exception_handler", lambda *_: None),
            patch.object(sys, "unraisablehook", lambda _: None),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            vars(world).clear()
            while time.lanes:
                time.lanes.pop().forget()
            time.soon.clear()
            time.timers.clear()
            gc.collect()
    finally:
        asyncio._set_running_loop(None)


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Derive ids and jitters from the seed."""
    source = random.Random(seed ^ 0x5EED)
    state = random.getstate()
    random.seed(seed)
    try:
        with (
            patch.object(os, "urandom", source.randbytes),
            patch.object(random, "_urandom", source.randbytes),
            patch.object(topic_creation, "TopicContext", partial(TopicContext, random=source)),
        ):
            yield
    finally:
        random.setstate(state)


@contextmanager
def _watched(world: World) -> Iterator[None]:
    """Report every append, high watermark and leadership to the checks."""
    logs = world.logs

    def tell(log: PartitionLog, what: str) -> None:
        if world.notes is not None and not log.directory.name.startswith("__cluster"):
            world.note(f"node {_node(log)}", f"{log.directory.name} {what}")

    as_leader, as_follower = PartitionLog.append_as_leader, PartitionLog.append_as_follower
    update = PartitionLog.update_high_watermark

    def append_as_leader(log: PartitionLog, data: Any, leader_epoch: int, now_ms: int, **how: Any) -> Appended:
        before = log.log_end_offset
        done = as_leader(log, data, leader_epoch, now_ms, **how)
        if log.log_end_offset > before:
            crc = int.from_bytes(data[17:21])
            tell(log, f"is written {done.first_offset} to {done.last_offset}, epoch {leader_epoch}")
            try:
                logs.written(_node(log), log.directory.name, leader_epoch, done.first_offset, done.last_offset, crc)
            except AssertionError as broken:
                world.fail(broken)
        return done

    def append_as_follower(log: PartitionLog, data: Any, leader_epoch: int, now_ms: int) -> Appended:
        done = as_follower(log, data, leader_epoch, now_ms)
        tell(log, f"is copied {done.first_offset} to {done.last_offset}")
        try:
            logs.copied(_node(log), log.directory.name, data, log.log_end_offset)
        except AssertionError as broken:
            world.fail(broken)
        return done

    def update_high_watermark(log: PartitionLog, offset: int) -> int:
        before = log.high_watermark
        after = update(log, offset)
        if after != before:
            tell(log, f"has high watermark {after}, it was {before}, of epoch {log.latest_epoch}")
            try:
                logs.moved(_node(log), log.directory.name, log.latest_epoch, before, after)
            except AssertionError as broken:
                world.fail(broken)
        return after

    see = Partition.update

    def update_state(partition: Partition, state: PartitionState) -> None:
        home = partition.directory
        if world.notes is not None and home is not None:
            isr = f"leader {state.leader} of epoch {state.leader_epoch}, {list(state.isr)} of {list(state.replicas)}"
            ends = (
                f"has {partition.log.high_watermark} to {partition.log.log_end_offset}" if partition.opened_log else ""
            )
            world.note(f"node {home.path.name[1:]}", f"sees {partition}: {isr} in sync, {ends}")
        see(partition, state)

    with (
        patch.object(Partition, "update", update_state),
        patch.object(PartitionLog, "append_as_leader", append_as_leader),
        patch.object(PartitionLog, "append_as_follower", append_as_follower),
        patch.object(PartitionLog, "update_high_watermark", update_high_watermark),
    ):
        yield


def _node(log: PartitionLog) -> int:
    return int(log.directory.parent.name[1:])
