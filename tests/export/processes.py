"""The processes below one."""

from __future__ import annotations

from pathlib import Path


def below(top: int) -> list[tuple[int, bytes]]:
    """The processes that a process has started, and those that these have: ids and command lines."""
    parents: dict[int, int] = {}
    commands: dict[int, bytes] = {}
    for path in Path("/proc").iterdir():
        if path.name.isdecimal():
            try:
                parents[int(path.name)] = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                commands[int(path.name)] = (path / "cmdline").read_bytes()
            except OSError:
                continue
    found = {top}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return [(pid, commands.get(pid, b"")) for pid in found - {top}]
