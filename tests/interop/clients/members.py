"""Members of groups with any client library: in this process, or in a program (see README.md) that can be killed."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

HEARTBEAT_MS = 200
PROTOCOLS = ("classic", "consumer")
"""The second is that of KIP-848."""
SHORT_S = 0.1
ENOUGH_S = 30.0


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a consumer joins a group.

    reset: earliest, latest, none. protocol: one of PROTOCOLS. regex: whether `topic` is a regular expression for the
    broker.
    """

    topic: str
    regex: bool = False
    group: str
    reset: str = "earliest"
    instance: str | None = None
    session_ms: int = 6000
    heartbeat_ms: int = HEARTBEAT_MS
    protocol: str = ""


class Member(Protocol):
    """A consumer in a group, with the same methods for every library."""

    def poll(self) -> list[bytes]:
        """Return the values that arrive within a short time. Raises NoOffset."""

    def assignment(self) -> set[int]:
        """The partitions that it has now."""

    def commit(self) -> None:
        """Commit what was polled."""

    def close(self) -> None:
        """Leave the group, unless static."""


class NoOffset(Exception):
    """There is no committed offset, and the reset policy is none."""


NO_OFFSET = "no offset"


class Host:
    """A program with members: it reads commands, and writes events."""

    def __init__(self, command: Sequence[str], bootstrap: str) -> None:
        self._process = subprocess.Popen(
            [*command, bootstrap], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._members: dict[str, HostedMember] = {}
        self._errors = b""
        self._readers = [threading.Thread(target=self._read), threading.Thread(target=self._read_errors)]
        for each in self._readers:
            each.start()

    def open(self, options: Options) -> HostedMember:
        """A new member."""
        name = str(len(self._members))
        member = self._members[name] = HostedMember(self, name)
        self.tell({"do": "open", "member": name} | asdict(options))
        return member

    def tell(self, command: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()

    def kill(self) -> None:
        """SIGKILL: nobody leaves a group."""
        self._process.kill()
        self._end()

    def close(self) -> None:
        """Close the program's standard input, at which it ends."""
        if self._process.poll() is None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            try:
                self._process.wait(ENOUGH_S)
            finally:
                self.kill()

    @property
    def errors(self) -> str:
        """What it complained of."""
        return self._errors.decode(errors="replace")[-5000:]

    def _end(self) -> None:
        self._process.wait()
        for each in self._readers:
            each.join()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            self._members[event.pop("member")].happened(event)
        for member in list(self._members.values()):
            member.happened({"error": "the program has ended"})

    def _read_errors(self) -> None:
        assert self._process.stderr is not None
        self._errors = self._process.stderr.read()


class HostedMember:
    """A member in a program."""

    def __init__(self, host: Host, name: str) -> None:
        self._host, self._name = host, name
        self._news = threading.Condition()
        self._values: list[bytes] = []
        self._assigned: set[int] = set()
        self._done: set[str] = set()
        self._error: str | None = None

    def happened(self, event: dict[str, Any]) -> None:
        """Something came from the program."""
        with self._news:
            self._values += [value.encode() for value in event.get("values", ())]
            self._assigned = set(event.get("assigned", self._assigned))
            self._done |= event.keys() & {"committed", "closed"}
            self._error = self._error or event.get("error")
            self._news.notify_all()

    def poll(self) -> list[bytes]:
        with self._news:
            self._news.wait_for(lambda: self._values or self._error, SHORT_S)
            if self._error == NO_OFFSET:
                raise NoOffset
            assert self._error is None, (self._error, self._host.errors)
            values, self._values = self._values, []
            return values

    def assignment(self) -> set[int]:
        with self._news:
            return set(self._assigned)

    def commit(self) -> None:
        self._ask("commit", "committed")

    def close(self) -> None:
        self._ask("close", "closed")

    def _ask(self, what: str, until: str) -> None:
        self._done.discard(until)
        self._host.tell({"do": what, "member": self._name})
        with self._news:
            done = self._news.wait_for(lambda: until in self._done or (self._error or NO_OFFSET) != NO_OFFSET, ENOUGH_S)
        assert done, f"{what}: no answer"
        assert until in self._done, (self._error, self._host.errors)
