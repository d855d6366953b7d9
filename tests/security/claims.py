"""Claims of tokens: good ones, and random ones."""

from __future__ import annotations

import random
from typing import Any

Claims = dict[str, Any]


def good_claims(now_s: int) -> Claims:
    return {"sub": "alice", "iat": now_s - 60, "exp": now_s + 600, "scope": "produce"}


def random_claims(chance: random.Random, now_s: int) -> Claims:
    """Claims of which some are missing, late, of a wrong type or empty; never within seconds of what decides."""
    claims: Claims = good_claims(now_s)
    times = [now_s - 10_000, now_s - 100, now_s - 10, now_s + 10, now_s + 100, now_s + 10_000, now_s + 0.5]
    strange: list[Any] = [None, True, "", "  ", " x ", "1", -1, [], {}, 1e30, 10**30]
    choices: dict[str, list[Any]] = {
        "sub": ["bob", "bob ", "é", *strange],
        "exp": [*times, *times, *strange],
        "iat": [*times, *times, *strange],
        "nbf": [*times, *times, *strange],
        "aud": ["kafka", "other", ["kafka", "other"], ["x"], [1], ["kafka", 1], *strange],
        "iss": ["https://issuer", "https://issuer/", *strange],
        "jti": ["1", *strange],
        "scope": ["a b", ["a", "b"], ["a", "a"], ["a", "a "], ["", "a"], ["a", 1], *strange],
        "client": ["app", *strange],
    }
    for name in chance.sample(sorted(choices), chance.choice([0, 1, 1, 2, 3])):
        if chance.random() < 0.15:
            claims.pop(name, None)
        else:
            claims[name] = chance.choice(choices[name])
    return claims
