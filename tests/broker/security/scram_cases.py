"""Requests about SCRAM credentials to a fresh node, in this order: an API key, a version and a request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.metadata.answer_cases import Case

DESCRIBE, ALTER = 50, 51
UNKNOWN, SHA_256, SHA_512 = 0, 1, 2
RECORDS = frozenset(("UserScramCredentialRecord", "RemoveUserScramCredentialRecord"))


def upsertion(name: str, mechanism: int = SHA_256, iterations: int = 4096, **fields: Any) -> dict[str, Any]:
    secret = {"salt": b"salt of " + name.encode(), "salted_password": name.encode().ljust(32, b"s")}
    return {"name": name, "mechanism": mechanism, "iterations": iterations, **secret, **fields}


def alter(*upsertions: dict[str, Any], deletions: tuple[tuple[str, int], ...] = ()) -> Case:
    deleted = [{"name": name, "mechanism": mechanism} for name, mechanism in deletions]
    return ALTER, 0, {"deletions": deleted, "upsertions": list(upsertions)}


def describe(*names: str, none: bool = False) -> Case:
    return DESCRIBE, 0, {"users": None if none else [{"name": each} for each in names]}


def cases() -> Iterator[Case]:
    """All of them."""
    yield describe()
    yield describe("alice")
    yield alter()
    yield alter(upsertion("alice"), upsertion("bob", SHA_512, 16_384))
    yield alter(upsertion("alice", SHA_512, 8192))
    yield alter(upsertion("alice", iterations=4097, salt=b""))
    yield describe(none=True)
    yield alter(upsertion("few", iterations=4095), upsertion("many", iterations=16_385), upsertion("fine"))
    yield alter(
        upsertion("none", iterations=0), upsertion("less", iterations=-1), upsertion("no key", salted_password=b"")
    )
    yield alter(upsertion(""), upsertion("unknown", UNKNOWN), upsertion("odd", 3), upsertion("negative", -1))
    yield alter(upsertion("", UNKNOWN, 1), upsertion("unknown", UNKNOWN, 1))
    yield alter(deletions=(("alice", SHA_512), ("bob", SHA_256), ("nobody", SHA_256), ("", SHA_256), ("alice2", 7)))
    yield alter(deletions=(("", UNKNOWN), ("bob", UNKNOWN)))
    yield alter(upsertion("twice"), upsertion("twice", SHA_512))
    yield alter(upsertion("thrice"), upsertion("thrice", SHA_512), upsertion("thrice"), upsertion("once"))
    yield alter(upsertion("bob"), deletions=(("bob", SHA_512),))
    yield alter(deletions=(("bob", SHA_512), ("bob", SHA_256), ("bob", SHA_512)))
    yield alter(deletions=(("bob", SHA_512), ("bob", SHA_512)))
    yield alter(upsertion("bob"), deletions=(("bob", UNKNOWN),))
    yield alter(upsertion("few", iterations=1), upsertion("few"), upsertion("few", iterations=1))
    yield alter(upsertion("a=b,c"), upsertion("ünï"), upsertion(" "), upsertion("x" * 300))
    yield describe("alice", "bob", "eve", "bob", "few", "fine", "", "eve", "nobody")
    yield alter(*(upsertion(f"user-{each}", 1 + each % 2) for each in range(40)))
    yield describe(*(f"user-{each}" for each in range(45)))
    yield describe()
    yield alter(deletions=tuple((f"user-{each}", 1 + each % 2) for each in range(0, 40, 3)))
    yield alter(upsertion("new"), upsertion("user-1", SHA_256), deletions=(("user-2", SHA_256), ("eve", SHA_256)))
    yield describe()
