"""The order of findings in which their commands can be pasted one after the other.

A command that reads a path, or a file below it, comes before the command that moves that path away. So a .log file in
lost+found is put into its place before lost+found is moved out of the log directory. A second command that moves the
same files is not shown, nor one for the salvage of a single partition if a command before it is for the salvage of the
whole log directory, which mends that partition, too.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from kcli.inspector.verify.findings import Finding

MOVE, INTO = "mv", "-t"
REMOVE = "rm"
RECOVER, DRY_RUN, SALVAGE = ["kcli", "recover"], "--dry-run", "--salvage"


class _Paths(NamedTuple):
    """The words of a command that may be paths, and the paths that the command moves away, both as `_spelt` returns
    them."""

    words: frozenset[Path]
    moved: frozenset[Path]


def in_order(findings: Sequence[Finding]) -> list[int]:
    """Return the indexes of the findings in an order in which each command works after those before it: the order of
    `findings`, except that a command comes earlier if it needs a path that an earlier command would move away."""
    paths = [_paths(each.command) for each in findings]
    needing: dict[Path, list[int]] = {}
    for number, each in enumerate(paths):
        for path in {above for word in each.words for above in (word, *word.parents)}:
            needing.setdefault(path, []).append(number)
    order: list[int] = []
    begun: set[int] = set()

    def add(number: int) -> None:
        if number in begun:
            return
        begun.add(number)
        moved = paths[number].moved
        for other in (other for path in moved for other in needing[path] if moved != paths[other].moved):
            add(other)
        order.append(number)

    for number in range(len(findings)):
        add(number)
    return order


def moves(finding: Finding) -> bool:
    """Whether the command of a finding moves a file away."""
    return bool(_paths(finding.command).moved)


def repeats(findings: Sequence[Finding]) -> list[bool]:
    """Return for each finding whether its command moves or removes files, and the commands before it have done so with
    all of them."""
    moved: set[Path] = set()
    removals: set[str] = set()
    found = []
    for each in findings:
        own = _paths(each.command).moved
        found.append((bool(own) and own <= moved) or each.command in removals)
        moved |= own
        if each.command is not None and each.command.startswith(f"{REMOVE} "):
            removals.add(each.command)
    return found


def with_whole_salvage(findings: Sequence[Finding]) -> tuple[list[Finding], list[bool]]:
    """Return the findings, and for each whether its command is for a salvage, while one before it is for a recovery of
    the same directory, or of the partition's log directory. The latter command gets --salvage, with which it does
    both."""
    found = list(findings)
    covered = [False] * len(found)
    whole: dict[Path, int] = {}
    for number, each in enumerate(findings):
        recovered = _recovered(each.command)
        if recovered is None:
            continue
        path, is_salvage = recovered
        first = whole.get(path, whole.get(path.parent))
        if first is None or not is_salvage:
            whole.setdefault(path, number)
            continue
        covered[number] = True
        command = str(found[first].command)
        if SALVAGE not in command.split():
            found[first] = replace(found[first], command=command.replace(DRY_RUN, f"{SALVAGE} {DRY_RUN}", 1))
    return found, covered


def _recovered(command: str | None) -> tuple[Path, bool] | None:
    """Return the directory of which a command shows the recovery, and whether with salvage; None for any other
    command."""
    steps = _steps(command)
    if not steps or steps[-1][:2] != RECOVER or DRY_RUN not in steps[-1]:
        return None
    return Path(os.path.realpath(steps[-1][-1])), SALVAGE in steps[-1]


def _steps(command: str | None) -> list[list[str]]:
    """Return the words of each of a command's parts with && between them; none if the command has a word in bash's
    $'...', which shlex cannot parse."""
    try:
        words = [] if command is None or "$'" in command else shlex.split(command)
    except ValueError:
        words = []
    steps: list[list[str]] = [[]]
    for word in words:
        if word == "&&":
            steps.append([])
        else:
            steps[-1].append(word)
    return steps if words else []


def _paths(command: str | None) -> _Paths:
    """Return the paths in a command; none if its words are not known (see _steps)."""
    steps = _steps(command)
    moves = [pair for step in steps if step[:1] == [MOVE] and len(step) > 2 for pair in _moves(step)]
    made = {target for _, target in moves}
    moved = {source for source, _ in moves} - made
    known = {Path(step[at]) for step in steps for at in range(1, len(step)) if not step[at].startswith("-")}
    return _Paths(_spelt(known - made), _spelt(moved))


def _spelt(paths: Iterable[Path]) -> frozenset[Path]:
    """Return absolute paths for these paths: as they are written, and with symbolic links above the last part resolved.
    The commands of two findings may write one directory in two ways: as an argument names it, and as log.dirs does."""
    found: set[Path] = set()
    for path in paths:
        written = Path(os.path.abspath(path))  # noqa: PTH100 (Path.absolute keeps ..)
        found |= {written, Path(os.path.realpath(written.parent), written.name)}
    return frozenset(found)


def _moves(step: Sequence[str]) -> list[tuple[Path, Path]]:
    """Return the paths, old and new, of the files that a command with mv moves: one, or with -t several."""
    if INTO not in step:
        return [(Path(step[-2]), Path(step[-1]))]
    target = Path(step[step.index(INTO) + 1])
    return [(Path(each), target / Path(each).name) for each in step[step.index("--") + 1 :]]
