"""Commands for a finding's next step: each can be pasted into a shell as it is."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path


def _command(*words: str | Path) -> str:
    return shlex.join(str(word) for word in words)


def _named(path: str | Path) -> str:
    """A path that no command takes for an option."""
    text = str(path)
    return f"./{text}" if text.startswith("-") else text


def recover(directory: str | Path, *, in_place: bool = False) -> str:
    """What a start after a crash would cut and rebuild in a partition's directory; in_place: do it."""
    return _command("kcli", "recover", "--unclean", "--in-place" if in_place else "--dry-run", _named(directory))


def recover_log_directory(directory: str | Path) -> str:
    """What a start would do with a broker's log directory."""
    return _command("kcli", "recover", "--dry-run", _named(directory))


def salvage(directory: str | Path) -> str:
    """What can be kept of a partition's directory."""
    return _command("kcli", "recover", "--unclean", "--salvage", "--dry-run", _named(directory))


def salvage_copy(directory: Path) -> str:
    """The same in a copy beside the log directory, where there is no recovery point to pass over what lies below."""
    copy = beside(directory)
    return f"{_command('cp', '-r', '--', directory, copy)} && {salvage(copy)}"


def beside(directory: Path) -> Path:
    """A place for a partition's directory outside the log directory that it is in."""
    home = directory.absolute().parent
    return home.parent / f"{home.name}-{directory.absolute().name.removeprefix('.')}"


def shorten(path: Path, size: int) -> str:
    """Put the first bytes of a file in its place, and keep the whole one beside it."""
    whole = path.with_name(f"{path.name}.moved")
    return f"{move([(path, whole)])} && {_command('head', '-c', str(size), '--', whole)} > {quoted(path)}"


def remove(path: str | Path) -> str:
    """Delete a file that has nothing in it."""
    return _command("rm", "--", path)


def change(path: str | Path, line: str, other: str) -> str:
    """Put one line of a small file in another's place; neither has a slash in it."""
    return _command("sed", "-i", f"s/^{line}$/{other}/", _named(path))


def dump(path: str | Path, offset: int | None = None) -> str:
    """What can be read of a file, from an offset on."""
    start = [] if offset is None or offset < 0 else ["--from-offset", str(offset)]
    return _command("kcli", "dump-segment", *start, "--limit", "20", _named(path))


def search(directory: str | Path, name: str) -> str:
    """Where a file of that name, or one that began with it, lies in a directory."""
    return _command("find", _named(directory), "-name", f"{name}*")


def move(pairs: Iterable[tuple[Path, Path]]) -> str:
    """Rename files one after the other; none is overwritten."""
    return " && ".join(_command("mv", "-nT", "--", one, other) for one, other in pairs)


def write(path: str | Path, text: str) -> str:
    """Write a small file of plain text."""
    return f"printf {shlex.quote(text.replace(chr(10), chr(92) + 'n'))} > {quoted(path)}"


def permit(path: str | Path) -> str:
    """Let the owner read and write a file."""
    return _command("chmod", "u+rw", "--", path)


def dump_metadata(log_directory: str | Path) -> str:
    """The nodes and directories that registered in the metadata log, where the log directory has one."""
    from formats.file_name import METADATA_DIRECTORY

    directory = Path(log_directory, METADATA_DIRECTORY)
    if not directory.is_dir():
        return search(Path(log_directory).parent, "meta.properties")
    return f"kcli dump-segment --format jsonl {quoted(directory)} | grep RegisterBrokerRecord"


def quoted(path: str | Path) -> str:
    """A path as a word of a shell's command."""
    return shlex.quote(_named(path))


def show(path: str | Path) -> str:
    """The text of a small file, with what cannot be seen made visible."""
    return f"cat -A {quoted(path)}"
