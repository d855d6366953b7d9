"""The trash that a file manager makes in a log directory, if that is where a file system is mounted.

    .Trash-<uid>/files/<name>             what was deleted
    .Trash-<uid>/info/<name>.trashinfo    its path before, relative to the directory that has the trash, or absolute

Kafka takes .Trash-0 for partition 0 of a topic `.Trash`, and its start renames it to .Trash-0.<unique>-stray. Source:
the Trash specification of freedesktop.org.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

FILES, INFO = "files", "info"
INFO_BYTES = 64 << 10  # more bytes than a valid .trashinfo file has
_NAME = re.compile(r"\.Trash-[0-9]+(\.[0-9a-f]{32}-stray)?")
_PATH = re.compile(r"^Path=(.+)$", re.MULTILINE)


def is_trash(path: Path) -> bool:
    """Whether a directory is a trash with deleted files."""
    return _NAME.fullmatch(path.name) is not None and (path / FILES).is_dir()


def is_in_trash(path: Path) -> bool:
    """Whether a file or directory lies in a trash, where it was put by its deletion."""
    return path.parent.name == FILES and is_trash(path.parent.parent)


def original_path(path: Path) -> Path | None:
    """Return the path from which a file in a trash was deleted, by its .trashinfo file; None if that is not known, or
    if the file is in no trash."""
    if not is_in_trash(path):
        return None
    trash = path.parent.parent
    try:
        with (trash / INFO / f"{path.name}.trashinfo").open("rb") as opened:
            found = _PATH.search(opened.read(INFO_BYTES).decode("utf-8", "replace"))
    except OSError:
        return None
    return None if found is None else trash.parent / unquote(found[1].strip())


def deleted_from(trash: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the files and directories in a trash, each with the path from which it was deleted, as far as that is
    known."""
    try:
        paths = sorted((trash / FILES).iterdir())
    except OSError:
        return
    for path in paths:
        original = original_path(path)
        if original is not None:
            yield path, original
