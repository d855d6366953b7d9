"""A bucket for the tests of a tier in one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import GOLDEN
from tests.tier.s3 import REGION, Proxy, client, s3_server

REMOTE = GOLDEN / "tiered/remote"


@pytest.fixture(scope="session")
def s3_endpoint() -> Iterator[str]:
    """An S3 server whose bucket `golden` has golden/tiered below `a/tier`, as LocalTieredStorage made it."""
    with s3_server() as endpoint:
        s3 = client(endpoint)
        s3.create_bucket(Bucket="golden")
        s3.create_bucket(Bucket="scratch")
        for path in sorted(REMOTE.rglob("*")):
            if path.is_file():
                s3.put_object(Bucket="golden", Key=f"a/tier/{path.relative_to(REMOTE)}", Body=path.read_bytes())
        yield endpoint


@pytest.fixture
def s3(s3_endpoint: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The same, with an environment that leads there."""
    use_s3(monkeypatch, s3_endpoint)
    return s3_endpoint


def use_s3(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    """Make the environment lead to an S3 server; nothing asks a machine for its role."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3", "AWS_CHECKSUM_ALGORITHM"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "s3cr3t"), ("REGION", REGION)):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)


@pytest.fixture
def proxy(s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A proxy before it, to which the environment leads."""
    proxy = Proxy(s3)
    monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.endpoint)
    yield proxy
    proxy.close()
