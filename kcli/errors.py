"""What can go wrong in kcli, with one exit status each. `formats.errors` has the tree for bad bytes."""

from __future__ import annotations


class KcliError(Exception):
    """Base of all errors that a command reports as one line on stderr."""

    exit_status = 1


class UsageError(KcliError):
    """The command line asks for something that makes no sense."""

    exit_status = 2


class UnreadableInput(KcliError):
    """A file or directory that is not there, not readable, or not of a kind kcli knows."""

    exit_status = 2

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def os_error_text(error: OSError) -> str:
    """An error of the system in one line: the path that it is about, where it names one, and the reason."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"
