"""Where a store is: a directory, or the URL of a bucket.

    /path, file:///path                              a directory, as LocalTieredStorage lays it out
    s3://bucket/prefix                               Amazon S3, and servers that speak its protocol
    gs://bucket/prefix                               Google Cloud Storage
    az://container/prefix                            Azure Blob Storage, of the account that the environment names
    abfs://container@account.dfs.core.windows.net/prefix   the same with the account in the URL

A prefix is a path: objects are named `prefix/<partition's directory>/<object>`. Credentials are never in a URL.
"""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

from kcli.errors import UsageError

SCHEMES = {"s3": "s3", "s3a": "s3", "gs": "gs", "az": "az", "abfs": "az", "abfss": "az"}
"""The schemes of buckets, and the service that each names."""
INSIDE = "kafka-tiered-storage"
"""The directory that LocalTieredStorage makes in the directory that it is configured with."""


class Bucket(NamedTuple):
    """A bucket, or a container of Azure. service: `s3`, `gs` or `az`. account: of Azure; None if the environment names
    it. prefix: without slashes at its ends, empty for the whole bucket."""

    service: str
    name: str
    prefix: str
    account: str | None = None

    def __str__(self) -> str:
        whose = self.name if self.account is None else f"{self.name}@{self.account}.dfs.core.windows.net"
        scheme = self.service if self.account is None else "abfs"
        return f"{scheme}://{whose}/{self.prefix}" if self.prefix else f"{scheme}://{whose}"


def parse_address(text: str, option: str = "--tier") -> str | Bucket:
    """Return the path of a directory, or the bucket. option: the command-line option with the address. Raises
    UsageError, which names the option and shows no password."""
    scheme, colon, rest = text.partition("://")
    if not colon or "/" in scheme:
        return text
    if scheme == "file":
        return _path(rest, option)
    service = SCHEMES.get(scheme)
    if service is None:
        raise UsageError(f"{option}: {scheme[:20]!r} is no kind of store; there are file, {', '.join(SCHEMES)}")
    whose, _, prefix = rest.partition("/")
    account = None
    if scheme in ("abfs", "abfss"):
        whose, at, host = whose.partition("@")
        account, _, domain = host.partition(".")
        if at and (domain not in ("dfs.core.windows.net", "blob.core.windows.net") or not account.isalnum()):
            raise UsageError(f"{option}: such a URL is abfs://container@account.dfs.core.windows.net/prefix")
        account = account or None
    if any(each in whose for each in "@:?#") or "?" in prefix:
        raise UsageError(f"{option}: a URL is {scheme}://bucket/prefix, without user, password, port or query")
    prefix = prefix.strip("/")
    if not whose or any(each in ("", ".", "..") for each in prefix.split("/") if prefix):
        raise UsageError(
            f"{option}: a URL is {scheme}://bucket/prefix, and no part of the prefix is empty, '.' or '..'"
        )
    return Bucket(service, whose, prefix, account)


def _path(rest: str, option: str) -> str:
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost") or not slash:
        raise UsageError(f"{option}: the URL of a directory is file:///path")
    return unquote(f"/{path}")
