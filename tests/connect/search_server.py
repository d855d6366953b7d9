"""Servers with the REST API of OpenSearch: a real node, of jars from Maven Central; and what answers in its place."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from tests.interop.kit import KafkaUnavailableError, kit_dir

HERE = Path(__file__).parent
VERSION = "2.19.6"
Answer = tuple[int, bytes]
"""A status and a body."""


def jars() -> Path:
    """The directory with the jars of OpenSearch. Raises KafkaUnavailableError where they cannot be fetched."""
    found = kit_dir() / f"opensearch-{VERSION}-jars"
    if not found.exists():
        if any(shutil.which(each) is None for each in ("mvn", "javac")):
            raise KafkaUnavailableError(f"OpenSearch is not in {found}, and there is no mvn or no javac on the PATH")
        pom = HERE / "opensearch-pom.xml"
        whole = found.with_name(f"{found.name}.new")
        fetch = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={whole}"]
        done = subprocess.run(fetch, capture_output=True, text=True, check=False)
        if done.returncode:
            raise KafkaUnavailableError(f"OpenSearch cannot be fetched: {(done.stderr or done.stdout).strip()[-300:]}")
        whole.rename(found)
    return found


@contextmanager
def node(directory: Path) -> Iterator[str]:
    """Run a node in a directory; yield its URL. Raises KafkaUnavailableError."""
    classpath = f"{jars()}/*"
    compiled = ["javac", "-cp", classpath, "-d", str(directory), str(HERE / "OpenSearchNode.java")]
    subprocess.run(compiled, check=True, capture_output=True)
    command = ["java", "-Xmx512m", "-cp", f"{directory}:{classpath}", "OpenSearchNode", str(directory)]
    with (
        (directory / "log").open("w") as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True) as process,
    ):
        assert process.stdin is not None
        assert process.stdout is not None
        line = ""
        for line in process.stdout:  # of log lines and the port
            if line.strip().isdigit():
                break
        assert line.strip().isdigit(), (directory / "log").read_text()[-2000:]
        yield f"http://127.0.0.1:{line.strip()}"
        process.kill()


def ask(url: str, method: str = "GET", body: Any = None) -> Any:
    """The JSON of an answer without an error."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def documents(url: str, index: str) -> dict[str, tuple[int, Any]]:
    """The documents of an index, by their ids, with their versions."""
    ask(f"{url}/{index}/_refresh", "POST")
    found = ask(f"{url}/{index}/_search?size=10000&version=true")["hits"]["hits"]
    return {each["_id"]: (each["_version"], each["_source"]) for each in found}


class Stub:
    """A server that answers as a test says. seen: method, path and body of each request, with its headers. answer: what
    it answers to them."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, bytes]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[str, str, bytes], Answer] = accepted
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                stub.seen.append((self.command, self.path, body))
                stub.headers.append({name.lower(): text for name, text in self.headers.items()})
                status, data = stub.answer(self.command, self.path, body)
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_PUT = do_POST = _serve  # noqa: N815 (the names that http.server has)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name that http.server has)
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def bulks(self) -> list[list[Any]]:
        """The lines of each _bulk request."""
        return [[*map(json.loads, body.splitlines())] for _, path, body in self.seen if path == "/_bulk"]


def accepted(method: str, path: str, body: bytes) -> Answer:
    """All is there, and all is written."""
    del method
    if path != "/_bulk":
        return 200, b'{"an-index":{"mappings":{"properties":{}}}}'
    lines = [*map(json.loads, body.splitlines())]
    heads = [each for each in lines if each and each.keys() <= {"index", "update", "delete"}]
    return items(*({next(iter(each)): {"status": 200}} for each in heads))


def items(*results: Any) -> Answer:
    """The answer to a _bulk request."""
    return 200, json.dumps({"errors": True, "items": results}).encode()


class Store:
    """What a stub answers with: documents by index and id, each with its version; an older one is refused. Without a
    version, a document replaces the one that is there."""

    def __init__(self) -> None:
        self.documents: dict[tuple[str, str], tuple[int, Any]] = {}

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        """Answer a request."""
        if path != "/_bulk":
            return accepted(method, path, body)
        lines = iter(map(json.loads, body.splitlines()))
        return items(*({"index": self._put(head["index"], next(lines))} for head in lines))

    def _put(self, head: dict[str, Any], document: Any) -> dict[str, Any]:
        where, version = (head["_index"], head["_id"]), head.get("version", 0)
        if "version" in head and version <= self.documents.get(where, (-1, None))[0]:
            return {"status": 409, "error": {"type": "version_conflict_engine_exception", "reason": "it is older"}}
        self.documents[where] = version, document
        return {"status": 201}
