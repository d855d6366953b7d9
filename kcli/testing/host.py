"""The hosts of a test's broker: a thread of the test's process, or a child process. Both call the methods of Controls.

thread    starts at once, and a debugger reaches the broker; it cannot be killed alone
child     has its own interpreter lock and can be killed. Calls and results go pickled over a socket pair; the child
          ends when the socket on the test's side is closed
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
    """A thread or process that runs an event loop and, in it, a broker with its Controls (controls.py), the methods by
    which a test controls the broker."""

    @abstractmethod
    def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of Controls and return its result. Raises the method's errors, TimeoutError after 60 s, and
        Gone."""

    @abstractmethod
    def close(self) -> None:
        """Stop the broker, if it runs, and end the thread or process of the host."""

    @property
    @abstractmethod
    def pid(self) -> int:
        """The id of the process that the broker runs in."""


class ThreadHost(Host):
    """An event loop on a thread of this process."""

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
        """Call a method of Controls and return its result. Raises the errors of Host.call."""
        coroutine = getattr(self.controls, method)(*arguments)
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(TIMEOUT_S)

    def close(self) -> None:
        """Stop the broker, if it runs, and end the thread."""
        if self._thread.is_alive():
            try:
                self.call("stop")
            finally:
                self.loop.call_soon_threadsafe(self.loop.stop)
                self._thread.join(TIMEOUT_S)

    @property
    def pid(self) -> int:
        """The id of this process."""
        return os.getpid()


class ChildHost(Host):
    """An event loop in a child process."""

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
        """Call a method of Controls and return its result. Raises the errors of Host.call."""
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
        """Send the process a signal, SIGKILL by default, and wait for its end."""
        self._process.send_signal(number)
        self._process.wait(TIMEOUT_S)
        self._pipe.close()

    def close(self) -> None:
        """Stop the broker, if it runs, and end the process."""
        if self._process.poll() is None:
            try:
                self.call("stop")
                self._pipe.close()
                self._process.wait(TIMEOUT_S)
            except Gone:
                pass  # the process has ended already
            finally:
                if self._process.poll() is None:
                    self.kill()

    @property
    def pid(self) -> int:
        """The id of the child process."""
        return self._process.pid
