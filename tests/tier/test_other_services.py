"""Google Cloud Storage and Azure, as far as they can be had on this machine.

No emulator of theirs is a package of PyPI that speaks what obstore speaks. Google's service has the requests of S3, so
that moto's server answers for it; of Azure's the answers to the requests that read are made here.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

import pytest

from kcli.errors import UnreadableInput
from kcli.tier.address import Bucket
from kcli.tier.bucket import PART_BYTES, BucketStore
from kcli.tier.local import LocalStore
from kcli.tier.opening import open_store
from kcli.tier.store import ObjectMissing
from tests.tier.conftest import REMOTE
from tests.tier.s3 import Proxy, Reply, client, http, s3_error

MODIFIED = "Fri, 27 Nov 2026 10:00:00 GMT"
BEGINS = ("", "r-", "r-short-1-", "r-short-1-KlEWaF5xTFCF8vBhf0Z2Xg/", "x")


def same_as_directory(store: BucketStore) -> None:
    directory = LocalStore(REMOTE)
    for begin in BEGINS:
        assert list(store.list_objects(begin)) == sorted(directory.list_objects(begin))
    for each in directory.list_objects():
        with store.as_file(each.name) as copy, directory.as_file(each.name) as path:
            assert copy.read_bytes() == path.read_bytes()
        assert store.size(each.name) == each.size
    for use in (store.open, store.size):
        with pytest.raises(ObjectMissing):
            use("r-short-1-KlEWaF5xTFCF8vBhf0Z2Xg/none")


@pytest.fixture(scope="module")
def public(s3_endpoint: str) -> str:
    """An endpoint whose bucket `public` has golden/tiered, and takes requests without a signature."""
    s3 = client(s3_endpoint)
    s3.create_bucket(Bucket="public")
    for path in sorted(REMOTE.rglob("*")):
        if path.is_file():
            key = f"tier/{path.relative_to(REMOTE)}"
            s3.put_object(Bucket="public", Key=key, Body=path.read_bytes(), ACL="public-read")
    return s3_endpoint


def test_google(s3: str, public: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_BASE_URL", public)
    monkeypatch.setenv("GOOGLE_BEARER_TOKEN", "s3cr3t")  # no request for a role of this machine
    store = open_store("gs://public/tier")
    assert store.address == "gs://public/tier/kafka-tiered-storage"
    assert isinstance(store, BucketStore)
    same_as_directory(store)
    for parts in ([b"small"], [bytes(PART_BYTES)] * 3):
        store.write("p/new", parts)
        assert [each.size for each in store.list_objects("p/")] == [sum(map(len, parts))]
        store.delete("p/new")
    with pytest.raises(UnreadableInput, match="gs://none/x: no such bucket"):
        open_store("gs://none/x")


def azure(request: bytes, _: Callable[[], bytes]) -> Reply:
    """The container `logs` of Azure with golden/tiered: a list in pages of 50, and blobs by range."""
    line, *headers = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    method, target, _version = line.split()
    url, query = urlsplit(target), parse_qs(urlsplit(target).query)
    if query.get("comp") == ["list"]:
        if not url.path.startswith("/logs"):
            yield s3_error("404 Not Found", "ContainerNotFound")
            return
        yield http("200 OK", listing(query.get("prefix", [""])[0], int(query.get("marker", ["0"])[0])))
        return
    path = REMOTE / unquote(url.path).removeprefix("/logs/tier/")
    if not path.is_file():
        yield s3_error("404 Not Found", "BlobNotFound")
        return
    data = path.read_bytes()
    values = (f"Last-Modified: {MODIFIED}", f'ETag: "{len(data)}"', "x-ms-blob-type: BlockBlob")
    if method == "HEAD":
        yield http("200 OK", data, *values).partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        return
    (asked,) = (each.partition("=")[2] for each in headers if "range" in each.partition(":")[0].lower())
    start, stop = (int(each) for each in asked.split("-"))
    if start >= len(data):
        yield s3_error("416 Range Not Satisfiable", "InvalidRange")
        return
    part = data[start : stop + 1]
    yield http(
        "206 Partial Content", part, f"Content-Range: bytes {start}-{start + len(part) - 1}/{len(data)}", *values
    )


def listing(prefix: str, begin: int) -> bytes:
    """A page of Azure's list of blobs."""
    files = sorted(f"tier/{path.relative_to(REMOTE)}" for path in REMOTE.rglob("*") if path.is_file())
    found = [each for each in files if each.startswith(prefix)]
    blobs = "".join(
        f"<Blob><Name>{escape(each)}</Name><Properties><Last-Modified>{MODIFIED}</Last-Modified><Content-Length>"
        f"{(REMOTE / each.removeprefix('tier/')).stat().st_size}</Content-Length><Content-Type>x</Content-Type>"
        "<Etag>x</Etag></Properties></Blob>"
        for each in found[begin : begin + 50]
    )
    marker = str(begin + 50) if begin + 50 < len(found) else ""
    text = f"<EnumerationResults><Blobs>{blobs}</Blobs><NextMarker>{marker}</NextMarker></EnumerationResults>"
    return f'<?xml version="1.0" encoding="utf-8"?>{text}'.encode()


def test_azure(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", proxy.endpoint)
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acme")
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")  # no request for an identity of this machine
    proxy.fault = azure
    store = open_store("az://logs/tier")
    assert store.address == "az://logs/tier/kafka-tiered-storage"
    assert isinstance(store, BucketStore)
    same_as_directory(store)
    with pytest.raises(UnreadableInput, match="az://none/x: no such bucket"):
        open_store("az://none/x")


def test_azure_with_its_account(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", proxy.endpoint)
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    proxy.fault = azure
    assert BucketStore(Bucket("az", "logs", "tier", "acme")).address == (
        "abfs://logs@acme.dfs.core.windows.net/tier/kafka-tiered-storage"
    )
