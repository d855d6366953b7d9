"""The small S3 server of the demo answers obstore and boto3 as S3 does, and keeps what it has acknowledged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from kcli.errors import UnreadableInput
from kcli.tier.address import Bucket
from kcli.tier.bucket import PART_BYTES, BucketStore
from kcli.tier.store import ObjectMissing, StoredObject
from tests.tier.conftest import use_s3
from tests.tier.s3 import client, sample_server

SCRATCH = Bucket("s3", "scratch", "x")


def test_what_is_written_is_there_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = {f"p/{size}": random.Random(size).randbytes(size) for size in (0, 1, 300_000, 2 * PART_BYTES + 5)}
    with sample_server(tmp_path) as url:
        use_s3(monkeypatch, url)
        client(url).create_bucket(Bucket="scratch")
        for name, each in data.items():
            BucketStore(SCRATCH).write(name, [each])
    with sample_server(tmp_path) as url:
        use_s3(monkeypatch, url)
        store = BucketStore(SCRATCH)
        assert list(store.list_objects("p/")) == sorted(StoredObject(name, len(each)) for name, each in data.items())
        for name, each in data.items():
            assert store.read(name, 0, len(each)) == each
            with store.as_file(name) as path:
                assert path.read_bytes() == each
        store.delete("p/1")
        with pytest.raises(ObjectMissing):
            store.size("p/1")
        with pytest.raises(UnreadableInput, match="no such bucket"):
            BucketStore(Bucket("s3", "other", "x"))


def test_pages_and_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with sample_server(tmp_path) as url:
        use_s3(monkeypatch, url)
        s3 = client(url)
        s3.create_bucket(Bucket="scratch")
        for i in range(1003):
            s3.put_object(Bucket="scratch", Key=f"x/q/{i:04} &<é>", Body=b"z")
        store = BucketStore(SCRATCH)
        assert len(list(store.list_objects())) == 1003
        assert [each.name for each in store.list_objects("q/0999")] == ["q/0999 &<é>"]
        for key in ("x/../../up", "x//y", ".uploads"):
            with pytest.raises(ClientError):
                s3.put_object(Bucket="scratch", Key=key, Body=b"")
        with pytest.raises(ClientError, match="BadDigest"):
            s3.put_object(Bucket="scratch", Key="x/bad", Body=b"y", ChecksumSHA256="A" * 43 + "=")
        assert not (tmp_path.parent / "up").exists()
