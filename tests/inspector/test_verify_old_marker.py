"""A clean-shutdown marker of an earlier stop than the broker's last."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from kcli.inspector.cluster_metadata import read_image
from kcli.metadata.image import MetadataImage
from kcli.metadata.registration import VersionRange
from kcli.metadata_log.stale_marker import blank_marker, stale_marker
from tests.cli.run import kcli
from tests.conftest import GOLDEN
from tests.damage import frames
from tests.inspector.test_verify_causes import directory, logs, loud
from tests.two_directories import two_directories

__all__ = ["directory"]

MARKER = ".kafka_cleanshutdown"
REGISTERED = 124


def put_back(home: Path, epoch: int) -> None:
    (home / MARKER).write_text(json.dumps({"version": 0, "brokerEpoch": epoch}))


def led(home: Path, epoch: int) -> MetadataImage:
    """The metadata of the directory, whose partitions all have the broker as leader, with a leader epoch."""
    image = read_image(home)
    assert image is not None
    for topic in image.topics.values():
        states = {number: replace(each, leader=1, leader_epoch=epoch) for number, each in topic.partitions.items()}
        image.topics[topic.name] = replace(topic, partitions=states)
    return image


def test_a_marker_that_was_put_back(directory: Path) -> None:
    """Kafka 4.3 says "Skipping recovery of 24 logs ... since clean shutdown file was found"; without the marker it
    recovers them."""
    put_back(directory, REGISTERED - 1)
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity) == ("clean-shutdown-old", "warning")
    assert "124" in str(finding.expected)
    assert str(finding.found).startswith("broker epoch 123, of an earlier stop")
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert not (directory / MARKER).exists()
    assert loud(directory) == []


@pytest.mark.parametrize("name", ["", f".{'0' * 32}-stray"])
def test_it_stays_where_a_start_without_it_would_cut_sound_batches(directory: Path, name: str) -> None:
    """Kafka recovers the directories of strays, too."""
    put_back(directory, REGISTERED - 1)
    log = logs(directory)[-1]
    data = bytearray(log.read_bytes())
    data[frames(data)[1][0] + 70] ^= 1
    log.write_bytes(data)
    if name:
        log.parent.rename(log.parent.with_name(log.parent.name + name))
    (finding,) = (each for each in loud(directory) if each.kind == "clean-shutdown-old")
    assert finding.severity == "error"
    assert "a start without the file would lose sound batches" in finding.action
    assert "--salvage" in str(finding.command)


@pytest.mark.parametrize("content", ['{"version":0}', '{"version":0,"brokerEpoch":-1}', "no JSON"])
def test_a_marker_without_an_epoch_is_sound(directory: Path, content: str) -> None:
    """As older versions write it."""
    (directory / MARKER).write_text(content)
    assert loud(directory) == []


@pytest.mark.parametrize("content", ["", "\n"])
def test_a_marker_made_by_hand(directory: Path, content: str) -> None:
    """Kafka 4 writes the broker epoch into it: so did the broker, by the features of its registration."""
    (directory / MARKER).write_text(content)
    (finding,) = loud(directory)
    assert (finding.kind, finding.severity) == ("clean-shutdown-old", "warning")
    assert "no content, and the broker has registered as Kafka 4" in str(finding.found)
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert "a clean start (by a .kafka_cleanshutdown of no stop" in ended.stdout
    assert finding.command is not None
    subprocess.run(["bash", "-c", finding.command], check=True)
    assert loud(directory) == []


def test_an_empty_marker_beside_a_torn_log(directory: Path) -> None:
    """Kafka leaves the torn batch there; the marker, which is the cause, comes first."""
    (directory / MARKER).write_bytes(b"")
    log = max((directory / "java-none-0").glob("*.log"))
    with log.open("r+b") as file:
        file.truncate(log.stat().st_size - 5)
    finding, torn = loud(directory)[:2]
    assert (finding.kind, finding.severity, torn.kind) == ("clean-shutdown-old", "error", "truncated")
    assert "leaves the damage at the end of java-none-0" in str(finding.found)


@pytest.mark.parametrize("level", [24, None])
def test_an_empty_marker_of_an_older_kafka_is_sound(directory: Path, level: int | None) -> None:
    """Kafka wrote an empty one before it wrote the broker epoch."""
    (directory / MARKER).write_bytes(b"")
    image = read_image(directory)
    assert image is not None
    features = {} if level is None else {"metadata.version": VersionRange(1, level)}
    image.brokers[1] = replace(image.brokers[1], features=features)
    assert blank_marker(directory, image, 1) is None
    assert blank_marker(directory, None, 1) is None


def test_an_empty_marker_beside_indexes_of_a_crash(directory: Path) -> None:
    """They are allocated in full, and an orderly stop, of any version, cuts them to their entries."""
    (directory / MARKER).write_bytes(b"")
    for partition in directory.glob("*-0"):
        if (last := max(partition.glob("*.index"), default=None)) is not None:
            with last.open("r+b") as index:
                index.truncate(65536)
    reason = blank_marker(directory, None, 1)
    assert reason is not None
    assert "active indexes have room for more entries" in reason


def test_recover_names_the_marker_that_it_goes_by(directory: Path) -> None:
    put_back(directory, REGISTERED - 1)
    ended = kcli("recover", directory)
    assert ended.status == 1
    assert "broker epoch 123, of an earlier stop" in ended.stdout
    assert "by the .kafka_cleanshutdown of an earlier stop" in ended.stdout
    put_back(directory, REGISTERED)
    assert "earlier stop" not in kcli("recover", directory).stdout


@pytest.mark.parametrize(("behind", "is_older"), [(0, False), (1, True)])
def test_leader_epochs_say_whether_the_directory_is_as_old(directory: Path, behind: int, is_older: bool) -> None:
    """A broker that becomes leader writes the epoch down at once: one partition that has it is enough."""
    put_back(directory, REGISTERED - 1)
    last = [int(each.read_text().split()[-2]) for each in directory.glob("java-*/leader-epoch-checkpoint")]
    stale = stale_marker(directory, led(directory, max(last) + behind), 1, [])
    assert stale is not None
    assert stale.is_older == is_older


def test_a_directory_of_an_earlier_time_beside_a_newer_one(tmp_path: Path) -> None:
    """Its consequences are counted in the finding."""
    one, two, _ = two_directories(tmp_path)
    put_back(two, 1)
    (one / MARKER).unlink(missing_ok=True)
    gone = next(each for each in sorted(two.iterdir()) if each.is_dir() and any(each.glob("*.log")))
    shutil.rmtree(gone)
    found = [each for each in loud(one, two) if Path(each.path).is_relative_to(two)]
    assert [(each.kind, each.severity) for each in found] == [("clean-shutdown-old", "error")]
    assert found[0].consequences == {"partition-missing": 1}
    assert "look for the newer state of the log directory" in found[0].action


@pytest.mark.parametrize("name", ["codecs/data", "groups/data", "txn/data", "compact/before", "compact/after2"])
def test_the_marker_of_the_last_stop_is_sound(name: str) -> None:
    home = GOLDEN / name
    image = read_image(home)
    assert image is None or stale_marker(home, image, 1, []) is None
