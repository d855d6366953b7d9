"""A bucket as a store, through obstore: Amazon S3, Google Cloud Storage, Azure Blob Storage, and what speaks their
protocols.

    <prefix>/<topic>-<partition>-<topic id>/<offset>-<segment id>.log and so on

The names are those of LocalTieredStorage, so that a copy of its directory (`aws s3 sync`) is such a store; the prefix
may be that of the directory `kafka-tiered-storage`, or of the directory that contains it.

Credentials, region, endpoint and encryption come from where obstore takes them: AWS_*, GOOGLE_* and AZURE_* in the
environment, and the machine's role; profiles of AWS through boto3. Each request is tried again after errors of the
server and of the network, in the time that `Limits` gives; then it is an error in one line. Objects are read in windows
(`windows`); if an object was overwritten since the first of them, the next is an error. The server checks what is
written: S3 gets the SHA-256 of each request, if the environment does not name another checksum.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from kcli.errors import UnreadableInput, UsageError, needing
from kcli.log.source import BytesSource, Source
from kcli.tier.address import INSIDE, Bucket
from kcli.tier.bucket_errors import (
    is_cut_list,
    is_empty_object,
    is_missing_bucket,
    is_of_one_object,
    is_passing,
    no_store,
    reason,
)
from kcli.tier.spool import spooled
from kcli.tier.store import (
    FilePart,
    ObjectMissing,
    ObjectPart,
    StoreAway,
    StoredObject,
    StoreFailed,
    checked_key,
    checked_name,
)
from kcli.tier.windows import FIRST_BYTES, WindowedSource

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta
    from obstore.store import ClientConfig, ObjectStore, RetryConfig

T = TypeVar("T")
PART_BYTES = 8 << 20
"""The size of a part of a multipart upload, in bytes; S3 allows 10,000 parts in an upload."""
PARTS_AT_ONCE = 3
LISTED_AT_ONCE = 1000
ABSENT = "kcli-tells-a-store-by-this-object-that-is-absent"
REQUESTS_AT_ONCE = 4
BACKOFF_S, BACKOFF_S_MAX = 0.1, 5.0
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT", "GOOGLE_BASE_URL", "AZURE_STORAGE_ENDPOINT")
_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_SKIP_SIGNATURE")
_ABOVE, _BELOW = "an object beside the directories of partitions", "an object below the directory of a partition"


class Limits(NamedTuple):
    """The limits of a request. request_s: the time for one attempt. connect_s: the time to connect. retrying_s: the
    time after which no further attempt begins. attempts: how many attempts may follow the first."""

    request_s: float = 30
    connect_s: float = 5
    retrying_s: float = 30
    attempts: int = 5

    @property
    def total_s(self) -> float:
        """The time, in seconds, after which a request counts as failed, even if obstore has not given up."""
        return 2 * (self.request_s + self.retrying_s)


class Access(NamedTuple):
    """How to reach a bucket of S3, in place of what the environment says: None leaves that. endpoint: the URL of a
    server."""

    region: str | None = None
    endpoint: str | None = None
    key_id: str | None = None
    secret: str | None = None


class BucketStore:
    """A bucket, or the objects below a prefix of it. spool: the directory for copies, else that of the system.
    look_inside: whether the prefix may be that of the directory that contains `kafka-tiered-storage`, which a first
    request finds out.
    may_be_away: make that request only before the first other one, which then fails if the store does not answer.
    access: of S3.

    Raises UnreadableInput if the bucket cannot be listed, NotInstalled.
    """

    def __init__(
        self,
        bucket: Bucket,
        limits: Limits | None = None,
        spool: Path | None = None,
        *,
        look_inside: bool = True,
        may_be_away: bool = False,
        access: Access | None = None,
    ) -> None:
        with needing("tier"):
            import obstore
        self._obstore = obstore
        self._bucket = bucket
        self._limits = Limits() if limits is None else limits
        self._spool = spool
        self._threads = ThreadPoolExecutor(REQUESTS_AT_ONCE, "kcli-tier")
        try:
            self._remote = _connected(bucket, self._limits, access or Access())
        except (obstore.exceptions.BaseError, ValueError) as error:
            raise UnreadableInput(str(bucket), reason(bucket.service, error)) from None
        self._has_looked = not look_inside
        if not may_be_away:
            self._look()

    def check(self, limit_s: float) -> None:
        """Make a request. Raises StoreAway if the store does not answer within limit_s; UnreadableInput if it grants no
        access, or does not exist."""
        try:
            self._threads.submit(self._look).result(limit_s)
        except FutureTimeout:
            raise StoreAway(self.address, f"no answer in {limit_s:,.0f} s") from None

    def _look(self) -> None:
        if not self._has_looked:
            prefix = self._bucket.prefix
            inside = f"{prefix}/{INSIDE}" if prefix else INSIDE
            if next(self._listed(f"{inside}/"), None) is not None and not self._has_looked:
                self._bucket = self._bucket._replace(prefix=inside)
            self._has_looked = True

    @property
    def bucket(self) -> Bucket:
        """The bucket, with the prefix below which the partitions' directories are."""
        return self._bucket

    @property
    def address(self) -> str:
        """The URL below which the partitions' directories are."""
        return str(self._bucket)

    @property
    def is_remote(self) -> bool:
        """True."""
        return True

    @property
    def is_plugin(self) -> bool:
        """False: the objects are not laid out by Aiven's plugin."""
        return False

    @property
    def options(self) -> Sequence[str]:
        """No options: the objects are read as they are."""
        return ()

    def place(self, name: str) -> str:
        """Return the URL of an object."""
        return self._url(name)

    @property
    def is_empty(self) -> bool:
        """Whether there is no object at all, which looks the same as a wrong prefix. Raises StoreFailed, also for a web
        page in place of a list, in which no object can be found."""
        if next(self._listed(self._key("")), None) is not None:
            return False
        known = self._obstore.exceptions
        request = self._submit(self._obstore.head, self._remote, self._key(ABSENT))
        try:
            request.result(self._limits.total_s)
        except (FileNotFoundError, PermissionError, known.PermissionDeniedError, known.UnauthenticatedError):
            return True
        except (known.BaseError, FutureTimeout) as error:
            if _kind(error) is StoreAway:
                raise StoreAway(self.address, self._reason(error)) from None
        raise StoreFailed(self.address, no_store(self._bucket.service))

    def list_objects(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield the objects whose names begin with `prefix`; also, with `odd` set, the keys that no object can have."""
        if any(part in ("", ".", "..") for part in prefix.split("/")[:-1]):
            return  # no object has such a name
        home = len(self._key(""))
        for each in self._listed(self._key(prefix)):
            name = each["path"][home:]
            slashes = name.count("/")
            if slashes == 1:
                yield StoredObject(name, each["size"])
            elif slashes or each["size"]:  # consoles make empty objects for directories
                yield StoredObject(name, each["size"], _BELOW if slashes else _ABOVE)

    def list_keys(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield the objects whose keys, below the prefix of the address, begin with `prefix`; the keys may have any
        number of slashes."""
        home = len(self._key(""))
        for each in self._listed(self._key(prefix)):
            key = each["path"][home:]
            if key and not key.endswith("/"):  # consoles make such empty objects for directories
                yield StoredObject(key, each["size"])

    def size(self, name: str) -> int:
        """Return the size of an object in bytes."""
        return self._head(checked_name(name))["size"]

    def open(self, name: str) -> Source:
        """Return an object's bytes as a Source. Its first window is downloaded already."""
        return self.open_key(checked_name(name))

    def open_key(self, name: str) -> Source:
        """Return the bytes of an object as a Source, as `open` does. name: its key below the prefix of the address."""
        url = self._url(checked_key(name))
        try:
            meta, data = self._wait(url, self._submit(self._get, self._key(name), {"range": (0, FIRST_BYTES)}), name)
        except _EmptyRange:
            if self._head(name)["size"]:
                raise UnreadableInput(url, "the server returns no bytes of it") from None
            return BytesSource(b"", url)
        size = meta["size"]
        self._check(url, len(data), min(size, FIRST_BYTES))

        def fetch(start: int, stop: int) -> Future[memoryview]:
            return self._submit(self._window, name, start, stop, meta["e_tag"])

        return WindowedSource(url, size, data, fetch, lambda future: self._wait(url, future, name))

    def read(self, name: str, start: int, stop: int) -> memoryview:
        """Return the bytes [start, stop) of an object, with one request."""
        if start >= stop:
            return memoryview(b"")
        url, key = self._url(checked_name(name)), self._key(name)
        _, data = self._wait(url, self._submit(self._get, key, {"range": (start, stop)}), name)
        return data

    @contextmanager
    def as_file(self, name: str) -> Iterator[Path]:
        """Copy an object to a temporary file, and yield its path. The file is removed at the end of the context."""
        with spooled(self.open(name), name, self._spool) as path:
            yield path

    def write(self, name: str, parts: Iterable[ObjectPart]) -> None:
        """Write a new object: in one request, or as a multipart upload, which is completed when all parts are there."""
        url, given = self._url(checked_name(name)), _Parts(parts)
        try:
            self._wait(url, self._submit(self._put, self._key(name), given), limit_s=None)
        except UnreadableInput as error:
            if given.error is not None:
                raise given.error from None
            raise OSError(errno.EIO, error.reason, url) from None

    def write_key(self, key: str, parts: Iterable[ObjectPart]) -> None:
        """Write an object, as `write` does. key: its key below the prefix of the address. Raises StoreAway,
        UnreadableInput."""
        self._wait(self._url(checked_key(key)), self._submit(self._put, self._key(key), _Parts(parts)), limit_s=None)

    def delete(self, name: str) -> None:
        """Remove an object."""
        url, key = self._url(checked_name(name)), self._key(name)
        try:
            self._wait(url, self._submit(self._obstore.delete, self._remote, key), name)
        except ObjectMissing:
            return
        except UnreadableInput as error:
            raise OSError(errno.EIO, error.reason, url) from None

    def forget(self, directory: str) -> None:
        """Do nothing: a bucket has no directories."""

    @property
    def _is_sorted(self) -> bool:
        """Whether keys are listed in order: not so in a directory bucket of S3 Express."""
        return not self._bucket.name.endswith("--x-s3")

    # names and keys of objects

    def _key(self, name: str) -> str:
        self._look()
        return f"{self._bucket.prefix}/{name}" if self._bucket.prefix else name

    def _url(self, name: str) -> str:
        return f"{self.address}/{name}"

    # requests, each on a thread, so that Ctrl-C or the time limit ends the wait for a request

    def _submit(self, call: Callable[..., T], *args: Any) -> Future[T]:
        return self._threads.submit(call, *args)

    def _wait(self, url: str, future: Future[T], name: str | None = None, limit_s: float | None = -1) -> T:
        """Return the result of a request. name: the object that the request names; None if it names none. limit_s: the
        longest wait, in seconds; None for no limit, -1 for the total of `Limits`.

        Raises UnreadableInput, StoreFailed, ObjectMissing.
        """
        try:
            return future.result(self._limits.total_s if limit_s == -1 else limit_s)
        except BaseException as error:
            if not self._is_of_store(error):
                raise
            if name is not None and isinstance(error, FileNotFoundError) and not is_missing_bucket(error):
                raise ObjectMissing(f"{url}: no such object") from None
            raise _kind(error)(url, self._reason(error)) from None

    def _is_of_store(self, error: BaseException) -> bool:
        """Whether obstore, not kcli, raised the error. A panic of Rust is a BaseException."""
        known = (self._obstore.exceptions.BaseError, FileNotFoundError, FutureTimeout, CancelledError, ValueError)
        return isinstance(error, known) or type(error).__name__ == "PanicException"

    def _reason(self, error: BaseException) -> str:
        if isinstance(error, FutureTimeout):
            return f"no answer in {self._limits.total_s:,.0f} s"
        return reason(self._bucket.service, error)

    def _listed(self, prefix: str) -> Iterator[ObjectMeta]:
        """Yield the objects whose keys begin with `prefix`, page by page.

        obstore lists only what is below a whole directory. If `prefix` ends inside a name, the listing therefore begins
        at a key just below `prefix`, and ends at the first key above the keys with `prefix`. Raises UnreadableInput.
        """
        directory, slash, begin = prefix.rpartition("/")
        offset = f"{prefix[:-1]}{chr(ord(prefix[-1]) - 1)}~" if begin > " " else None  # a key just below `prefix`
        last = ""
        for page in self._pages(directory if slash else None, offset):
            for each in page:
                key = each["path"]
                if self._is_sorted and key <= last:
                    raise UnreadableInput(self.address, f"the server lists {key[:200]!r} behind {last[:200]!r}")
                last = key
                if key.startswith(prefix):
                    yield each
                elif begin and self._is_sorted and key > prefix:
                    return

    def _pages(self, directory: str | None, offset: str | None) -> Iterator[Sequence[ObjectMeta]]:
        """Yield the pages of a listing that begins after the key `offset`.

        obstore does not try again after an answer that breaks off: then this method lists again after the last key.
        """
        tries, deadline_s = 0, 0.0
        pages = self._obstore.list(self._remote, directory, offset=offset, chunk_size=LISTED_AT_ONCE)
        while True:
            try:
                page = self._wait(self.address, self._submit(next, pages, None))
            except _PageCut:
                deadline_s = deadline_s if tries else time.monotonic() + self._limits.retrying_s
                tries += 1
                if not self._is_sorted or tries > self._limits.attempts or time.monotonic() > deadline_s:
                    raise
                time.sleep(min(BACKOFF_S * 2**tries, BACKOFF_S_MAX))
                pages = self._obstore.list(self._remote, directory, offset=offset, chunk_size=LISTED_AT_ONCE)
                continue
            if page is None:
                return
            yield page
            tries, offset = 0, page[-1]["path"] if page else offset

    def _head(self, name: str) -> ObjectMeta:
        return self._wait(self._url(name), self._submit(self._obstore.head, self._remote, self._key(name)), name)

    def _get(self, key: str, options: GetOptions) -> tuple[ObjectMeta, memoryview]:
        result = self._obstore.get(self._remote, key, options=options)
        return result.meta, memoryview(result.bytes())

    def _window(self, name: str, start: int, stop: int, e_tag: str | None) -> memoryview:
        options: GetOptions = {"range": (start, stop)}
        if e_tag is not None:
            options["if_match"] = e_tag
        _, data = self._get(self._key(name), options)
        self._check(self._url(name), len(data), stop - start)
        return data

    @staticmethod
    def _check(url: str, got: int, expected: int) -> None:
        if got != expected:
            raise UnreadableInput(url, f"the server returns {got:,} bytes, not {expected:,}")

    def _put(self, key: str, given: _Parts) -> None:
        begin: list[bytes | memoryview] = []
        length = 0
        for part in given:
            begin.append(part)
            length += len(part)
            if length > PART_BYTES:
                rest = chain(begin, given)
                self._obstore.put(
                    self._remote, key, rest, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE, use_multipart=True
                )
                return
        self._obstore.put(self._remote, key, b"".join(begin), use_multipart=False)


class _EmptyRange(UnreadableInput):
    """A range of bytes was requested of an empty object, which has none."""


class _PageCut(StoreFailed):
    """The server's answer with a page of a listing broke off."""


def _kind(error: BaseException) -> type[UnreadableInput]:
    if is_empty_object(error):
        return _EmptyRange
    if is_cut_list(error):
        return _PageCut
    if isinstance(error, FutureTimeout) or is_passing(error):
        return StoreAway
    return UnreadableInput if is_of_one_object(error) else StoreFailed


class _Parts:
    """The parts of an object that is written. error: the error that ended the parts early; None if there was none."""

    def __init__(self, parts: Iterable[ObjectPart]) -> None:
        self._parts = iter(parts)
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[bytes | memoryview]:
        return self

    def __next__(self) -> bytes | memoryview:
        try:
            return _bytes_of(next(self._parts))
        except StopIteration:
            raise
        except BaseException as error:
            self.error = error
            raise


def _bytes_of(part: ObjectPart) -> bytes | memoryview:
    if not isinstance(part, FilePart):
        return part
    data = part.read()
    if len(data) != part.length:
        raise OSError(errno.EIO, f"the file that is copied ends at byte {part.start + len(data):,}")
    return data


def _connected(bucket: Bucket, limits: Limits, access: Access) -> ObjectStore:
    """Return obstore's client for a bucket; it connects with the first request."""
    from obstore.store import AzureStore, GCSStore, S3Store

    retries: RetryConfig = {
        "max_retries": limits.attempts,
        "retry_timeout": timedelta(seconds=limits.retrying_s),
        "backoff": {
            "init_backoff": timedelta(seconds=BACKOFF_S),
            "max_backoff": timedelta(seconds=BACKOFF_S_MAX),
            "base": 2,
        },
    }
    client: ClientConfig = {
        "timeout": timedelta(seconds=limits.request_s),
        "connect_timeout": timedelta(seconds=limits.connect_s),
    }
    if any((each or "").startswith("http://") for each in (access.endpoint, *map(os.environ.get, _ENDPOINTS))):
        client["allow_http"] = True  # such an endpoint is set on purpose
    if bucket.service == "gs":
        return GCSStore(bucket.name, client_options=client, retry_config=retries)
    if bucket.service == "az":
        account = {} if bucket.account is None else {"account_name": bucket.account}
        return AzureStore(bucket.name, client_options=client, retry_config=retries, **account)  # type: ignore[arg-type]
    checksum = os.environ.get("AWS_CHECKSUM_ALGORITHM", "SHA256")
    names = ("region", "endpoint", "access_key_id", "secret_access_key")
    own: Any = {name: text for name, text in zip(names, access, strict=True) if text is not None}
    return S3Store(
        bucket.name,
        client_options=client,
        retry_config=retries,
        credential_provider=None if access.key_id is not None else _profile(),
        checksum_algorithm=checksum,
        **own,
    )


def _profile() -> Any:
    """Return the provider of the credentials of a profile in ~/.aws; None without a profile, or if environment
    variables have credentials."""
    chosen = os.environ.get("AWS_PROFILE")
    if any(os.environ.get(each) for each in _KEYS) or not (chosen or _has_profiles()):
        return None
    with needing("tier"):
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    try:
        return Boto3CredentialProvider()
    except (BotoCoreError, ValueError) as error:  # its text may have the output of a credential process
        name = f"AWS_PROFILE={chosen}" if chosen else "~/.aws"
        raise UsageError(f"{name}: no credentials are found ({type(error).__name__})") from None


def _has_profiles() -> bool:
    path = os.environ.get("AWS_SHARED_CREDENTIALS_FILE", "~/.aws/credentials")
    return Path(path).expanduser().is_file()
