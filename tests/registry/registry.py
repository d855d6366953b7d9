"""A registry in the test's process: requests to answers, changes replayed at once."""

from __future__ import annotations

import json

from kcli.registry.api import Answer, Change, Image, Limits, Request, handle
from kcli.registry.records import Record


class Registry:
    """The image, and the records that requests have written."""

    def __init__(self, limits: Limits = Limits()) -> None:  # noqa: B008
        self.image = Image()
        self.limits = limits
        self.log: list[Record] = []

    def ask(self, line: str, body: object = None, headers: dict[str, str] | None = None) -> Answer:
        """Return the answer to a request. line: the method and the path. body: bytes as they are, else a JSON value."""
        method, path = line.split(" ", 1)
        path, _, query = path.partition("?")
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        content = {"content-type": "application/json"} if data else {}
        result = handle(self.image, Request(method, path, query, {**content, **(headers or {})}, data), self.limits)
        if isinstance(result, Change):
            for key, value in result.records:
                self.image.replay(key, value, len(self.log))
                self.log.append((key, value))
            return result.answer
        return result

    def json(self, line: str, body: object = None) -> object:
        """Return the value that a request is answered with."""
        return json.loads(self.ask(line, body).body)

    def code(self, line: str, body: object = None) -> object:
        """Return the error code that a request is refused with."""
        answer = json.loads(self.ask(line, body).body)
        assert isinstance(answer, dict), answer
        return answer["error_code"]
