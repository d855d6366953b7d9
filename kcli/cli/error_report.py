"""Errors in part of a command's results: written to stderr, and counted in the exit status."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from kcli.cli.output import note
from kcli.errors import KcliError

Found = TypeVar("Found")


class DiskFailed(KcliError):
    """The operating system refused a change to a disk: it is full or read-only, or permission is missing."""


class NotWritten(KcliError):
    """The operating system refused a write, so that the command leaves no result."""

    exit_status = 2


@contextmanager
def all_or_nothing(where: object) -> Iterator[None]:
    """Raise NotWritten for an OSError of a block that leaves nothing if it fails. where: what the block writes, if the
    error names no file."""
    try:
        yield
    except OSError as error:
        raise NotWritten(f"{error.filename or where}: {error.strerror or error}") from None


class ErrorReport:
    """Writes errors to stderr. exit_status: 0 without errors, 1 with errors, 2 if a file could not be read."""

    def __init__(self) -> None:
        self.exit_status = 0

    def add(self, error: KcliError) -> None:
        """Write the error to stderr, and set the exit status to 1 if it is 0."""
        note(f"kcli: {error}")
        self.exit_status = max(self.exit_status, 1)

    def results(self, outcomes: Iterable[Found | KcliError]) -> list[Found]:
        """Return the outcomes that are no errors, and add the errors to the report."""
        found = []
        for outcome in outcomes:
            if isinstance(outcome, KcliError):
                self.add(outcome)
            else:
                found.append(outcome)
        return found

    def status_with(self, trouble: Iterable[str | KcliError]) -> int:
        """Add these errors to the report; a text is added as a KcliError. Return the highest exit status of these
        errors and of the report before."""
        for each in trouble:
            error = each if isinstance(each, KcliError) else KcliError(each)
            self.add(error)
            self.exit_status = max(self.exit_status, error.exit_status)
        return self.exit_status


def cell(value: object) -> str:
    """Return the text of a value in a table: `-` for None."""
    return "-" if value is None else str(value)
