"""Transaction indexes of absurd sizes, sparse on the disk: a few findings, soon."""

import shutil
from pathlib import Path

import pytest

from kcli.inspector.verify import Verification
from kcli.inspector.verify.txn_index_file import MOST_BYTES
from tests.conftest import SAMPLES


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("size", "end", "kinds"),
    [
        (1 << 40, b"", ["txnindex-length"]),
        (MOST_BYTES + 1, b"", ["txnindex-length"]),
        (34 * 100_000, b"", ["txnindex-order"]),
        (34 * 100_000, b"\1", ["txnindex-extra-entry", "txnindex-order"]),
    ],
)
def test_zeros(tmp_path: Path, size: int, end: bytes, kinds: list[str]) -> None:
    """Adjacent entries that contradict each other, or have no marker, make one finding."""
    partition = tmp_path / "zeros-0"
    shutil.copytree(SAMPLES / "good" / "java-zstd-0", partition)
    with (partition / "00000000000000000000.txnindex").open("wb") as index:
        index.truncate(size)
        index.seek(size - len(end))
        index.write(end)
    found = [each for each in Verification([partition]).findings() if each.kind.startswith("txnindex")]
    assert sorted(each.kind for each in found) == kinds
    whole = [each for each in found if each.kind == "txnindex-extra-entry"]
    assert all((each.position, each.length) == (0, size) for each in whole)
    assert all(str(each.found).endswith(", and 99,999 more in a row") for each in whole)
