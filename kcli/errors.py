"""The errors of kcli, each with its exit status. The errors for bad bytes are in `formats.errors`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from errno import EACCES, EIO, EPERM
from typing import Self

DISTRIBUTION = "kafka-kcli"
"""The name of kcli's distribution for `pip install` and importlib.metadata: `kcli` on PyPI is another project."""


class KcliError(Exception):
    """Base of all errors that a command reports as one line on stderr."""

    exit_status = 1


class UsageError(KcliError):
    """An invalid command line, or an invalid argument of a function."""

    exit_status = 2


class NotInstalled(UsageError):
    """A module that is installed only with an extra of kcli is missing."""

    def __init__(self, module: str, extra: str, needed_by: str = "this command") -> None:
        super().__init__(f"{module} is not installed, which {needed_by} needs: pip install '{DISTRIBUTION}[{extra}]'")


class UnreadableInput(KcliError):
    """A file or directory that does not exist, cannot be read, or is not of a kind that kcli knows.

    errno: the operating system's error number; None if kcli, not the system, rejects the file.
    """

    exit_status = 2

    def __init__(self, path: str, reason: str, errno: int | None = None) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason
        self.errno = errno

    @classmethod
    def of(cls, path: object, error: OSError) -> Self:
        """Return the UnreadableInput for an OSError at a path."""
        return cls(str(path), error.strerror or str(error), error.errno)

    @property
    def is_denied(self) -> bool:
        """Whether the cause is that this user has no permission to read the file."""
        return self.errno in (EACCES, EPERM)

    @property
    def is_disk_error(self) -> bool:
        """Whether the error is EIO: the disk does not return the file's bytes."""
        return self.errno == EIO


class StartRefused(KcliError):
    """Kafka does not start with this file, or takes its log directory offline. position: the faulty byte, if known."""

    def __init__(self, file: str, reason: str, position: int | None = None) -> None:
        super().__init__(f"{file}: {reason}")
        self.file = file
        self.reason = reason
        self.position = position


def error_text(error: object) -> str:
    """Return the text of an error as one line; for an OSError its path, if it has one, and the system's reason."""
    if not isinstance(error, OSError) or error.strerror is None:
        return str(error) or type(error).__name__
    return error.strerror if error.filename is None else f"{error.filename}: {error.strerror}"


@contextmanager
def needing(extra: str) -> Iterator[None]:
    """A context for imports of packages that come with an extra of kcli. Raises NotInstalled."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise NotInstalled(str(error.name), extra) from None
