"""Recovery gives the result of real Kafka's start: for 162 damaged segments, each twice, and for a killed broker's
directory."""

import hashlib
import re
import shutil
from pathlib import Path

import pytest

from formats.checkpoint import parse_leader_epochs
from formats.file_name import FileKind
from kcli.log.config import LogConfig
from kcli.log.disk import Disk
from kcli.log.leader_epochs import LeaderEpochCache
from kcli.log.log_directory import LogDirectory
from kcli.log.recovery.apply import write_copy
from kcli.log.recovery.loader import EventKind, LoadOptions
from kcli.log.recovery.plan import PartitionPlan, plan
from kcli.log.recovery.run import Recovery
from tests.conftest import GOLDEN, Json, read_jsonl

CASES = {case["id"]: case for case in read_jsonl(GOLDEN / "corrupt/cases.jsonl")}
DIRECTORY_CASES = {case["id"]: case for case in read_jsonl(GOLDEN / "corrupt/expected/dir-cases.jsonl")}
NOW_MS = 1_795_262_000_000  # the time when Kafka made the golden data, at which its producers had not expired
PAST_THE_END = 1 << 40
BROKERS_EPOCH = 2  # the leader epoch of the cases' broker, which begins at the log end
INDEX_BYTES = 4096  # segment.index.bytes of that broker
UNCLEAN = GOLDEN / "unclean"


def planned(case: Json, start: str, directory: Path) -> PartitionPlan:
    """Return the plan for a case; after a clean shutdown the broker had empty indexes where the case has none."""
    directory.mkdir()
    for name in case["files"]:
        shutil.copyfile(GOLDEN / "corrupt/cases" / case["id"] / name, directory / name)
    if start == "clean":
        for log in directory.glob("*.log"):
            if case["kind"] not in ("index", "timeindex"):
                log.with_suffix(".index").touch()
                log.with_suffix(".timeindex").touch()
    clean = start == "clean"
    return plan(directory, LoadOptions(NOW_MS, clean, PAST_THE_END if clean else 0, max_index_bytes=INDEX_BYTES))


@pytest.mark.parametrize("start", ["unclean", "clean"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_case(case: Json, start: str, tmp_path: Path) -> None:
    kafka = case["kafka_broker"][start]
    done = planned(case, start, tmp_path / "in-0")
    if kafka["broker"] != "starts":
        assert done.refused is not None
        assert refused_for(kafka) in (done.refused.reason, done.refused.file)
        return
    assert done.refused is None
    assert done.offsets is not None
    assert done.offsets.log_start_offset == kafka["log_start_offset"]
    assert done.offsets.log_end_offset == kafka["log_end_offset"]
    write_copy(done.view.files, Disk(), tmp_path / "out-0")
    lead_from(tmp_path / "out-0", kafka["log_end_offset"])
    found = {file.name: digest(file) for file in (tmp_path / "out-0").iterdir() if file.name != "partition.metadata"}
    assert found == {name: file["sha256"] for name, file in kafka["files"].items() if name != "partition.metadata"}
    assert cuts_of(done) == cuts_in(kafka["log"])


def refused_for(kafka: Json) -> str:
    """Kafka's reason in kcli's words."""
    text = " ".join(kafka["log"])
    if size := re.search(r"Found record size (-?\d+) smaller", text):
        return f"batch length {int(size[1]):,} is below 14, the smallest there is"
    if file := re.search(r"\S+/(\d{20}\.log)", text):
        return file[1]
    return "leader-epoch-checkpoint"


def cuts_of(done: PartitionPlan) -> list[tuple[int | None, str]]:
    """Return byte and kind of every cut that Kafka logs: it logs none where the log ends within a batch."""
    return [
        (event.position, event.fault or "")
        for event in done.events
        if event.kind is EventKind.CUT and event.fault != "tail"
    ]


def cuts_in(log: list[str]) -> list[tuple[int, str]]:
    kinds = {"Record is corrupt": "crc", "Record batch is corrupt": "header", "Found record size": "length"}
    found = []
    for line in log:
        if at := re.search(r"Found invalid messages .* at byte offset (\d+)\. // (\S+): (.*)", line):
            kind = next((kind for words, kind in kinds.items() if at[3].startswith(words)), "control")
            found.append((int(at[1]), kind))
    return found


def lead_from(partition: Path, offset: int) -> None:
    """What becoming the leader adds to leader-epoch-checkpoint."""
    file = partition / "leader-epoch-checkpoint"
    epochs = LeaderEpochCache(parse_leader_epochs(file.read_bytes()))
    epochs.assign(BROKERS_EPOCH, offset)
    file.write_bytes(epochs.to_bytes())


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_starts_and_refusals_are_all_there() -> None:
    unclean = [case["kafka_broker"]["unclean"]["broker"] == "starts" for case in CASES.values()]
    clean = [case["kafka_broker"]["clean"]["broker"] == "starts" for case in CASES.values()]
    assert (sum(unclean), unclean.count(False), clean.count(False)) == (156, 6, 12)


@pytest.mark.parametrize("case", DIRECTORY_CASES.values(), ids=DIRECTORY_CASES.keys())
def test_files_of_a_log_directory(case: Json, tmp_path: Path) -> None:
    (tmp_path / case["file"]).write_bytes(case["content"].encode())
    refusals = LogDirectory(tmp_path).refusals()
    assert [each.file for each in refusals] == ([] if case["broker"] == "starts" else [case["file"]])


def topic_config(topic: str) -> LogConfig:
    """Return the configuration in the killed broker's metadata log: user topics have a small index interval."""
    return LogConfig({} if topic.startswith("__") else {"index.interval.bytes": "1024"})


@pytest.mark.parametrize("in_place", [False, True])
def test_killed_broker(in_place: bool, tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    shutil.copytree(UNCLEAN / "crashed", source)
    recovery = Recovery(source, NOW_MS, config=topic_config)
    plans = list(recovery.in_place("backup") if in_place else recovery.write_to(target))
    target = source if in_place else target
    assert len(plans) == 11
    assert recovery.backup is None  # nothing was cut
    compared = 0
    for directory in (each for each in (UNCLEAN / "recovered").iterdir() if each.is_dir()):
        end = next(done.offsets.log_end_offset for done in plans if done.name == directory.name and done.offsets)
        lead_from(target / directory.name, end)
        for file in directory.iterdir():
            assert (target / directory.name / file.name).read_bytes() == file.read_bytes(), file
            compared += 1
        assert len(list(directory.iterdir())) == len(list((target / directory.name).iterdir()))
    assert compared == 163
    for kind in (FileKind.RECOVERY_POINTS, FileKind.LOG_START_OFFSETS):
        assert LogDirectory(target).offsets(kind) == LogDirectory(UNCLEAN / "recovered").offsets(kind)


def test_second_recovery_changes_nothing(tmp_path: Path) -> None:
    shutil.copytree(UNCLEAN / "crashed", tmp_path / "in")
    list(Recovery(tmp_path / "in", NOW_MS, config=topic_config).in_place("backup"))
    assert not any(done.is_changed() for done in Recovery(tmp_path / "in", NOW_MS, config=topic_config).plans())
