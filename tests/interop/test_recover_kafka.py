"""Real Kafka starts on a log directory that kcli recovered: nothing for it to repair, same offsets, gaps read past.

While it runs, kcli finds the directory locked."""

import os
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from kcli.log.disk import Disk
from kcli.log.log_directory import DirectoryLock, DirectoryLocked
from kcli.log.recovery.run import Recovery
from kcli.log.segment_reader import Damage, read_segment
from kcli.log.source import FileSource
from tests.conftest import GOLDEN
from tests.interop.kit import kafka
from tests.log.recovery.test_recover_golden import topic_config

NODE = f"kcli-recovered-{os.getpid()}"
CUT, TORN, SALVAGED = "u-plain-1", "u-txn-0", "u-snappy-0"
REPAIRS = re.compile(
    "Found invalid messages|Corruption found|Found a corrupted index|Could not find offset index|orphaned index"
    "|Failed to load producer snapshot|Deleting segments as part of log recovery|Error while loading"
)


def flip(log: Path, position: int) -> None:
    with log.open("r+b") as file:
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ 4]))


def last_log(partition: Path) -> Path:
    return max(partition.glob("*.log"))


def batch_offsets(log: Path) -> list[int]:
    """The last offset of each batch."""
    source = FileSource(log)
    found = []
    for part in read_segment(source):
        assert not isinstance(part, Damage)
        found += [part.batches.field(i, 4) for i in range(part.batches.count)]
    source.close()
    return found


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    """The directory of a killed broker with three partitions damaged on top, recovered in place."""
    directory = tmp_path / "logs"
    shutil.copytree(GOLDEN / "unclean/crashed", directory)
    log = last_log(directory / CUT)
    flip(log, log.stat().st_size * 2 // 3)
    log = last_log(directory / TORN)
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 7)
    log = last_log(directory / SALVAGED)
    flip(log, log.stat().st_size // 3)
    list(Recovery(directory / SALVAGED, now_ms(), salvage=True, config=topic_config).in_place("backup"))
    list(Recovery(directory, now_ms(), config=topic_config).in_place("backup"))
    assert list(directory.glob("backup*.tar"))
    return directory


def now_ms() -> int:
    """Return the time of the killed broker's clock: with a later one both would expire its producers."""
    return 1_795_262_000_000


def test_kafka_starts(kafka_jars: Path, logs: Path, tmp_path: Path) -> None:
    ends = {done.name: done.offsets for done in Recovery(logs, now_ms(), config=topic_config).plans()}
    with tarfile.open(GOLDEN / "unclean/metadata-log-dir.tar.gz") as tar:
        tar.extractall(tmp_path, filter="data")
    address = kafka("open", str(logs), NODE, f"metadata.log.dir={tmp_path / 'metadata'}").strip()
    try:
        with pytest.raises(DirectoryLocked):
            DirectoryLock(Disk(), Path(kafka("dir", NODE).strip()))
        offsets = kafka("get-offsets", "--bootstrap-server", address)
        printed = ["--property", "print.offset=true", "--property", "print.value=false"]
        reading = ["--topic", "u-snappy", "--from-beginning", "--timeout-ms", "10000"]
        read = kafka("consumer", "--bootstrap-server", address, *reading, *printed)
    finally:
        kafka("stop", NODE)
    log = kafka("log", NODE)
    kafka("rm", NODE)
    assert not REPAIRS.findall(log)
    found = {f"{topic}-{number}": int(end) for topic, number, end in (line.split(":") for line in offsets.split())}
    assert found == {name: end.log_end_offset for name, end in ends.items() if end is not None}
    kept = [offset for each in sorted((logs / SALVAGED).glob("*.log")) for offset in batch_offsets(each)]
    seen = [int(offset) for offset in re.findall(r"Offset:(\d+)", read)]
    assert seen == sorted(seen)
    assert set(kept) <= set(seen)
    assert seen[-1] == kept[-1]
    assert len(seen) < seen[-1] + 1  # the log has a gap, and the consumer read past it
