"""The levels: the messages around those of a format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import pytest

from kcli.schemas.compatibility import SHOWN_MAX, Level, check, differences
from kcli.schemas.parsed import Incompatibility


@dataclass(frozen=True)
class Words:
    """A format whose readers read the words that they know."""

    canonical: str

    def normalized(self) -> Self:
        return self

    def formatted(self, form: str) -> str:
        return form or self.canonical

    def incompatibilities(self, writer: Self) -> list[Incompatibility]:
        missing = sorted(set(writer.canonical.split()) - set(self.canonical.split()))
        return [
            Incompatibility("MISSING", each, f"the %s schema lacks {each} of the %s schema, 50%s") for each in missing
        ]

    def validate_new(self) -> None:
        pass


class OtherWords(Words):
    """Another format."""


A, AB, B = Words("a"), Words("a b"), Words("b")


@pytest.mark.parametrize(
    ("level", "new", "versions", "messages"),
    [
        (Level.NONE, A, [(1, B)], []),
        (Level.BACKWARD, AB, [(1, A)], []),
        (Level.BACKWARD, A, [], []),
        (
            Level.BACKWARD,
            A,
            [(1, A), (2, AB)],
            [
                "the new schema lacks b of the old schema, 50%s",
                "{oldSchemaVersion: 2}",
                "{oldSchema: 'a b'}",
                "{validateFields: 'false', compatibility: 'BACKWARD'}",
            ],
        ),
        (Level.BACKWARD, A, [(1, AB), (2, A)], []),
        (
            Level.BACKWARD_TRANSITIVE,
            A,
            [(1, AB), (2, B), (3, A)],
            [
                "the new schema lacks b of the old schema, 50%s",
                "{oldSchemaVersion: 2}",
                "{oldSchema: 'b'}",
                "{validateFields: 'false', compatibility: 'BACKWARD_TRANSITIVE'}",
            ],
        ),
        (
            Level.FORWARD,
            AB,
            [(None, A)],
            [
                "the old schema lacks b of the new schema, 50%s",
                "{oldSchema: 'a'}",
                "{validateFields: 'false', compatibility: 'FORWARD'}",
            ],
        ),
        (
            Level.FULL,
            A,
            [(7, B)],
            [
                "the old schema lacks a of the new schema, 50%s",
                "the new schema lacks b of the old schema, 50%s",
                "{oldSchemaVersion: 7}",
                "{oldSchema: 'b'}",
                "{validateFields: 'false', compatibility: 'FULL'}",
            ],
        ),
        (
            Level.FULL,
            AB,
            [(7, B)],
            [
                "the old schema lacks a of the new schema, 50%s",
                "{validateFields: 'false', compatibility: 'FULL'}",
            ],
        ),
        (
            Level.FULL_TRANSITIVE,
            A,
            [(1, OtherWords("a")), (2, A)],
            [
                "Incompatible because of different schema type",
                "{validateFields: 'false', compatibility: 'FULL_TRANSITIVE'}",
            ],
        ),
    ],
)
def test_the_messages_of_a_level(
    level: Level, new: Words, versions: list[tuple[int | None, Words]], messages: list[str]
) -> None:
    assert check(level, new, versions) == messages
    assert differences(level, new, versions) == messages[:-1]


def test_other_messages_stand_first() -> None:
    found = check(Level.NONE, A, [(1, B)], validate_fields=True, messages=["a reserved field"])
    assert found == ["a reserved field", "{validateFields: 'true', compatibility: 'NONE'}"]


def test_a_long_schema_is_shown_in_part() -> None:
    for text, shown in (
        ("b" * SHOWN_MAX, f"{{oldSchema: '{'b' * SHOWN_MAX}'}}"),
        ("b" * SHOWN_MAX + "c", f"{{oldSchema: <truncated> '{'b' * SHOWN_MAX}...'}}"),
        ("😀" * SHOWN_MAX, f"{{oldSchema: <truncated> '{'😀' * (SHOWN_MAX // 2)}...'}}"),
        ("x" + "😀" * SHOWN_MAX, f"{{oldSchema: <truncated> 'x{'😀' * (SHOWN_MAX // 2 - 1)}...'}}"),
    ):
        assert differences(Level.BACKWARD, A, [(None, Words(text))])[-1] == shown
