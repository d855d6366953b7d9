"""What can go wrong in kcli, with one exit status each. `formats.errors` has the tree for bad bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

DISTRIBUTION = "kafka-kcli"
"""What `pip install` and importlib.metadata know kcli by: `kcli` on PyPI is another project."""


class KcliError(Exception):
    """Base of all errors that a command reports as one line on stderr."""

    exit_status = 1


class UsageError(KcliError):
    """The command line asks for something that makes no sense."""

    exit_status = 2


class NotInstalled(UsageError):
    """A module that only an extra of the distribution brings is not there."""

    def __init__(self, module: str, extra: str, needed_by: str = "this command") -> None:
        super().__init__(f"{module} is not installed, which {needed_by} needs: pip install '{DISTRIBUTION}[{extra}]'")


class UnreadableInput(KcliError):
    """A file or directory that is not there, not readable, or not of a kind kcli knows."""

    exit_status = 2

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


def error_text(error: object) -> str:
    """An error in one line; one of the system as the path that it is about, where it names one, and the reason."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error) or type(error).__name__
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """Around imports of what an extra of the distribution brings. Raises NotInstalled."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise NotInstalled(str(error.name), extra) from None
