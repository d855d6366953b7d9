"""The process that forks kcli for other tests."""

from __future__ import annotations

from tests.cli.warm import WarmKcli

AT_ONCE, ROUNDS = 25, 4


def test_children_that_end_at_once_do_not_end_it() -> None:
    """The signal of a child's end comes while those of others are served. The process once ended then, and every later
    test of its worker failed."""
    warm = WarmKcli()
    for _ in range(ROUNDS):
        children = [warm.start(["--version"]) for _ in range(AT_ONCE)]
        assert [each.communicate()[1] for each in children] == [""] * AT_ONCE
        assert {each.returncode for each in children} == {0}
    warm.close()
