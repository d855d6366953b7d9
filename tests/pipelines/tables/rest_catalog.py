"""A REST catalog of Iceberg for tests: what pyiceberg's client asks for, answered from a SQL catalog."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

from pyiceberg.catalog.rest import CreateTableRequest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from pyiceberg.table import CommitTableRequest, Table
from pyiceberg.table.update import AssertCreate

STATUS = {
    CommitFailedException: 409,
    NamespaceAlreadyExistsError: 409,
    NoSuchNamespaceError: 404,
    NoSuchTableError: 404,
}


class Handler(BaseHTTPRequestHandler):
    """One request."""

    catalog: SqlCatalog
    lost: list[int]

    def do_GET(self) -> None:
        """Answer with the configuration or a table."""
        parts = self.path.partition("?")[0].strip("/").split("/")
        if parts[-1] == "config":
            self._answer(200, {"defaults": {}, "overrides": {}})
        elif len(parts) == 3:
            self._try(lambda: {"namespace": [parts[2]], "properties": self.catalog.load_namespace_properties(parts[2])})
        else:
            self._try(lambda: _json(self.catalog.load_table((parts[2], parts[4]))))

    def do_POST(self) -> None:
        """Make a namespace, stage a table or commit to one."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        parts = self.path.strip("/").split("/")
        if parts[-1] == "namespaces":
            self._try(lambda: self._namespace(json.loads(body)["namespace"]))
        elif parts[-1] == "tables":
            request = {"location": None, **json.loads(body)}
            self._try(lambda: self._stage(parts[2], CreateTableRequest.model_validate(request)))
        else:
            self._try(lambda: self._commit((parts[2], parts[4]), CommitTableRequest.model_validate_json(body)))

    def _namespace(self, name: list[str]) -> dict[str, Any]:
        self.catalog.create_namespace(tuple(name))
        return {"namespace": name}

    def _stage(self, space: str, request: CreateTableRequest) -> dict[str, Any]:
        staged = self.catalog.create_table_transaction(
            (space, request.name), request.table_schema, request.location, properties=dict(request.properties)
        )
        return {"metadata": json.loads(staged.table_metadata.model_dump_json())}

    def _commit(self, name: tuple[str, str], request: CommitTableRequest) -> dict[str, Any]:
        if any(isinstance(each, AssertCreate) for each in request.requirements):
            table = self.catalog.create_table_transaction(name, _no_schema())._table
        else:
            table = self.catalog.load_table(name)
        done = self.catalog.commit_table(table, request.requirements, request.updates)
        if self.lost and self.lost.pop():
            raise RuntimeError("the answer is lost")
        return {"metadata": json.loads(done.metadata.model_dump_json()), "metadata-location": done.metadata_location}

    def _try(self, act: Any) -> None:
        try:
            self._answer(200, act())
        except Exception as error:  # noqa: BLE001 (each is an answer)
            status = STATUS.get(type(error), 500)
            kind = type(error).__name__
            self._answer(status, {"error": {"message": str(error), "type": kind, "code": status}})

    def _answer(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the name that http.server has)
        """Say nothing."""


def _no_schema() -> Any:
    from pyiceberg.schema import Schema

    return Schema()


def _json(table: Table) -> dict[str, Any]:
    return {"metadata": json.loads(table.metadata.model_dump_json()), "metadata-location": table.metadata_location}


@contextmanager
def rest_catalog(directory: Path) -> Iterator[tuple[str, list[int]]]:
    """Run a catalog whose database and default locations are in a directory. Yields its URL, and a list: for each 1 in
    it one answer to a commit is lost after it was done."""
    lost: list[int] = []
    catalog = SqlCatalog("default", uri=f"sqlite:///{directory}/rest.db", warehouse=f"file://{directory}/warehouse")
    handler = type("Handler", (Handler,), {"catalog": catalog, "lost": lost})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", lost
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        catalog.close()
