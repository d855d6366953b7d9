"""The image is the same from a whole log, from a prefix and the rest, and from a compacted log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcli.registry.image import Image, concurrent_order
from kcli.registry.records import Record
from tests.registry.registry import Registry

RECORDS: list[Record] = [
    (key.encode(), None if value is None else value.encode())
    for key, value in map(json.loads, Path(__file__).with_name("records.jsonl").read_text().splitlines())
]
SUBJECTS = ("s", "t", ":.c:s", ":.c:t")
TEXTS = ('"int"', '"long"', '{"type":"record","name":"R","fields":[]}')

REQUESTS = st.one_of(
    st.tuples(
        st.just("register"), st.sampled_from(SUBJECTS), st.sampled_from(TEXTS), st.booleans(), st.sampled_from(SUBJECTS)
    ),
    st.tuples(st.just("delete"), st.sampled_from(SUBJECTS), st.integers(1, 4), st.booleans()),
    st.tuples(st.just("delete subject"), st.sampled_from(SUBJECTS), st.booleans()),
    st.tuples(st.just("set"), st.sampled_from(("config", "mode")), st.sampled_from((*SUBJECTS, ":.c:"))),
    st.tuples(st.just("take back"), st.sampled_from(("config", "mode")), st.sampled_from((*SUBJECTS, ":.c:"))),
)


def run(registry: Registry, request: tuple[Any, ...]) -> None:
    """Send a request that hypothesis has drawn."""
    match request:
        case "register", subject, text, refers, other:
            references = [{"name": "R", "subject": other, "version": 1}] if refers else []
            registry.ask(f"POST /subjects/{subject}/versions", {"schema": text, "references": references})
        case "delete", subject, version, permanent:
            registry.ask(f"DELETE /subjects/{subject}/versions/{version}?permanent={permanent}")
        case "delete subject", subject, permanent:
            registry.ask(f"DELETE /subjects/{subject}?permanent={permanent}")
        case "set", what, subject:
            registry.ask(f"PUT /{what}/{subject}", {"compatibility": "NONE", "mode": "READWRITE"})
        case "take back", what, subject:
            registry.ask(f"DELETE /{what}/{subject}")


def state(image: Image) -> dict[str, object]:
    """Return what an image says, but for what it keeps of the log itself."""
    apart = ("parsed", "next_offset", "skipped", "skipped_count", "_sorted", "_max_ids", "_first")
    return {name: each for name, each in vars(image).items() if name not in apart}


def replay(log: list[Record], offsets: list[int] | None = None) -> Image:
    """Return the image of a log."""
    image = Image()
    for offset, (key, value) in zip(offsets or range(len(log)), log, strict=True):
        image.replay(key, value, offset)
    return image


def compacted(log: list[Record]) -> list[Record]:
    """Return a log as the cleaner leaves it: the last record of each key, tombstones gone."""
    last = {key: number for number, (key, _) in enumerate(log)}
    return [(key, value) for number, (key, value) in enumerate(log) if last[key] == number and value is not None]


@given(st.lists(REQUESTS, max_size=30))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_a_compacted_log_gives_the_same_image(requests: list[tuple[Any, ...]]) -> None:
    registry = Registry()
    registry.ask("PUT /config", {"compatibility": "NONE"})
    for request in requests:
        run(registry, request)
    assert list(registry.image.skipped) == []
    whole = state(replay(registry.log))
    assert whole == state(registry.image)
    assert whole == state(replay(compacted(registry.log)))


def test_the_originals_log_compacted_gives_the_same_image() -> None:
    assert state(replay(compacted(RECORDS))) == state(replay(RECORDS))


@given(st.integers(0, len(RECORDS)), st.randoms(use_true_random=False))
@settings(max_examples=12, deadline=None, derandomize=True)
def test_every_prefix_replays_and_every_subset_too(count: int, random: Any) -> None:
    """A compacted log can begin anywhere: no record needs another one."""
    prefix = replay(RECORDS[:count])
    for offset, (key, value) in enumerate(RECORDS[count:], count):
        prefix.replay(key, value, offset)
    assert state(prefix) == state(replay(RECORDS))
    some = sorted(random.sample(range(len(RECORDS)), count))
    image = replay([RECORDS[each] for each in some], some)
    assert image.skipped_count == 0


def test_an_id_with_another_text_is_passed_over() -> None:
    image = Image()
    value = '{"subject":"s","version":%d,"id":1,"schema":"%s","deleted":false}'
    for version, text in ((1, "a"), (2, "b")):
        key = f'{{"keytype":"SCHEMA","subject":"s","version":{version},"magic":1}}'
        image.replay(key.encode(), (value % (version, text)).encode(), version)
    assert [schema.version for schema in image.versions("s")] == [1]
    assert image.skipped[0].reason == "the id 1 belongs to 's', version 1, with another text"


def test_ids_are_found_without_a_search() -> None:
    registry = Registry()
    for number in range(50):
        registry.ask(
            f"POST /subjects/s{number}/versions", {"schema": f'{{"type":"enum","name":"E{number}","symbols":[]}}'}
        )
    found = registry.image.of_id(33, "")
    assert found is not None
    assert found.subject == "s32"
    assert registry.image.id_of(".", found.digest) == 33
    assert registry.image.max_id(".") == 50
    assert registry.image.max_id(".c") is None


@pytest.mark.parametrize(
    ("prefix", "found"),
    [
        (":*:", [":.c:s", ":.c:t", ":.d:s", "s", "sx"]),
        ("", ["s", "sx"]),
        ("sx", ["sx"]),
        (":.c:", [":.c:s", ":.c:t"]),
        (":.c:t", [":.c:t"]),
        (":.", [":.c:s", ":.c:t", ":.d:s", "s", "sx"]),
        (":.c", [":.c:s", ":.c:t"]),
        (":*:s", [":.c:s", ":.d:s", "s", "sx"]),
        (":.e:", []),
    ],
)
def test_prefixes(prefix: str, found: list[str]) -> None:
    registry = Registry()
    for subject in ("s", "sx", ":.c:s", ":.c:t", ":.d:s"):
        registry.ask(f"POST /subjects/{subject}/versions", {"schema": '"int"'})
    assert registry.image.subjects(prefix) == found


def test_the_order_of_javas_concurrent_map() -> None:
    """As the original has listed the subjects of an id."""
    lines = Path(__file__).with_name("transcript.jsonl").read_text().splitlines()
    answers = [each["answer"] for each in map(json.loads, lines) if each["request"] == "GET /schemas/ids/1/subjects"]
    listed = json.loads(answers[-1])
    assert len(listed) > 16
    assert concurrent_order(dict.fromkeys(listed)) == listed
    assert concurrent_order(dict.fromkeys(sorted(listed))) != sorted(listed)
