"""Which process of pytest-xdist runs which test files: `--dist loadfile`, with the long files spread over the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest
    from xdist.remote import Producer
    from xdist.workermanage import WorkerController


class FileScheduling(LoadFileScheduling):  # type: ignore[misc]
    """A file's tests run in one process, so that what its fixtures start is started once. So do the tests of several
    files that share what takes long to start.

    Long files begin first, yet no more than long_at_once run at a time: they start machines that need all cores, while
    those that are by the clock would come too late. Once only long ones are left, any process takes them."""

    def __init__(
        self,
        config: pytest.Config,
        log: Producer | None,
        is_long: Callable[[str], bool],
        long_at_once: int,
        runs_with: Mapping[str, str],
    ) -> None:
        """runs_with: a file -> the file in whose process its tests run."""
        config.option.loadscopereorder = False  # the order in which they were collected
        super().__init__(config, log)
        self._is_long, self._long_at_once, self._runs_with = is_long, long_at_once, runs_with

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return self._runs_with.get(file, file)

    def _assign_work_unit(self, node: WorkerController) -> None:
        others = [work for each, work in self.assigned_work.items() if each is not node]
        running = sum(
            any(self._is_long(file) and not all(tests.values()) for file, tests in work.items()) for work in others
        )
        wanted = running < self._long_at_once
        file = next((each for each in self.workqueue if self._is_long(each) is wanted), None)
        if file is not None:
            self.workqueue.move_to_end(file, last=False)
        super()._assign_work_unit(node)
