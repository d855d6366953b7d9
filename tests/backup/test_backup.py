"""kcli backup and restore of log directories that real Kafka wrote, on this machine alone: what is copied once, what a
restore has, and what bad stores and directories say. tests/interop/test_backup_kafka.py has a running Kafka."""

from __future__ import annotations

import fcntl
import json
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from formats.file_name import FileKind
from formats.kernels.write import write_batch
from kcli.backup.backup import back_up
from kcli.backup.restore import restore
from kcli.backup.runs import read, runs
from kcli.log.disk import Disk
from kcli.log.partition_directory import topic_id_of
from kcli.log.partition_view import PartitionView
from kcli.metadata_log.records import encode, read_batches
from kcli.metadata_log.replay import refuse, replay
from kcli.tier.local import LocalStore
from kcli.tier.store import ObjectPart
from tests.cli.run import KCLI, kcli
from tests.conftest import GOLDEN, files_below
from tests.log.crash_disk import DurableDisk
from tests.tier.s3 import client

TXN = GOLDEN / "txn/data"
PARTITION = "t-txn-0"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    shutil.copytree(TXN, tmp_path / "data")
    return tmp_path / "data"


def backed(data: Path, store: str | Path) -> dict[str, Any]:
    ended = kcli("backup", data, "--to", store, "--format", "jsonl")
    assert (ended.stderr, ended.status) == ("", 0)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def logs(directory: Path) -> dict[str, bytes]:
    """The .log files of a log directory, without the metadata log."""
    found = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*.log")}
    return {name: data for name, data in found.items() if "__cluster_metadata" not in name}


def active(data: Path) -> Path:
    return max((data / PARTITION).glob("*.log"))


def test_a_restore_has_the_same_logs(data: Path, tmp_path: Path) -> None:
    before = files_below(data)
    run = backed(data, tmp_path / "store")
    assert files_below(data) == before, "nothing in the log directory is written"
    ended = kcli("restore", tmp_path / "store", "--out", tmp_path / "new")
    assert (ended.stderr, ended.status) == ("", 0)
    assert logs(tmp_path / "new") == logs(data)
    assert run["partitions"] == 10
    for name in (FileKind.META_PROPERTIES, FileKind.LOG_START_OFFSETS):
        assert (tmp_path / "new" / name).read_bytes() == (data / name).read_bytes()
    ended = kcli("verify", tmp_path / "new")
    assert (ended.stdout.split()[0], ended.status) == ("sound", 0)
    for command in ("list", "describe"):
        told = [kcli("transactions", command, "--data-dir", each).stdout for each in (data, tmp_path / "new")]
        assert told[0] == told[1] != ""


def test_brokers_are_fenced_so_that_no_marker_goes_to_the_cluster_that_still_runs(data: Path, tmp_path: Path) -> None:
    backed(data, tmp_path / "store")
    kcli("restore", tmp_path / "store", "--out", tmp_path / "new")
    (log,) = (tmp_path / "new/__cluster_metadata-0").glob("*.log")
    (old,) = (data / "__cluster_metadata-0").glob("*.log")
    assert log.read_bytes().startswith(old.read_bytes())
    last = kcli("dump-segment", log).stdout.splitlines()[-2]
    assert '"BROKER_REGISTRATION_CHANGE_RECORD"' in last
    assert '"fenced":1' in last


