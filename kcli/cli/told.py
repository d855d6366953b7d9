"""How commands tell results, and what went wrong with some of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from kcli.cli.output import note
from kcli.errors import KcliError

Found = TypeVar("Found")


class DiskFailed(KcliError):
    """The system refused a change to a disk: it is full, read-only, not ours."""


class Told:
    """What went wrong goes to stderr, and makes the exit status 1, or 2 where something could not be read."""

    def __init__(self) -> None:
        self.failed = 0

    def bad(self, error: KcliError) -> None:
        """Something did."""
        note(f"kcli: {error}")
        self.failed = max(self.failed, 1)

    def good(self, outcomes: Iterable[Found | KcliError]) -> list[Found]:
        """The outcomes that are none of that."""
        found = []
        for outcome in outcomes:
            if isinstance(outcome, KcliError):
                self.bad(outcome)
            else:
                found.append(outcome)
        return found

    def status(self, trouble: Iterable[str | KcliError]) -> int:
        """The exit status. trouble: what is damaged, or could not be read."""
        for each in trouble:
            error = each if isinstance(each, KcliError) else KcliError(each)
            self.bad(error)
            self.failed = max(self.failed, error.exit_status)
        return self.failed


def cell(value: object) -> str:
    """A value in a table; a dash stands for none."""
    return "-" if value is None else str(value)
