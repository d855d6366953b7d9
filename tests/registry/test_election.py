"""Who leads: the decision, and a member's way through the group."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcli.registry.leader import Identity, elect


def member(port: int, *, eligible: bool = True, leads: bool = False, host: str = "127.0.0.1") -> bytes:
    return json.dumps(Identity(host, port, "http", eligible).to_json(leads=leads)).encode()


@pytest.mark.parametrize(
    ("members", "is_sticky", "leader"),
    [
        ({"a": member(9001), "b": member(9002)}, False, "a"),
        ({"a": member(9002), "b": member(9001)}, False, "b"),
        ({"a": member(9001, eligible=False), "b": member(9002)}, False, "b"),
        ({"a": member(9001, eligible=False)}, False, None),
        ({"a": member(10_000), "b": member(9_999)}, False, "a"),  # URLs are compared as texts
        ({"a": member(9001), "b": member(9002, leads=True)}, False, "a"),
        ({"a": member(9001), "b": member(9002, leads=True)}, True, "b"),
        ({"a": member(9001), "b": member(9002, leads=True), "c": member(9003, leads=True)}, True, "a"),
        ({"a": member(9001), "b": b"\xff", "c": b"[]", "d": b'{"host": 1}', "e": b"[" * 100_000}, False, "a"),
        ({"a": b'{"version":1,"host":"h","port":8081,"master_eligibility":true}'}, False, "a"),
    ],
)
def test_the_smallest_url_that_may_lead_leads(members: dict[str, bytes], is_sticky: bool, leader: str | None) -> None:
    decided = elect(members, is_sticky=is_sticky)
    assert decided.get("master") == leader
    assert decided["error"] == 0
    assert ("master_identity" in decided) is (leader is not None)


def test_two_members_with_one_url_are_an_error() -> None:
    assert elect({"a": member(9001), "b": member(9001)}, is_sticky=False)["error"] == 1


def test_an_identity_is_what_confluents_registry_reads_and_writes() -> None:
    text = b'{"version":1,"host":"sr.test","port":8081,"master_eligibility":true,"scheme":"https","leader":false}'
    found: dict[str, Any] = json.loads(text)
    identity = Identity.of_json(found)
    assert identity == Identity("sr.test", 8081, "https", is_eligible=True)
    assert identity.to_json() == found
    assert identity.url == "https://sr.test:8081"
    assert Identity("::1", 1).url == "http://[::1]:1"
