"""What `--tier` names: directories and buckets of each service."""

from __future__ import annotations

import pytest

from kcli.errors import UnreadableInput, UsageError
from kcli.tier.address import Bucket, parse_address
from kcli.tier.bucket import BucketStore
from kcli.tier.bucket_errors import reason


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/mnt/tier", "/mnt/tier"),
        ("tier", "tier"),
        ("./s3:/x", "./s3:/x"),
        ("odd/s3://x", "odd/s3://x"),
        ("file:///mnt/tier", "/mnt/tier"),
        ("file:///mnt/a%20tier", "/mnt/a tier"),
        ("file://localhost/mnt", "/mnt"),
        ("s3://bucket", Bucket("s3", "bucket", "")),
        ("s3://bucket/", Bucket("s3", "bucket", "")),
        ("s3a://bucket/a/b/", Bucket("s3", "bucket", "a/b")),
        ("gs://bucket/a", Bucket("gs", "bucket", "a")),
        ("az://container/a", Bucket("az", "container", "a")),
        ("abfss://container@acc.dfs.core.windows.net/a", Bucket("az", "container", "a", "acc")),
        ("abfs://container@acc.blob.core.windows.net", Bucket("az", "container", "", "acc")),
    ],
)
def test_addresses(text: str, found: str | Bucket) -> None:
    assert parse_address(text) == found
    if isinstance(found, Bucket):
        assert parse_address(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "ftp://x/y",
        "file://host/x",
        "file://x",
        "s3://",
        "s3:///x",
        "s3://key:s3cr3t@bucket/x",
        "s3://bucket/x?signature=s3cr3t",
        "s3://bucket?signature=s3cr3t",
        "s3://bucket:9000/x",
        "s3://bucket/a//b",
        "s3://bucket/a/../b",
        "abfs://container@acc.example.com/x",
        "abfs://container@acc:s3cr3t.dfs.core.windows.net/x",
    ],
)
def test_no_addresses(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_address(text)
    assert "s3cr3t" not in str(caught.value)


def test_azure_without_an_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_NAME", raising=False)
    with pytest.raises(UnreadableInput, match="az://c/x: the account is not known; set AZURE_STORAGE_ACCOUNT_NAME"):
        BucketStore(Bucket("az", "c", "x"))


@pytest.mark.parametrize("service", ["s3", "gs", "az"])
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("status code: 404 Not Found: <Error><Code>ContainerNotFound</Code></Error>", "no such bucket"),
        ("status code: 403 Forbidden: <Error><Code>AuthenticationFailed</Code></Error>", "credentials are not valid"),
        ("status code: 403 Forbidden: <Error><Code>InvalidObjectState</Code></Error>", "archived (InvalidObjectState)"),
        ("Error performing token request: ... HTTP error", "no credentials are found"),
        ("https://a.blob.core.windows.net/c?sig=s3cr3t kind: Timeout", "the server a.blob.core.windows.net does not"),
        ("what nobody knows s3cr3t", "the request failed"),
    ],
)
def test_reasons(service: str, text: str, found: str) -> None:
    told = reason(service, Exception(text))
    assert found in told
    assert "s3cr3t" not in told
