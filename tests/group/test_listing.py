"""Groups in lists and descriptions, and records of the log that are of other kinds, of other versions, or damaged."""

from __future__ import annotations

from typing import Any

import pytest

from formats.errors import BadValue, FormatError
from formats.message_writer import write
from kcli.group.config import GroupConfig
from kcli.group.machine import GroupMachine
from kcli.group.requests import ListedGroup, ListGroups
from kcli.java.hashing import hash_map_order, java_hash
from tests.group.group_log import GROUP, Running


def test_list() -> None:
    running = Running()
    running.commit(5, group_id="simple")
    running.stable(1)
    simple = ListedGroup(group_id="simple", protocol_type="", state="Empty", type="classic")
    stable = ListedGroup(group_id=GROUP, protocol_type="consumer", state="Stable", type="classic")
    assert running.ask(ListGroups()) == [simple, stable]
    assert running.ask(ListGroups(states=(" STABLE", "dead"))) == [stable]
    assert running.ask(ListGroups(types=("Classic",), states=("empty",))) == [simple]
    assert running.ask(ListGroups(types=("consumer", "no type"))) == []


def test_a_group_that_is_not_there() -> None:
    described = Running().state("nobody")
    assert (described.state, described.error_message) == ("Dead", "Group nobody not found.")


def machine() -> GroupMachine:
    return GroupMachine(GroupConfig(), lambda: "id")


def test_other_kinds_of_records_are_passed_over() -> None:
    machine().replay((b"\0\x63what", b"?"), 0, -1, -1)
    machine().replay((b"\0\3\0\1g", b"\0\0\0\0\0\1\0"), 0, -1, -1)


def group_record(members: list[dict[str, Any]], version: int = 0) -> tuple[bytes, bytes]:
    value = {"protocolType": "consumer", "generation": 3, "protocol": "range", "leader": "a", "members": members}
    return b"\0\2\0\1g", version.to_bytes(2) + write("GroupMetadataValue", version, value)


MEMBER = {
    "memberId": "a",
    "clientId": "c",
    "clientHost": "/h",
    "sessionTimeout": 9,
    "subscription": b"",
    "assignment": b"x",
}


def test_old_versions() -> None:
    running = Running()
    running.log.append((group_record([MEMBER]), -1, -1))
    running.log.append(((b"\0\0\0\1g\0\1t\0\0\0\0", b"\0\0" + bytes(7) + b"\5\0\1m" + bytes(8)), -1, -1))
    running.restart()
    described = running.state()
    assert (described.state, described.members[0].assignment) == ("Stable", b"x")
    assert running.committed() == {("t", 0): 5}
    running.pass_time(9)
    assert running.state().state == "Empty"


@pytest.mark.parametrize(
    "record",
    [
        (None, b""),
        (b"\0", b""),
        (b"\0\2\0\1", b"\0\0"),
        (b"\0\2\0\1g", b"\0"),
        (b"\0\2\0\1g", b"\0\x09"),
        (b"\0\1\0\1g\0\1t\0\0\0\0", b"\0\4\0"),
    ],
)
def test_damaged_records(record: tuple[bytes | None, bytes]) -> None:
    with pytest.raises(FormatError):
        machine().replay(record, 0, -1, -1)


def test_a_member_twice() -> None:
    with pytest.raises(BadValue):
        machine().replay(group_record([MEMBER, MEMBER]), 0, -1, -1)
    static = [{**MEMBER, "memberId": name, "groupInstanceId": "i"} for name in "ab"]
    with pytest.raises(BadValue):
        machine().replay(group_record(static, 3), 0, -1, -1)


def test_java_hashes() -> None:
    assert [java_hash(text) for text in ("", "a", "range", "__consumer_offsets", "\U0001f600")] == [
        0,
        97,
        108280125,
        -970371369,
        1772899,
    ]
    assert hash_map_order(["roundrobin", "range", "sticky", "range"]) == ["sticky", "range", "roundrobin"]
