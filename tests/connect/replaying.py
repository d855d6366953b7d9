"""Calls sent to a worker, and its answers as they are compared: without what differs from run to run."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.connect.calls import Call

COMPARED_HEADERS = ("content-type", "location", "allow")
WAIT_S = 120.0
DOCUMENTATION = re.compile(r'"documentation":"(?:[^"\\]|\\.)*"')
"""The sentences about options are kcli's own."""


class Worker:
    """A worker to send calls to. directory: stands for {DIR} in calls and answers."""

    def __init__(self, port: int, directory: Path) -> None:
        self.port, self._directory = port, str(directory)

    def send(self, call: Call) -> dict[str, Any]:
        """Return the answer to a call: its status, some headers, and the body as text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            body = None if call.body is None else call.body.replace("{DIR}", self._directory)
            connection.request(call.method, call.path, body, dict(call.headers))
            answer = connection.getresponse()
            text = answer.read().decode()
            headers = {name: self._plain(found) for name in COMPARED_HEADERS if (found := answer.getheader(name))}
            return {"status": answer.status, "headers": headers, "body": self._plain(text)}
        finally:
            connection.close()

    def _plain(self, text: str) -> str:
        text = text.replace(f"127.0.0.1:{self.port}", "WORKER").replace(self._directory, "{DIR}")
        return DOCUMENTATION.sub('"documentation":""', text)

    def answers(self, calls: Iterable[Call]) -> Iterator[dict[str, Any]]:
        """Yield the answer to each call; a wait ends with the answer that has what it waits for.

        Raises TimeoutError.
        """
        for call in calls:
            until = time.monotonic() + WAIT_S
            answer = self.send(call)
            while call.until is not None and not _has(answer["body"], *call.until):
                if time.monotonic() > until:
                    raise TimeoutError(f"{call}: the last answer is {answer}")
                time.sleep(0.05)
                answer = self.send(call)
            yield answer


def _has(text: str, keys: list[Any], value: object) -> bool:
    try:
        found = json.loads(text)
        for key in keys:
            found = found[key]
    except (ValueError, KeyError, IndexError, TypeError):
        return False
    return bool(found == value)
