"""Where a test's broker runs: on a thread of this process, or in a child process. Both do what Controls can.

thread    quick to have, easy to look into with a debugger; it dies with the test run only
child     has its own interpreter lock; can be killed. Speaks pickled calls and results over a socket pair, and ends
          when the other end is gone
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from abc import ABC, abstractmethod
from typing import Any

from kcli.errors import KcliError

TIMEOUT_S = 60.0


class Gone(KcliError):
    """The broker's process has ended."""


class Host(ABC):
    """A place with a Controls in it."""

    @abstractmethod
    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of Controls and wait for its result. Raises what it raises, TimeoutError, Gone."""

    @abstractmethod
    def close(self) -> None:
        """End it, whatever runs."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process."""


class ThreadHost(Host):
    """A loop on a thread of this process."""

    def __init__(self) -> None:
        from kcli.testing.controls import Controls
        from kcli.testing.moving import MovingLoop

        self.loop = MovingLoop()
        self.controls = Controls(self.loop)
        self._thread = threading.Thread(target=self._run, name="kafka-broker", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        asyncio.set_event_loop(None)

    def call(self, method: str, *arguments: Any) -> Any:
        """See Host."""
        coroutine = getattr(self.controls, method)(*arguments)
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(TIMEOUT_S)

    def close(self) -> None:
        """See Host."""
        if self._thread.is_alive():
            try:
                self.call("stop")
            finally:
                self.loop.call_soon_threadsafe(self.loop.stop)
                self._thread.join(TIMEOUT_S)

    @property
    def pid(self) -> int:
        """This one."""
        return os.getpid()


class ChildHost(Host):
    """A loop in a child process."""

    def __init__(self) -> None:
        import subprocess
        from multiprocessing.connection import Connection

        own, other = socket.socketpair()
        with other:
            number = other.fileno()
            program = f"from kcli.testing.child import main; main({number})"
            self._process = subprocess.Popen(  # noqa: S603  (our own program)
                [sys.executable, "-c", program], pass_fds=[number], stdin=subprocess.DEVNULL
            )
        self._pipe = Connection(own.detach())

    def call(self, method: str, *arguments: Any) -> Any:
        """See Host."""
        try:
            self._pipe.send((method, arguments))
            if not self._pipe.poll(TIMEOUT_S):
                raise TimeoutError(f"the broker's process does not answer to {method}")
            result, error = self._pipe.recv()
        except (OSError, EOFError) as gone:
            status = self._process.wait(TIMEOUT_S)
            raise Gone(f"the broker's process has ended, with status {status}") from gone
        if error is not None:
            raise error
        return result

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End it as a crash would."""
        self._process.send_signal(number)
        self._process.wait(TIMEOUT_S)
        self._pipe.close()

    def close(self) -> None:
        """See Host."""
        if self._process.poll() is None:
            try:
                self.call("stop")
                self._pipe.close()
                self._process.wait(TIMEOUT_S)
            except Gone:
                pass  # that is what was wanted
            finally:
                if self._process.poll() is None:
                    self.kill()

    @property
    def pid(self) -> int:
        """The child."""
        return self._process.pid
