"""A disk on which a process dies: in the middle of a write, or between two; what it had written is there, or with the
power goes whatever was not synced."""

from __future__ import annotations

from collections.abc import Callable

from tests.log.crash_disk import Crash, CrashDisk


class DyingDisk(CrashDisk):
    """Dies at operation `dies_at`, from 1 on, and calls `died`; nothing is done on it after that.

    loses: with the power, and so what was not synced; else only the write at hand is torn.
    """

    def __init__(self, died: Callable[[], None], seed: int, *, dies_at: int, loses: bool) -> None:
        super().__init__(dies_at, seed)
        self._died, self._loses = died, loses
        self.is_dead = False

    def dies(self) -> bool:
        if self.is_dead:
            raise Crash
        return super().dies()

    def crash(self) -> None:
        """The process ends here."""
        self.end()
        raise Crash

    def end(self) -> None:
        """The process is killed from outside."""
        if self.is_dead:
            return
        self.is_dead = True
        self._died()
        if self._loses:
            try:
                super().crash()
            except Crash:
                return
