"""A small S3 server for the demo and the tests: python s3_server.py DIRECTORY [PORT], until its input ends.

It keeps a bucket as a directory and each object as a file in it, so that objects survive a kill -9 of the server. It
has what obstore and boto3 use of S3: objects (also ranges of them, conditions and SHA-256 checksums), lists page by
page, multipart uploads. It checks no signatures: it serves whoever reaches 127.0.0.1.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import sys
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

UPLOADS = ".uploads"
PAGE = 1000
COPY_BYTES = 1 << 20
XMLNS = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


class S3Error(Exception):
    """An answer that says what is wrong. status: of HTTP; code: of S3."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection. root: the directory with the buckets."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    root: Path

    def handle_one_request(self) -> None:
        """Answer a request; errors of S3 become their answers."""
        try:
            super().handle_one_request()
        except (ConnectionError, TimeoutError):
            self.close_connection = True

    def _run(self) -> None:
        url = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(url.query, keep_blank_values=True).items()}
        self.bucket, _, self.key = unquote(url.path).lstrip("/").partition("/")
        body = self._body() if self.command in ("PUT", "POST") else None
        try:
            self._checked(body)
            if self.command == "PUT" and not self.key:
                self.home.mkdir(parents=True, exist_ok=True)
                self._answer(200)
            else:
                getattr(self, f"_{self.command.lower()}")(body)
        except S3Error as error:
            self._refuse(error)
        except FileNotFoundError:  # the object was deleted meanwhile
            self._refuse(S3Error(404, "NoSuchKey"))
        finally:
            if body is not None:
                body.unlink(missing_ok=True)

    def _refuse(self, error: S3Error) -> None:
        text = f"<Error><Code>{error.code}</Code><Message>{error.code}</Message></Error>"
        self._answer(error.status, text.encode())

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _run  # noqa: N815  (names of http.server)

    def _checked(self, body: Path | None) -> None:
        """Set `home`, the directory of the bucket. Raises S3Error for a request that is not served."""
        names = [self.bucket, *self.key.split("/")] if self.key else [self.bucket]
        if not {"", ".", "..", UPLOADS}.isdisjoint(names):
            raise S3Error(400, "InvalidURI")
        if body is not None and not self._is_sound:
            raise S3Error(400, "BadDigest")
        self.home = self.root / self.bucket
        if not self.home.is_dir() and (self.command != "PUT" or self.key):
            raise S3Error(404, "NoSuchBucket")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (its name in http.server)
        """Log nothing."""

    # requests

    def _get(self, _: Path | None) -> None:
        if not self.key:
            self._list()
            return
        with self._opened() as file:
            size = os.fstat(file.fileno()).st_size
            first, last = self._range(size)
            headers = {"ETag": self._etag(), "Accept-Ranges": "bytes", "Last-Modified": self._modified()}
            if "Range" in self.headers:
                headers["Content-Range"] = f"bytes {first}-{last}/{size}"
            self._head_of(206 if "Range" in self.headers else 200, last - first + 1, headers)
            if self.command == "GET" and last >= first:
                self.wfile.flush()
                self.connection.sendfile(file, first, last - first + 1)

    _head = _get

    def _put(self, body: Path | None) -> None:
        assert body is not None
        if "uploadId" in self.query:
            target = self._upload() / f"{int(self.query['partNumber']):05}"
        else:
            target = self._path()
            target.parent.mkdir(parents=True, exist_ok=True)
        tag = hashlib.md5(body.read_bytes()).hexdigest()  # noqa: S324  (as S3 does)
        body.replace(target)
        self._answer(200, headers={"ETag": f'"{tag}"'})

    def _post(self, body: Path | None) -> None:
        assert body is not None
        if "uploads" in self.query:
            upload = uuid.uuid4().hex
            (self.home / UPLOADS / upload).mkdir(parents=True)
            self._xml("InitiateMultipartUploadResult", f"<Key>{escape(self.key)}</Key><UploadId>{upload}</UploadId>")
        elif "uploadId" in self.query:
            parts = [self._upload() / f"{int(each.text or 0):05}" for each in _of(body, "PartNumber")]
            whole = self._temporary()
            with whole.open("wb") as file:
                for part in parts:
                    if not part.is_file():
                        raise S3Error(400, "InvalidPart")
                    with part.open("rb") as source:
                        shutil.copyfileobj(source, file, COPY_BYTES)
            self._path().parent.mkdir(parents=True, exist_ok=True)
            whole.replace(self._path())
            shutil.rmtree(self._upload())
            self._xml("CompleteMultipartUploadResult", f"<Key>{escape(self.key)}</Key><ETag>{self._etag()}</ETag>")
        elif "delete" in self.query:
            names = [each.text or "" for each in _of(body, "Key")]
            for name in names:
                (self.home / name).unlink(missing_ok=True)
            self._xml("DeleteResult", "".join(f"<Deleted><Key>{escape(name)}</Key></Deleted>" for name in names))
        else:
            raise S3Error(501, "NotImplemented")

    def _delete(self, _: Path | None) -> None:
        if "uploadId" in self.query:
            shutil.rmtree(self._upload())
        else:
            self._path().unlink(missing_ok=True)
        self._answer(204)

    def _list(self) -> None:
        prefix = self.query.get("prefix", "")
        after = self.query.get("continuation-token", self.query.get("start-after", ""))
        size = min(PAGE, int(self.query.get("max-keys", PAGE)))
        keys = sorted((each for each in self._keys() if each.startswith(prefix) and each > after), key=str.encode)
        page = keys[:size]
        more = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if len(keys) > size else ""
        found = "".join(map(self._listed, page))
        ends = f"<IsTruncated>{str(bool(more)).lower()}</IsTruncated><KeyCount>{len(page)}</KeyCount>{more}"
        self._xml("ListBucketResult", ends + found)

    def _listed(self, key: str) -> str:
        try:
            status = (self.home / key).stat()
        except FileNotFoundError:  # deleted since it was listed
            return ""
        modified = datetime.fromtimestamp(status.st_mtime, UTC).isoformat()
        return (
            f"<Contents><Key>{escape(key)}</Key><LastModified>{modified}</LastModified>"
            f"<ETag>&quot;{status.st_mtime_ns:x}&quot;</ETag><Size>{status.st_size}</Size></Contents>"
        )

    # the directory

    def _keys(self) -> Iterator[str]:
        for directory, names, files in os.walk(self.home):
            if UPLOADS in names:
                names.remove(UPLOADS)
            yield from (os.path.relpath(Path(directory, each), self.home) for each in files)

    def _path(self) -> Path:
        return self.home / self.key

    def _opened(self) -> BinaryIO:
        try:
            file = self._path().open("rb")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
            raise S3Error(404, "NoSuchKey") from None
        wanted = self.headers.get("If-Match")
        if wanted is not None and wanted != self._etag():
            raise S3Error(412, "PreconditionFailed")
        return file

    def _upload(self) -> Path:
        path = self.home / UPLOADS / Path(self.query["uploadId"]).name
        if not path.is_dir():
            raise S3Error(404, "NoSuchUpload")
        return path

    def _etag(self) -> str:
        status = self._path().stat()
        return f'"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"'

    def _modified(self) -> str:
        return formatdate(self._path().stat().st_mtime, usegmt=True)

    def _temporary(self) -> Path:
        uploads = self.root / UPLOADS
        uploads.mkdir(exist_ok=True)
        return uploads / uuid.uuid4().hex

    # the connection

    def _range(self, size: int) -> tuple[int, int]:
        """Return the first and the last byte that the request asks for."""
        text = self.headers.get("Range", "bytes=0-").partition("=")[2]
        first, _, last = text.partition("-")
        begin = int(first) if first else max(0, size - int(last))
        end = min(size, int(last) + 1) if first and last else size
        if "Range" in self.headers and begin >= size:
            raise S3Error(416, "InvalidRange")
        return begin, end - 1

    def _body(self) -> Path:
        """Receive the body into a file. Raises S3Error if its checksum is wrong."""
        path, digest = self._temporary(), hashlib.sha256()
        left = int(self.headers.get("Content-Length", 0))
        with path.open("wb") as file:
            while left:
                data = self.rfile.read(min(left, COPY_BYTES))
                if not data:
                    raise ConnectionResetError
                left -= len(data)
                digest.update(data)
                file.write(data)
        wanted = self.headers.get("x-amz-checksum-sha256")
        self._is_sound = wanted is None or base64.b64decode(wanted) == digest.digest()
        return path

    def _xml(self, name: str, inside: str) -> None:
        self._answer(200, f'<?xml version="1.0" encoding="UTF-8"?><{name} {XMLNS}>{inside}</{name}>'.encode())

    def _answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        self._head_of(status, len(body), headers or {})
        if self.command != "HEAD":
            self.wfile.write(body)

    def _head_of(self, status: int, length: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()


def _of(body: Path, name: str) -> list[ET.Element]:
    """Return the elements of that name in a request's XML, whatever their namespace."""
    return [each for each in ET.fromstring(body.read_bytes()).iter() if each.tag.rpartition("}")[2] == name]  # noqa: S314


def main() -> None:
    """Serve until the input ends."""
    root = Path(sys.argv[1])
    root.mkdir(parents=True, exist_ok=True)
    handler = type("RootedHandler", (Handler,), {"root": root})
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[2]) if len(sys.argv) > 2 else 0), handler)
    server.daemon_threads = True
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()


if __name__ == "__main__":
    main()
