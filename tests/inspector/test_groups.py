"""Groups read from files, compared with what Kafka's Admin and tools reported just before the shutdown."""

import json
import random
import re
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import KcliError, UnreadableInput
from kcli.inspector.groups import GroupFiles, log_end_offset
from kcli.views.groups import Group, NoSuchGroup, places, places_text, progress
from tests.conftest import GOLDEN

DATA = GOLDEN / "groups" / "data"
EXPECTED = GOLDEN / "groups" / "expected"
TOLD: dict[str, dict[str, Any]] = json.loads((EXPECTED / "groups.json").read_text())
ALIVE = {name: told for name, told in TOLD.items() if "error" not in told}


@pytest.fixture(scope="module")
def files() -> GroupFiles:
    found = GroupFiles([DATA])
    assert found.trouble == []
    return found


def group_of(files: GroupFiles, name: str) -> Group:
    """One group that is there."""
    (found,) = files.describe([name])
    assert isinstance(found, Group)
    return found


def lines(path: Path) -> Iterator[list[str]]:
    """Return the cells of each line below the heading."""
    for line in path.read_text().splitlines():
        cells = line.split()
        if cells and cells[0] != "GROUP":
            yield cells


def test_list_is_that_of_kafka_groups(files: GroupFiles) -> None:
    told = {(cells[0], cells[1]) for cells in lines(EXPECTED / "all-groups-list.txt")}
    assert {(each.group, each.type) for each in files.all()} == told
    states = {(cells[0], cells[2]) for cells in lines(EXPECTED / "groups-list.txt")}
    assert {(each.group, each.state) for each in files.all() if each.type != "Share"} == states


@pytest.mark.parametrize("name", ALIVE)
def test_groups_are_those_of_the_admin_client(files: GroupFiles, name: str) -> None:
    told, group = ALIVE[name], group_of(files, name)
    assert (group.type, group.state, group.assignor or "") == (told["type"], told["state"], told["assignor"])
    members = {
        each.id: (each.client_id, each.host, each.instance_id, sorted(f"{topic}-{n}" for topic, n in each.assignment))
        for each in group.members
    }
    assert members == {
        each["member_id"]: (each["client_id"], each["host"], each["instance_id"], each["assignment"])
        for each in told["members"]
    }
    assert [
        [*place, each.offset, each.metadata, each.leader_epoch] for place, each in sorted(files.committed(name).items())
    ] == told["offsets"]


@pytest.mark.parametrize("name", ALIVE)
def test_lag_is_that_of_kafka_consumer_groups(files: GroupFiles, name: str) -> None:
    group, committed = group_of(files, name), files.committed(name)
    rows = progress(group, committed, files.ends(places(group, committed)))
    shown = [
        [name, row.topic, row.partition, row.committed and row.committed.offset, row.log_end_offset, row.lag]
        + ([None] * 3 if row.member is None else [row.member.id, row.member.host, row.member.client_id])
        for row in rows
    ]
    told = sorted(lines(EXPECTED / "describe" / f"{name}.offsets.txt"))
    assert [["-" if cell is None else str(cell) for cell in row] for row in shown] == told


@pytest.mark.parametrize("name", ["sg-one", "sg-two"])
def test_share_groups(files: GroupFiles, name: str) -> None:
    group = group_of(files, name)
    (state,) = lines(EXPECTED / "describe" / f"{name}.state.txt")
    assert (group.state, str(len(group.members))) == (state[3], state[-1])
    told = {(cells[1], cells[-1]) for cells in lines(EXPECTED / "describe" / f"{name}.members.txt")}
    assert {(each.id, places_text(each.assignment)) for each in group.members} == told


def test_what_is_gone(files: GroupFiles) -> None:
    (deleted,) = files.describe(["cg-deleted"])
    assert isinstance(deleted, NoSuchGroup)
    assert files.committed("cg-deleted") == {}


def test_where_there_are_no_groups(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no partition of __consumer_offsets"):
        GroupFiles([tmp_path])
    with pytest.raises(UnreadableInput, match="No such file"):
        GroupFiles([tmp_path / "nothing"])


def test_several_directories_of_one_broker(tmp_path: Path) -> None:
    """The partitions of __consumer_offsets, and those of the groups' topics, are spread over the directories."""
    first, second = tmp_path / "first", tmp_path / "second"
    for directory in (first, second):
        directory.mkdir()
    for i, each in enumerate(sorted(DATA.glob("*-*/"))):
        shutil.copytree(each, (first, second)[i % 2] / each.name)
    spread, whole = GroupFiles([first, second]), GroupFiles([DATA])
    assert spread.all() == whole.all()
    for name in ALIVE:
        assert group_of(spread, name) == group_of(whole, name)
        assert spread.committed(name) == whole.committed(name)
    assert len(GroupFiles([first]).all()) < len(whole.all())


def test_ends_of_logs_with_indexes_that_lead_astray(tmp_path: Path) -> None:
    """An index may be wrong: preallocated, cut, of another log, or zeros, the end found is the log's."""
    directory = tmp_path / "g-a-0"
    shutil.copytree(DATA / "other-0", directory)
    (segment,) = (path for path in directory.glob("*.log") if path.name != "00000000000000000000.log")
    index = segment.with_suffix(".index")
    end = log_end_offset(directory)
    assert end == 86
    sound = struct.pack(">ii", 2, 0)
    for data in (b"", b"\0" * 4096, index.read_bytes() + b"\0" * 4096, b"\xff" * 64, b"\1" * 13, sound * 3):
        index.write_bytes(data)
        assert log_end_offset(directory) == end
    index.unlink()
    assert log_end_offset(directory) == end


def test_damage_is_passed_and_told(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    shutil.copytree(DATA, directory)
    log = directory / "__consumer_offsets-0" / "00000000000000000000.log"
    data = bytearray(log.read_bytes())
    data[100] ^= 1
    log.write_bytes(data)
    found = GroupFiles([directory])
    assert len(found.trouble) == 1
    assert re.match(rf"{log}: .*CRC is", str(found.trouble[0])), found.trouble
    assert {each.group for each in found.all()} <= {each.group for each in GroupFiles([DATA]).all()}


def test_any_bytes_are_read_without_a_crash(tmp_path: Path) -> None:
    """Changed bytes with a correct CRC reach the decoders; changed bytes elsewhere reach the framing."""
    from formats.crc32c import crc32c

    chance = random.Random(6)
    directory = tmp_path / "__consumer_offsets-1"
    shutil.copytree(DATA / "__consumer_offsets-1", directory)
    log = directory / "00000000000000000000.log"
    whole = log.read_bytes()
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        at = 0
        while at + 61 <= len(data):
            size = 12 + int.from_bytes(data[at + 8 : at + 12], signed=True)
            if size < 61 or chance.random() < 0.05:
                break
            data[at + 17 : at + 21] = crc32c(bytes(data[at + 21 : at + size])).to_bytes(4)
            at += size
        log.write_bytes(data[: chance.randrange(len(data))] if chance.random() < 0.2 else data)
        try:
            found = GroupFiles([tmp_path])
            for group in found.describe(each.group for each in found.all()):
                assert isinstance(group, Group)
                found.committed(group.id)
        except KcliError:
            continue
