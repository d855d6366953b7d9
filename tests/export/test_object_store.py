"""Segments in an object store, through pyarrow.fs: moto's S3 server answers on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs, parquet

from kcli.errors import UnreadableInput
from kcli.export.files import RemoteSource
from tests.conftest import GOLDEN
from tests.export.tables import TRUTH_COLUMNS, as_truth, load
from tests.export.test_reading_golden import told

TXN = GOLDEN / "txn/data"


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A bucket `logs` with the golden log directories `txn` and `corrupt`; what a URL needs to get there."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ACCESS_KEY_ID", "test")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "test")
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        query = f"?scheme=http&endpoint_override={host}:{port}&region=us-east-1&allow_bucket_creation=true"
        store, _ = fs.FileSystem.from_uri(f"s3://logs/{query}")
        store.create_dir("logs")
        for name, source in (("txn", TXN), ("corrupt", GOLDEN / "corrupt/cases/crc-field-flip")):
            for path in source.rglob("*"):
                if path.is_file() and not path.parent.name.startswith("__"):
                    with store.open_output_stream(f"logs/{name}/{path.relative_to(source)}") as stream:
                        stream.write(path.read_bytes())
        yield query
    server.stop()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_log_directory_in_a_bucket(endpoint: str, isolation: str) -> None:
    files = sorted((GOLDEN / "txn/expected/data").glob(f"*.{isolation}.jsonl.gz"))
    found = load(f"s3://logs/txn{endpoint}", columns=TRUTH_COLUMNS, isolation=isolation)
    assert as_truth(found) == told(*files)
    assert load(f"s3://logs/t*/t-txn-[01]{endpoint}", columns="partition,offset") == load(
        TXN / "t-txn-[01]", columns="partition,offset"
    )
    one = load(f"s3://logs/txn/t-mix-0/{0:020}.log{endpoint}", columns="offset,segment")
    assert one["segment"].to_pylist()[0] == f"{0:020}.log"


def test_damage_and_its_report_in_a_bucket(endpoint: str) -> None:
    report = f"s3://logs/report{endpoint}"
    found = load(f"s3://logs/corrupt{endpoint}", columns="offset", onCorruption="report", corruptionReport=report)
    assert len(found) == 44
    store, _ = fs.FileSystem.from_uri(report)
    [file] = store.get_file_info(fs.FileSelector("logs/report"))
    [row] = parquet.read_table(file.path, filesystem=store).to_pylist()
    assert (row["position"], row["kind"]) == (6059, "BadChecksum")


@pytest.mark.parametrize(
    ("path", "reason"),
    [("s3://logs/nothing", "no such file"), ("s3://nobucket/x*", "nobucket"), ("nosuch://logs/x", "nosuch")],
)
def test_addresses_of_nothing(endpoint: str, path: str, reason: str) -> None:
    with pytest.raises(UnreadableInput, match=reason):
        load(path + endpoint)


def test_a_large_object_is_read_in_blocks(endpoint: str, tmp_path: Path) -> None:
    data = bytes(range(256)) * (1 << 16)
    store, _ = fs.FileSystem.from_uri(f"s3://logs/{endpoint}")
    with store.open_output_stream("logs/large") as stream:
        stream.write(data)
    source = RemoteSource(f"s3://logs/large{endpoint}")
    buffer = bytearray(10 << 20)
    for position in (0, 5, 1 << 20, (8 << 20) - 3, len(data) - 10, len(data), len(data) + 5):
        got = source.read_at(position, memoryview(buffer))
        assert buffer[:got] == data[position : position + len(buffer)]
    assert source.size() == len(data)
    source.close()
