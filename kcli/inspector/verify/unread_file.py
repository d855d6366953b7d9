"""The findings of files that the system does not let kcli read: for lack of a permission, or because the disk fails."""

from __future__ import annotations

import os
from pathlib import Path

from formats.file_name import METADATA_DIRECTORY, parse_directory
from kcli.errors import UnreadableInput
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding


def unread_file(error: UnreadableInput) -> Finding:
    """Return the finding of a file that cannot be read. error: one for which `is_denied` or `is_disk_error` is true."""
    path = Path(error.path)
    action, command = _permission(path) if error.is_denied else _copy(path)
    return Finding(
        path=error.path,
        kind="unread-file",
        severity="error",
        expected="a file that can be read",
        found=f"{error.reason}: Kafka does not start where it cannot read the file either",
        action=action,
        command=command,
    )


def _permission(path: Path) -> tuple[str, str]:
    """Return the next step, in words and as a command, if a permission is lacking. The step is about the outermost of
    the directories above the path that kcli may not list or enter; if there is none, about the path."""
    closed = next((each for each in reversed(path.parents) if not os.access(each, os.R_OK | os.X_OK)), path)
    own, around = closed.stat(), closed.parent.stat()
    if (own.st_uid, own.st_gid) != (around.st_uid, around.st_gid):
        return "another user owns it: give it the owner of the directory around it", next_steps.give_owner(closed)
    if closed.is_dir():
        return "let its owner read and enter it", next_steps.permit_directory(closed)
    return "let its owner read it", next_steps.permit(closed)


def _copy(path: Path) -> tuple[str, str | None]:
    """Return the next step if the disk fails, in words and as a command; None if there is no command."""
    directory = path.parent
    if directory.name == METADATA_DIRECTORY:  # salvage also uses the partitions' directories beside it
        directory = directory.parent
    elif parse_directory(directory.absolute().name) is None:
        return "the disk fails: copy the directory to another disk before all else", None
    command = next_steps.salvage_to_copy(directory)
    return "the disk fails: copy to another disk what can be read, before all else; salvage does", command