def test_a_second_run_copies_what_is_new(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert backed(data, store)["new_objects"] > 0
    assert backed(data, store)["new_objects"] == 0
    log = active(data)
    whole = log.read_bytes()
    donor = max((data / "t-txn-1").glob("*.log")).read_bytes()
    batch = donor[: 12 + int.from_bytes(donor[8:12])]
    log.write_bytes(whole + batch)
    run = backed(data, store)
    assert (run["new_objects"], run["new_bytes"]) == (1, len(batch))
    log.write_bytes(whole + batch + batch[:-5])  # a broker is writing
    ended = kcli("backup", data, "--to", store, "--format", "jsonl")
    assert json.loads(ended.stdout)["new_bytes"] == 0
    assert ended.status == 1  # nobody is: the end of the log is cut
    assert "left out of the backup" in json.loads(ended.stdout)["troubles"][0]
    log.write_bytes(whole[:-1])  # a truncated log is another one
    ended = kcli("backup", data, "--to", store, "--format", "jsonl")
    assert json.loads(ended.stdout)["new_objects"] == 1


class DeletesTopic(LocalStore):
    """A store at whose first object a broker deletes the topic t-mix: the record first, then the directories."""

    def __init__(self, home: Path, data: Path) -> None:
        super().__init__(home)
        self._data: Path | None = data

    def write(self, name: str, parts: Iterable[ObjectPart]) -> None:
        if self._data is not None:
            data, self._data = self._data, None
            (log,) = (data / "__cluster_metadata-0").glob("*.log")
            *_, last = read_batches(log)
            topic_id = topic_id_of(data / "t-mix-0")
            assert topic_id is not None
            value = encode(("RemoveTopicRecord", 0, {"topicId": topic_id}))
            batch = write_batch([(None, value)], 0, base_offset=last.last_offset + 1, leader_epoch=last.epoch)
            log.write_bytes(log.read_bytes() + batch)
            for each in data.glob("t-mix-*"):
                shutil.rmtree(each)
        super().write(name, parts)


def test_a_topic_that_is_deleted_before_it_is_copied_does_not_come_back_empty(data: Path, tmp_path: Path) -> None:
    home = tmp_path / "store"
    home.mkdir()
    result = back_up([data], DeletesTopic(home, data), iter(range(1000, 2000)).__next__)
    assert result.troubles == []
    assert result.manifest.at_ms > 1001, "it is later than the first look"
    assert "t-mix" not in {each.partition.topic for each in result.manifest.partitions}
    assert kcli("restore", home, "--out", tmp_path / "new").status == 0
    directory = tmp_path / "new/__cluster_metadata-0"
    image = replay(directory, PartitionView(directory).original, refuse, around_damage=False)
    assert "t-quiet" in image.topics
    assert "t-mix" not in image.topics


@pytest.mark.parametrize("fault", ["deleted", "cut"])
def test_an_object_that_is_gone_or_cut_is_copied_again(data: Path, tmp_path: Path, fault: str) -> None:
    store = tmp_path / "store"
    backed(data, store)
    victim = max((store / next(each.name for each in store.iterdir() if each.name.startswith("t-txn-1"))).glob("*.log"))
    whole = victim.read_bytes()
    victim.unlink()
    if fault == "cut":
        victim.write_bytes(whole[:10])
    assert backed(data, store)["new_objects"] == 1
    assert victim.read_bytes() == whole
    ended = kcli("restore", store, "--out", tmp_path / "new")
    assert (ended.stderr, ended.status) == ("", 0)
    assert logs(tmp_path / "new") == logs(data)


def test_the_time_chooses_the_run(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    first = backed(data, store)
    log = active(data)
    grown = log.read_bytes() + log.read_bytes()
    log.write_bytes(grown)
    second = backed(data, store)
    assert len(kcli("restore", store).stdout.splitlines()) == 3
    for at, size in ((second["at"] - 1, len(grown) // 2), (second["at"], len(grown))):
        out = tmp_path / f"new-{at}"
        assert kcli("restore", store, "--at", str(at), "--out", out).status == 0
        assert (out / PARTITION / log.name).stat().st_size == size
    ended = kcli("restore", store, "--at", str(first["at"] - 1), "--out", tmp_path / "none")
    assert "is before the first run" in ended.complaint
    assert ended.status == 2
    assert not (tmp_path / "none").exists()


def test_topics_alone(data: Path, tmp_path: Path) -> None:
    backed(data, tmp_path / "store")
    out = tmp_path / "new"
    ended = kcli("restore", tmp_path / "store", "--topic", "t-mix", "--topic", "t-quiet", "--out", out)
    assert ended.status == 0
    assert {each.name for each in out.iterdir() if each.is_dir()} == {"t-mix-0", "t-quiet-0"}
    assert b"directory.id" not in (out / FileKind.META_PROPERTIES).read_bytes()
    assert kcli("verify", out).status == 0
    ended = kcli("restore", tmp_path / "store", "--topic", "none", "--out", tmp_path / "other")
    assert ended.complaint == "kcli: none: the run has no such topic"


def test_an_object_that_is_not_what_was_written(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    backed(data, store)
    victim = max((store / next(each.name for each in store.iterdir() if each.name.startswith("t-txn-1"))).glob("*.log"))
    whole = victim.read_bytes()
    for damaged, reason in (
        (whole[:-1] + bytes([whole[-1] ^ 1]), "its SHA-256 is"),
        (whole[:-1], f"{len(whole) - 1:,} bytes, and {len(whole):,} were written"),
        (None, "no such object, which the run's manifest names"),
    ):
        victim.unlink()
        if damaged is not None:
            victim.write_bytes(damaged)
        ended = kcli("restore", store, "--out", tmp_path / "new")
        assert ended.complaint.startswith(f"kcli: {victim}: {reason}")
        assert ended.status == 2
        assert not list(tmp_path.glob("new*"))


def test_a_damaged_manifest(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    backed(data, store)
    (manifest,) = (store / "manifests").iterdir()
    manifest.write_bytes(manifest.read_bytes()[:-2])
    ended = kcli("restore", store, "--out", tmp_path / "new")
    assert "its bytes are not those that were written" in ended.complaint
    assert ended.status == 2
    manifest.rename(store / "manifests" / "other.json")
    assert "no manifest of a backup is in it" in kcli("restore", store).complaint


def test_a_damaged_manifest_among_sound_ones(data: Path, tmp_path: Path) -> None:
    """The others are listed and restored, and the next run goes on behind the last sound one."""
    store = tmp_path / "store"
    backed(data, store)
    (first,) = (store / "manifests").iterdir()
    backed(data, store)
    (second,) = set((store / "manifests").iterdir()) - {first}
    second.write_bytes(second.read_bytes()[:-2])
    ended = kcli("restore", store)
    assert ended.status == 1
    assert f"wrong    {second}: its bytes are not those that were written" in ended.stdout
    assert f"manifests/{first.name}" in ended.stdout
    ended = kcli("backup", data, "--to", store)
    assert (ended.status, "new: 0 objects" in ended.stdout) == (1, True)
    assert f"wrong    {second}: its bytes" in ended.stdout
    assert kcli("restore", store, "--out", tmp_path / "new").status == 0
    ended = kcli("backup", "--to", store, "--check", "--format", "jsonl")
    assert [json.loads(line)["object"] for line in ended.stdout.splitlines()] == [str(second)]
    assert kcli("backup", "--to", store, "--orphans").status == 2, "it may name any object"


def test_a_restore_of_a_damaged_run_is_refused_with_the_command_for_the_one_before(data: Path, tmp_path: Path) -> None:
    store, new = tmp_path / "the store", tmp_path / "new"
    times = [backed(data, store)["at"] for _ in range(4)]
    manifests = sorted((store / "manifests").iterdir())
    for each in manifests[1:3]:
        each.write_bytes(each.read_bytes()[:-2])
    assert kcli("restore", store, "--out", tmp_path / "newest").status == 0, "the newest run is sound"
    shutil.rmtree(tmp_path / "newest")
    ended = kcli("restore", store, "--at", str(times[2]), "--topic", "t-mix", "--out", new)
    assert ended.status == 2
    assert ended.complaint.startswith(f"kcli: {manifests[2]}: its bytes are not those that were written: ")
    *_, command = ended.complaint.partition("; the newest run before it that can be read: ")
    words = shlex.split(command)
    assert words[:3] == ["kcli", "restore", str(store)]
    assert not new.exists(), "no other run is restored without being asked for"
    ended = kcli(*words[1:], "--format", "jsonl")
    assert (ended.stderr, ended.status) == ("", 0)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    assert {each["at"] for each in rows} == {times[0]}
    assert {each["topic"] for each in rows} == {"t-mix"}
    manifests[0].write_bytes(b"{}")
    ended = kcli("restore", store, "--at", str(times[2]), "--out", tmp_path / "other")
    assert ended.complaint.endswith("; no run before it can be read")
    assert ended.status == 2


def test_one_backup_at_a_time_in_a_directory(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    backed(data, store)
    held = os.open(store, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    ended = kcli("backup", data, "--to", store)
    assert (ended.status, ended.complaint) == (2, f"kcli: another backup to {store} is running")
    os.close(held)
    backed(data, store)


def test_a_check_reads_every_object(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    backed(data, store)
    backed(data, store)
    ended = kcli("backup", "--to", store, "--check")
    assert (ended.status, ended.stdout.startswith("2 runs, ")) == (0, True)
    assert ended.stdout.endswith(": all as they were written\n")
    left = store / orphan()
    left.parent.mkdir()
    left.write_bytes(b"12345")
    ended = kcli("backup", "--to", store, "--check")
    assert ended.stdout.splitlines()[1:] == [
        "1 object, 5 B: needed by no run",
        f"Next: kcli backup --to {store} --orphans",
    ]
    assert ended.status == 0, "nothing is damaged"
    shutil.rmtree(left.parent)
    paths = sorted(each for each in store.rglob("*") if each.is_file() and each.parent.name != "manifests")
    dice = random.Random(1)
    flipped, cut, gone = dice.sample([each for each in paths if each.stat().st_size > 1], 3)
    whole = bytearray(flipped.read_bytes())
    whole[dice.randrange(len(whole))] ^= 1
    flipped.write_bytes(whole)
    cut.write_bytes(cut.read_bytes()[:-1])
    gone.unlink()
    ended = kcli("backup", "--to", store, "--check", "--format", "jsonl")
    assert ended.status == 1
    found = {each["object"]: each for each in map(json.loads, ended.stdout.splitlines())}
    assert found.keys() == {str(flipped), str(cut), str(gone)}
    assert "its SHA-256 is" in found[str(flipped)]["reason"]
    assert "were written" in found[str(cut)]["reason"]
    assert "no such object" in found[str(gone)]["reason"]
    assert all(len(each["runs"]) == 2 for each in found.values())
    assert "3 objects damaged" in kcli("backup", "--to", store, "--check").stdout


def test_a_damaged_closed_segment_is_copied_and_told(data: Path, tmp_path: Path) -> None:
    log = min((data / PARTITION).glob("*.log"))
    whole = bytearray(log.read_bytes())
    whole[len(whole) // 2] ^= 1
    log.write_bytes(whole)
    ended = kcli("backup", data, "--to", tmp_path / "store")
    assert ended.status == 1
    assert f"{log}: byte " in ended.stdout
    ended = kcli("restore", tmp_path / "store", "--out", tmp_path / "new")
    assert (tmp_path / "new" / PARTITION / log.name).read_bytes() == whole


def test_all_bytes_are_durable_before_the_directory_has_its_name(data: Path, tmp_path: Path) -> None:
    backed(data, tmp_path / "store")
    store = LocalStore(tmp_path / "store")
    restore(store, read(store, runs(store)[-1]), [tmp_path / "new"], disk=DurableDisk())
    assert logs(tmp_path / "new") == logs(data)


class Dies(Disk):
    """A disk on which the n-th rename does not happen: the process is killed."""

    def __init__(self, left: int) -> None:
        self.left = left

    def rename(self, source: Path, target: Path) -> None:
        self.left -= 1
        if self.left < 0:
            raise InterruptedError("killed")
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        if self.left < 0:
            raise InterruptedError("killed")
        super().remove(path)


def test_a_run_that_is_killed_leaves_the_earlier_one(data: Path, tmp_path: Path) -> None:
    home = tmp_path / "store"
    home.mkdir()
    first = back_up([data], LocalStore(home), lambda: 1000)
    log = active(data)
    log.write_bytes(log.read_bytes() + log.read_bytes())
    (log.parent / "00000000000000099999.log").write_bytes(log.read_bytes())
    for renames in range(2):
        with pytest.raises(InterruptedError):
            back_up([data], LocalStore(home, Dies(renames)), lambda: 2000)
        (run,) = runs(LocalStore(home))
        assert read(LocalStore(home), run) == first.manifest
    ended = kcli("backup", "--to", home, "--orphans", "--format", "jsonl")
    left = [json.loads(line)["object"] for line in ended.stdout.splitlines()]
    assert ended.status == 1
    assert any(each.endswith(".part") for each in left)
    command = next(line for line in kcli("backup", "--to", home, "--orphans").stdout.splitlines() if "Next: rm" in line)
    assert ".part" in command
    result = back_up([data], LocalStore(home), lambda: 3000)
    assert result.objects == 1, "what the killed run copied is not copied again"


def test_orphans_of_a_removed_run(data: Path, tmp_path: Path) -> None:
    store = tmp_path / "store"
    backed(data, store)
    (old,) = (store / "manifests").iterdir()
    shutil.rmtree(data / PARTITION)
    backed(data, store)
    assert kcli("backup", "--to", store, "--orphans").stdout == "every object is needed by a run\n"
    old.unlink()
    ended = kcli("backup", "--to", store, "--orphans")
    assert ended.status == 1
    command = ended.stdout.splitlines()[-1].removeprefix("Next: ")
    subprocess.run(command, shell=True, check=True)
    assert kcli("backup", "--to", store, "--orphans").stdout == "every object is needed by a run\n"
    assert kcli("restore", store, "--out", tmp_path / "new").status == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["backup", "data"], "give --to: a directory, or the URL of a bucket"),
        (["backup", "--to", "store"], "give the LOG_DIR to back up"),
        (
            ["backup", "data", "--config", "data/meta.properties", "--to", "store"],
            "--config or --bootstrap-server, one",
        ),
        (["backup", "--config", "data/meta.properties", "--to", "store"], "it has neither log.dirs nor log.dir"),
        (["backup", "none", "--to", "store"], "none: no such directory"),
        (["backup", "data/t-txn-0", "--to", "store"], "data/t-txn-0: no log directory of a broker"),
        (["backup", "data", "--to", "data/store"], "--to data/store is inside the log directory"),
        (["backup", "data", "--to", "ftp://x/y"], "--to: 'ftp' is no kind of store"),
        (["backup", "data", "--to", "a/b/c"], "a/b/c"),
        (["backup", "data", "--to", "store", "--orphans"], "--orphans asks the store alone: give no LOG_DIR"),
        (["restore", "none"], "none: No such file or directory"),
        (["restore", "data", "--out", "new"], "no manifest of a backup is in it"),
        (["restore", "backup", "--out", "data"], "data: is there already"),
        (["restore", "backup", "--out", "backup/new"], "--out backup/new is inside the backup"),
        (["restore", "backup", "--at", "soon"], "--at 'soon' is no time"),
        (["restore", "backup", "--topic", "t-mix"], "--topic restores a topic: give --out, too"),
    ],
)
def test_wrong_usage(arguments: list[str], complaint: str, data: Path, tmp_path: Path) -> None:
    backed(data, tmp_path / "backup")
    before = files_below(data)
    ended = kcli(*arguments, cwd=tmp_path)
    assert complaint in ended.complaint
    assert ended.status == 2
    assert files_below(data) == before


def test_the_store_of_another_log_directory(data: Path, tmp_path: Path) -> None:
    backed(GOLDEN / "tiered/data", tmp_path / "store")
    ended = kcli("backup", data, "--to", tmp_path / "store")
    assert "has the backup of another log directory (cluster.id=" in ended.complaint
    assert ended.status == 2


def test_a_bucket(data: Path, s3: str, tmp_path: Path) -> None:
    url = "s3://scratch/backup/node-1"
    assert backed(data, url)["new_objects"] > 0
    assert backed(data, url)["new_objects"] == 0
    ended = kcli("restore", url, "--out", tmp_path / "new")
    assert (ended.stderr, ended.status) == ("", 0)
    assert logs(tmp_path / "new") == logs(data)
    client(s3).put_object(Bucket="scratch", Key=f"backup/node-1/{orphan()}", Body=b"1")
    ended = kcli("backup", "--to", url, "--orphans")
    assert ended.stdout.splitlines()[-1].startswith("Next: aws s3 rm ")
    assert ended.status == 1


def test_killed_at_any_time(data: Path, tmp_path: Path) -> None:
    """SIGKILL at some moment of a run: the store has the earlier run, and the next run is whole."""
    store = tmp_path / "store"
    backed(data, store)
    for name in list(logs(data)):
        (data / name).write_bytes((data / name).read_bytes() * 2)
    for delay_s in (0.3, 0.45, 0.6):
        process = subprocess.Popen([*KCLI, "backup", str(data), "--to", str(store)])
        try:
            process.wait(delay_s)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert kcli("restore", store).status == 0
    kcli("backup", data, "--to", store)
    kcli("restore", store, "--out", tmp_path / "new")
    assert logs(tmp_path / "new") == logs(data)


def orphan() -> str:
    """The name of an object as a run would write it."""
    return f"gone-0-{'B' * 22}/{0:020}-{0:010}-{'5' * 32}.log"


def test_what_no_backup_has_written_is_left_alone(data: Path, tmp_path: Path) -> None:
    """A tier, another node's backup and notes, in the same directory."""
    store = tmp_path / "store"
    backed(data, store)
    backed(data, store / "node-2")
    tiered = store / f"t-0-{'B' * 22}/{0:020}-{'B' * 22}.log"
    others = [store / "note.txt", tiered, tiered.with_suffix(".txnindex"), store / "node-3" / orphan()]
    for each in others:
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_text("hello")
    ended = kcli("backup", "--to", store, "--orphans")
    assert ended.status == 0
    first, second = ended.stdout.splitlines()
    assert first == "every object of the backup is needed by a run"
    assert re.fullmatch(r"[1-9][\d,]* objects, .*: written by no backup \(one is .*\)", second)
    assert "Next" not in kcli("backup", "--to", store, "--check").stdout
    (store / orphan()).parent.mkdir()
    (store / orphan()).write_text("hello")
    ended = kcli("backup", "--to", store, "--orphans")
    command = next(each for each in ended.stdout.splitlines() if each.startswith("Next: "))
    subprocess.run(command.removeprefix("Next: "), shell=True, check=True)
    assert not (store / orphan()).exists()
    assert all(each.exists() for each in others)
    assert kcli("backup", "--to", store / "node-2", "--check").status == 0


@pytest.mark.parametrize("what", ["data", "other"])
def test_orphans_of_no_backup(data: Path, tmp_path: Path, what: str) -> None:
    other = tmp_path / "other"
    (other / "sub").mkdir(parents=True)
    (other / "sub" / "thesis.txt").write_text("hello")
    ended = kcli("backup", "--to", data if what == "data" else other, "--orphans")
    assert (ended.status, ended.stdout) == (2, "")
    assert "no manifest of a backup is in it" in ended.complaint


def test_a_disk_that_takes_no_more(data: Path, tmp_path: Path) -> None:
    """Nothing is left, and the exit status is not that of a backup with damage in it."""
    backed(data, tmp_path / "store")
    golden = GOLDEN / "tiered"
    commands = (
        ("backup", data, "--to", tmp_path / "other"),
        ("restore", tmp_path / "store", "--out", tmp_path / "new"),
        ("tier", "fetch", golden / "data", "--tier", golden / "remote", "--topic", "r-keep", "--out", tmp_path / "new"),
    )
    without_bytecode = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}  # the limit would cut it, too
    for command in commands:
        limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (4000, 4000))
        ended = subprocess.run(
            [*KCLI, *map(str, command)],
            preexec_fn=limit,
            capture_output=True,
            text=True,
            check=False,
            env=without_bytecode,
        )
        assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
        assert "File too large" in ended.stderr
        assert not (tmp_path / "new").exists()
    assert not list((tmp_path / "other").glob("manifests/*"))
