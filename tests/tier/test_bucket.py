"""A bucket as a store: beside the directory that it is a copy of, and on networks and servers that fail."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kcli.errors import KcliError, UnreadableInput, UsageError
from kcli.tier.address import Bucket
from kcli.tier.bucket import PART_BYTES, BucketStore, Limits
from kcli.tier.local import LocalStore
from kcli.tier.opening import open_store
from kcli.tier.store import ObjectMissing, StoreAway, StoredObject
from kcli.tier.windows import WindowedSource
from tests.tier.conftest import REMOTE
from tests.tier.s3 import Fault, Proxy, Reply, client, http, pass_on, s3_error

QUICK = Limits(request_s=0.5, connect_s=0.5, retrying_s=1, attempts=2)
GOLDEN_BUCKET = Bucket("s3", "golden", "a/tier/kafka-tiered-storage")
SCRATCH = Bucket("s3", "scratch", "x")
NAME = "r-short-1-KlEWaF5xTFCF8vBhf0Z2Xg/00000000000000000003-r3_GlAeKRPSs9A__R9j7tw.log"


@pytest.mark.parametrize("prefix", ["a/tier", "a/tier/kafka-tiered-storage", "/a/tier/"])
def test_a_copy_of_the_directory(s3: str, prefix: str) -> None:
    store, directory = open_store(f"s3://golden/{prefix}"), LocalStore(REMOTE)
    assert store.address == "s3://golden/a/tier/kafka-tiered-storage"
    for begin in ("", "r-", "r-short-1-", "r-short-1-KlEWaF5xTFCF8vBhf0Z2Xg/", NAME[:50], NAME, "x"):
        assert list(store.list_objects(begin)) == sorted(directory.list_objects(begin))


def test_every_object(s3: str) -> None:
    store, directory = BucketStore(GOLDEN_BUCKET), LocalStore(REMOTE)
    for each in directory.list_objects():
        with store.as_file(each.name) as copy, directory.as_file(each.name) as path:
            assert copy.read_bytes() == path.read_bytes()
            assert copy.name == path.name
        assert not copy.parent.exists()


def test_a_listing_of_one_partition_asks_for_no_other(proxy: Proxy) -> None:
    store = BucketStore(GOLDEN_BUCKET)
    proxy.seen.clear()
    assert len(list(store.list_objects("r-short-1-KlEWaF5xTFCF8vBhf0Z2Xg/"))) == 38
    [request] = proxy.lines
    assert "prefix=a/tier/kafka-tiered-storage/r-short-1-KlEWaF5xTFCF8vBhf0Z2Xg/" in request
    assert len(list(store.list_objects("r-short-1-"))) == 38
    assert "start-after=a/tier/kafka-tiered-storage/r-short-1,~" in proxy.lines[-1]


def test_names_that_are_no_objects(s3: str) -> None:
    for key in ("odd/", "odd/marker/", "odd/file", "odd/p/a", "odd/p/deep/er", "odd/empty"):
        client(s3).put_object(Bucket="scratch", Key=key, Body=b"" if key.endswith(("/", "empty")) else b"x")
    store = BucketStore(Bucket("s3", "scratch", "odd"))
    found = list(store.list_objects())
    assert [each.name for each in found if each.odd] == ["file", "p/deep/er"]
    assert [each for each in found if not each.odd] == [StoredObject("p/a", 1)]


@pytest.mark.parametrize("name", ["", "/", "a", "a/", "/a", "../a", "a/..", "a/../b", "a/b/c", "./a", "a\0b/c"])
def test_names_that_lead_out(s3: str, name: str) -> None:
    store = BucketStore(SCRATCH)
    reads = store.open, store.size, lambda each: store.read(each, 0, 1)
    for use in (*reads, store.delete, lambda each: store.write(each, [b"x"])):
        with pytest.raises(UsageError):
            use(name)


def test_listings_that_lead_out(s3: str) -> None:
    client(s3).put_object(Bucket="scratch", Key="x/p/there", Body=b"x")
    store = BucketStore(SCRATCH)
    for prefix in ("../x/", "/p/", "./p/", "p//", "p/../p/", "../golden/"):
        assert list(store.list_objects(prefix)) == []
    assert [each.name for each in store.list_objects("p/th")] == ["p/there"]


@pytest.mark.parametrize("size", [0, 1, 300_000, PART_BYTES, 2 * PART_BYTES + 5])
def test_write_read_delete(s3: str, size: int) -> None:
    store, name = BucketStore(SCRATCH), f"p/{size}"
    data = random.Random(size).randbytes(size)
    store.write(name, (memoryview(data)[i : i + 1_000_000] for i in range(0, size, 1_000_000)))
    assert store.size(name) == size
    assert StoredObject(name, size) in list(store.list_objects("p/"))
    source = store.open(name)
    assert source.size() == size
    places = [(0, size), (size // 2, 100), (size // 2 + 100, 1 << 20), (5, 5), (max(0, size - 3), 10), (size, 10)]
    for position, length in places:
        buffer = bytearray(length)
        got = source.read_at(position, memoryview(buffer))
        assert buffer[:got] == data[position : position + length]
        assert got == len(data[position : position + length])
        if position < size:
            assert store.read(name, position, position + length) == data[position : position + length]
    source.close()
    store.delete(name)
    store.delete(name)
    for use in (store.size, store.open, lambda each: store.read(each, 0, 1)):
        with pytest.raises(ObjectMissing, match=f"s3://scratch/x/{name}: no such object"):
            use(name)


@pytest.mark.parametrize("chosen", [None, "CRC64NVME"])
def test_the_server_gets_checksums(proxy: Proxy, monkeypatch: pytest.MonkeyPatch, chosen: str | None) -> None:
    if chosen:
        monkeypatch.setenv("AWS_CHECKSUM_ALGORITHM", chosen)
    monkeypatch.setenv("AWS_SERVER_SIDE_ENCRYPTION", "aws:kms")
    monkeypatch.setenv("AWS_SSE_KMS_KEY_ID", "a-key")
    store = BucketStore(SCRATCH)
    header = f"x-amz-checksum-{(chosen or 'SHA256').lower()}: ".encode()
    for size in (5, 2 * PART_BYTES):
        proxy.seen.clear()
        store.write("p/checked", [bytes(PART_BYTES)] * (size // PART_BYTES) or [b"small"])
        puts = [each.lower() for each in proxy.seen if each.startswith(b"PUT")]
        assert len(puts) == max(1, size // PART_BYTES)
        assert all(header in each for each in puts)
        assert b"x-amz-server-side-encryption-aws-kms-key-id: a-key" in proxy.seen[0].lower()


def test_a_write_that_ends_early_leaves_nothing(s3: str) -> None:
    def broken(length: int) -> Iterator[bytes]:
        yield bytes(length)
        raise UnreadableInput("somewhere", "gone")

    for length in (5, 3 * PART_BYTES):
        with pytest.raises(UnreadableInput, match="somewhere: gone"):
            BucketStore(SCRATCH).write("broken/object", broken(length))
    s3_client = client(s3)
    assert "Contents" not in s3_client.list_objects_v2(Bucket="scratch", Prefix="x/broken")
    assert not s3_client.list_multipart_uploads(Bucket="scratch").get("Uploads")


@pytest.mark.parametrize("requests", [0, 1, 3])
def test_a_write_that_the_server_refuses_leaves_nothing(proxy: Proxy, requests: int) -> None:
    store = BucketStore(SCRATCH)  # not QUICK: the parts that are not refused take as long as they take
    proxy.seen.clear()
    denied = s3_error("403 Forbidden", "AccessDenied")
    proxy.fault = lambda _, answer: [denied if len(proxy.seen) > requests else answer()]
    with pytest.raises(OSError, match="access denied") as caught:
        store.write("refused/object", [bytes(PART_BYTES)] * 4)
    assert caught.value.filename == "s3://scratch/x/refused/object"
    proxy.fault = pass_on
    assert list(store.list_objects("refused/")) == []


def test_a_full_disk(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    store = BucketStore(GOLDEN_BUCKET, spool=tmp_path)
    monkeypatch.setattr(WindowedSource, "read_at", full)
    with pytest.raises(OSError, match="No space left") as caught, store.as_file(NAME):
        pass
    assert caught.value.filename == str(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_object_that_is_written_anew_while_it_is_read(s3: str) -> None:
    store = BucketStore(SCRATCH)
    store.write("p/changing", [bytes(3 << 20)])
    source = store.open("p/changing")
    store.write("p/changing", [b"\1" * (3 << 20)])
    with pytest.raises(UnreadableInput, match="changed while it was read"):
        source.read_at(1 << 20, memoryview(bytearray(10)))
    source.close()


# what fails


def answering(reply: bytes) -> Fault:
    return lambda *_: [reply]


def silent(*_: object) -> Reply:
    yield 2.0


def closed(*_: object) -> Reply:
    return ()


def dripping(_: bytes, answer: Callable[[], bytes]) -> Reply:
    for byte in answer():
        yield bytes([byte])
        yield 0.05


def cut(_: bytes, answer: Callable[[], bytes]) -> Reply:
    yield answer()[:-5]


def shorter(_: bytes, answer: Callable[[], bytes]) -> Reply:
    """A server that returns, and says so, fewer bytes than there are."""
    body = answer().partition(b"\r\n\r\n")[2][:-5]
    yield http("206 Partial Content", body, f"Content-Range: bytes 0-{len(body) - 1}/9999", *META)


META = ('ETag: "x"', "Last-Modified: Fri, 27 Nov 2026 10:00:00 GMT")
FAULTS: dict[str, tuple[Fault, str]] = {
    "silent": (silent, "does not answer in time"),
    "closed": (closed, "cuts the connection"),
    "dripping": (dripping, "does not answer in time"),
    "cut": (cut, "cuts the connection"),
    "busy": (answering(s3_error("503 Slow Down", "SlowDown")), "HTTP 503 SlowDown; it may be overloaded"),
    "denied": (answering(s3_error("403 Forbidden", "AccessDenied")), r"access denied \(AccessDenied\)"),
    "denied without a word": (answering(http("403 Forbidden")), r"access denied \(HTTP 403\)"),
    "key": (answering(s3_error("403 Forbidden", "InvalidAccessKeyId")), "credentials are not valid"),
    "signature": (answering(s3_error("403 Forbidden", "SignatureDoesNotMatch")), "credentials are not valid"),
    "bucket": (answering(s3_error("404 Not Found", "NoSuchBucket")), "no such bucket"),
    "region": (answering(http("301 Moved")), "another region"),
    "garbage": (answering(b"\0\1\2garbage\r\n\r\n"), "check AWS_ENDPOINT_URL"),
    "other": (answering(http("200 OK", b"<html>hello</html>")), "check AWS_ENDPOINT_URL"),
}


WITHOUT_CODE = ("denied", "key", "signature", "bucket")
OTHER = "other"  # an answer that is no answer of S3; a list of nothing and a size may look like it
USES = [(does, fault) for does in ("open", "read", "list", "size", "write", "delete") for fault in FAULTS]


@pytest.mark.parametrize(("does", "fault"), [each for each in USES if each not in {("list", OTHER), ("size", OTHER)}])
def test_faults(proxy: Proxy, does: str, fault: str) -> None:
    """One line, in time, that names the address and shows no secret; and then the server is well again."""
    store = BucketStore(GOLDEN_BUCKET, QUICK)
    reply, text = FAULTS[fault]
    proxy.fault = reply
    begun = time.monotonic()
    uses: dict[str, Callable[[], object]] = {
        "open": lambda: store.open(NAME),
        "read": lambda: store.read(NAME, 10, 20),
        "list": lambda: list(store.list_objects()),
        "size": lambda: store.size(NAME),
        "write": lambda: store.write("p/x", [b"x"]),
        "delete": lambda: store.delete("p/x"),
    }
    with pytest.raises((KcliError, OSError)) as caught:
        uses[does]()
    assert time.monotonic() - begun < 25, "it waits for as long as the server does"
    line = str(caught.value)
    assert "s3://golden/a/tier/kafka-tiered-storage" in line
    assert "\n" not in line
    assert "s3cr3t" not in line
    if does != "size" or ("HTTP" not in text and fault not in WITHOUT_CODE):  # a HEAD has no body
        assert caught.match(text)
    proxy.fault = pass_on
    assert store.size(NAME) == (REMOTE / "kafka-tiered-storage" / NAME).stat().st_size


def once(fault: Fault, proxy: Proxy) -> Fault:
    """The fault for the first request that the proxy has seen."""

    def reply(request: bytes, answer: Callable[[], bytes]) -> Reply:
        return fault(request, answer) if len(proxy.seen) == 1 else pass_on(request, answer)

    return reply


def test_a_server_that_recovers(proxy: Proxy) -> None:
    store = BucketStore(GOLDEN_BUCKET, QUICK)
    for fault in (answering(s3_error("503 Slow Down", "SlowDown")), closed, cut, silent):
        proxy.seen.clear()
        proxy.fault = once(fault, proxy)
        store.open(NAME).close()
        assert len(proxy.seen) == 2
        proxy.seen.clear()
        assert len(list(store.list_objects())) == 114
        assert len(proxy.seen) == 2


def test_fewer_bytes(proxy: Proxy) -> None:
    store = BucketStore(GOLDEN_BUCKET, QUICK)
    proxy.fault = shorter
    with pytest.raises(UnreadableInput, match=r"returns [0-9,]+ bytes, not 9,999|other bytes than those asked for"):
        store.open(NAME)


def test_a_listing_that_goes_in_circles(proxy: Proxy) -> None:
    page = (
        "<ListBucketResult><Name>golden</Name><IsTruncated>true</IsTruncated>"
        "<NextContinuationToken>again</NextContinuationToken><Contents><Key>a/tier/kafka-tiered-storage/p/x</Key>"
        "<LastModified>2026-11-27T10:00:00.000Z</LastModified><ETag>x</ETag><Size>5</Size></Contents></ListBucketResult>"
    )
    store = BucketStore(GOLDEN_BUCKET)
    proxy.fault = answering(http("200 OK", page.encode()))
    with pytest.raises(UnreadableInput, match="the server lists"):
        list(store.list_objects())


@pytest.mark.parametrize(
    ("key", "reason"),
    [("empty//part", "an empty part"), ("escape/\x1bpart", r"'\u{1b}'"), ("delete/\x7f", r"'\u{7f}'")],
)
def test_a_key_that_is_no_path(s3: str, key: str, reason: str) -> None:
    client(s3).put_object(Bucket="scratch", Key=key, Body=b"")
    with pytest.raises(UnreadableInput, match=re.escape(f"has {reason}, and")):
        list(BucketStore(Bucket("s3", "scratch", key.partition("/")[0])).list_objects())
    client(s3).delete_object(Bucket="scratch", Key=key)


@pytest.mark.parametrize(
    ("endpoint", "text"),
    [
        ("http://127.0.0.1:1", "connection refused"),
        ("http://user:s3cr3t@127.0.0.1:1", "check"),
        ("http://no-such-host.invalid", "name is not known"),
        ("nonsense", "check"),
        ("https://127.0.0.1:1", "connection refused"),
    ],
)
def test_endpoints_of_nothing(s3: str, monkeypatch: pytest.MonkeyPatch, endpoint: str, text: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(UnreadableInput, match=text) as caught:
        BucketStore(GOLDEN_BUCKET, QUICK)
    assert "s3cr3t" not in str(caught.value)
    assert "AWS_ENDPOINT_URL" in str(caught.value)


def test_tls_is_checked(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint.replace("http:", "https:"))
    with pytest.raises(UnreadableInput, match="check AWS_ENDPOINT_URL"):
        BucketStore(GOLDEN_BUCKET, QUICK)


@pytest.mark.parametrize(
    "url", ["s3://golden/nothing", "s3://golden/a/tie", "s3://golden/a/tier/kafka-tiered-storage/x"]
)
def test_a_prefix_without_objects(s3: str, url: str) -> None:
    with pytest.raises(UnreadableInput, match=f"{url}: no object's name begins with this prefix"):
        open_store(url)


def test_no_such_bucket(s3: str) -> None:
    with pytest.raises(UnreadableInput, match="s3://nothing/x: no such bucket"):
        open_store("s3://nothing/x")


def test_a_web_page_in_place_of_a_list(proxy: Proxy) -> None:
    """As that of a console, or of a network that wants a login."""
    page = b"<html><head><title>Console</title></head><body>login</body></html>"
    proxy.fault = answering(http("200 OK", page))
    with pytest.raises(UnreadableInput, match="does not answer as such a store does; check AWS_ENDPOINT_URL"):
        open_store("s3://golden/a/tier")


def test_a_store_that_is_away_is_looked_at_later(proxy: Proxy) -> None:
    proxy.fault = lambda *_: [1.0]
    store = BucketStore(GOLDEN_BUCKET, QUICK, may_be_away=True)
    with pytest.raises(StoreAway):
        store.check(0.2)
    with pytest.raises(StoreAway):
        next(iter(store.list_objects()))
    proxy.fault = pass_on
    assert store.size(NAME)
    assert store.address == "s3://golden/a/tier/kafka-tiered-storage"
    with pytest.raises(UnreadableInput, match="no such bucket"):
        BucketStore(Bucket("s3", "nothing", ""), QUICK, may_be_away=True).check(10)


# profiles


def test_a_profile(proxy: Proxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "credentials").write_text("[work]\naws_access_key_id = of-work\naws_secret_access_key = s3cr3t\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert BucketStore(GOLDEN_BUCKET, QUICK).size(NAME) > 0
    assert all(b"Credential=of-work/" in each for each in proxy.seen)
    monkeypatch.setenv("AWS_PROFILE", "home")
    with pytest.raises(UsageError, match="AWS_PROFILE=home"):
        BucketStore(GOLDEN_BUCKET, QUICK)
