"""Where failures end that nobody waits for."""

from __future__ import annotations

import asyncio
import logging
import re
from pathlib import Path

import pytest

from kcli.broker.process.unattended import Steps, attend, begin
from kcli.errors import KcliError
from tests.conftest import TESTS

FULL = OSError(28, "No space left on device", "a/b")
ALONE = re.compile(r"\b(create_task|ensure_future)\(")
LOOKED_AT = {
    "kcli/broker/api/fetch.py": "the Fetch that waits raises its failure",
    "kcli/broker/api/list_offsets.py": "awaited where the answer is made; a search that fails returns a code",
    "kcli/broker/coordinators/producer_ids.py": "its failures are codes",
    "kcli/broker/dispatch/kept.py": "every request that waits for the answer raises its failure",
    "kcli/broker/logs/compaction.py": "a round that fails is reported, and the next one follows",
    "kcli/broker/controller/lifecycle.py": "a future of its own, which shut_down waits for",
    "kcli/broker/metadata/alone.py": "every failure is the log's",
    "kcli/broker/network/client.py": "awaited by its callers, and _retrieve_exception",
    "kcli/broker/network/connection.py": "every failure is its request's",
    "kcli/broker/network/server.py": "_shaken looks at the failure of a handshake",
    "kcli/broker/node.py": "waited for in _unless_ended",
    "kcli/broker/startup/serve.py": "waited for in _started",
    "kcli/broker/process/unattended.py": "begin itself",
    "kcli/broker/tiering/segment_tasks.py": "awaited by `copy`, and _ended where that was cancelled",
    "kcli/launcher/launch.py": "waited for in _run",
}
OTHERS = ("kcli/broker/metadata/", "kcli/broker/controller/")


async def fail(error: BaseException) -> None:
    """Fail."""
    raise error


def test_the_owner_hears(caplog: pytest.LogCaptureFixture) -> None:
    heard: list[BaseException] = []

    async def run() -> None:
        tasks = [
            begin(fail(FULL), "cannot", heard.append),
            begin(fail(KeyError("bug")), "cannot either"),
            begin(asyncio.sleep(9), "cancelled", heard.append),
            begin(asyncio.sleep(0), "done", heard.append),
        ]
        tasks[2].cancel()
        await asyncio.sleep(0.01)

    asyncio.run(run())
    assert heard == [FULL]
    assert [each.getMessage() for each in caplog.records] == [
        "cannot: a/b: No space left on device",
        "cannot either: 'bug'",
    ]
    assert [bool(each.exc_info) for each in caplog.records] == [False, True], "the place of a bug is of interest"


def test_steps_go_on(caplog: pytest.LogCaptureFixture) -> None:
    steps, taken = Steps(), []
    for each in (FULL, None, KcliError("no")):
        with steps.step("a step"):
            taken.append(each)
            if each is not None:
                raise each
    assert taken == [FULL, None, *steps.failures[1:]]
    assert [each.getMessage() for each in caplog.records] == ["a step: a/b: No space left on device", "a step: no"]
    with pytest.raises(asyncio.CancelledError), steps.step("one that is cancelled"):
        raise asyncio.CancelledError


def test_the_last_resort(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        attend(loop)
        loop.call_soon(lambda: (_ for _ in ()).throw(FULL))
        task = loop.create_task(fail(FULL))
        await asyncio.sleep(0.01)
        del task

    asyncio.run(run())
    assert [each.levelno for each in caplog.records] == [logging.ERROR] * 2
    assert all("\n" not in each.getMessage() and not each.exc_info for each in caplog.records)


def test_every_task_ends_somewhere() -> None:
    """A task that `begin` does not make is in the list, together with what happens when it fails."""
    root = TESTS.parent
    made = {
        str(path.relative_to(root))
        for room in ("broker", "launcher")
        for path in Path(root / "kcli" / room).rglob("*.py")
        if ALONE.search(path.read_text())
    }
    assert {path for path in made if not path.startswith(OTHERS)} == {
        path for path in LOOKED_AT if not path.startswith(OTHERS)
    }
