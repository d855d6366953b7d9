"""Findings of files and directories that no user can change, because of an attribute of chattr
(kcli.log.attributes)."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.log.attributes import FAILS_LATER, Sealed, sealed_files

SEALED = "file-attribute"
SEVERAL = 2
NAMED_MAX = 5
"""The maximum number of files and directories that a command names one by one."""


def sealed_finding(found: Sealed) -> Finding:
    """Return the finding of a file or directory that no user can change."""
    outcome = "Kafka does not start with it" if found.refuses else FAILS_LATER
    return Finding(
        path=str(found.path),
        kind=SEALED,
        severity="warning" if found.is_seldom_written else "error",
        expected="a file that Kafka may write" if found.path.is_file() else "a directory in which Kafka may write",
        found=f"{found.words}: even root may not change it; {outcome} (Operation not permitted)",
        refuses_start=found.refuses,
        action="find out who has set the attribute, and take it off",
        command=next_steps.unseal([_own(found.path)], found.attributes),
    )


def many_sealed(home: Path) -> tuple[Finding, Callable[[Finding], bool]] | None:
    """Return one finding for all files and directories in a log directory that no user can change, and a predicate for
    the findings of the single ones. Returns None if there are fewer than SEVERAL. Raises UnreadableInput."""
    found = list(sealed_files(home))
    if len(found) < SEVERAL:
        return None
    first = sealed_finding(min(found, key=lambda each: (not each.refuses, each.path)))
    attributes = "".join(sorted({letter for each in found for letter in each.attributes}, reverse=True))
    paths = sorted({_own(each.path) for each in found})
    is_few = len(paths) <= NAMED_MAX
    command = next_steps.unseal(paths if is_few else [Path(os.path.commonpath(paths))], attributes, deeply=not is_few)
    finding = replace(
        first,
        path=str(home),
        expected="files and directories that Kafka may write",
        found=f"{len(found):,} files and directories, such as {Path(first.path).relative_to(home)}: {first.found}",
        command=command,
    )
    return finding, lambda other: other.kind == SEALED


def _own(path: Path) -> Path:
    """Return the path of the file itself, where the path is a symbolic link: chattr does not follow links."""
    return path.resolve() if path.is_symlink() else path
