"""Checks a log directory beside the others of its broker.

    one partition in two                a start ends with "Duplicate log directories"
    cluster.id, node.id, directory.id   a start ends where two disagree, or have the same directory.id
    a second __cluster_metadata-0       a start ends, unless it lies in the directory of the metadata log
    exchanged meta.properties           each has the directory.id of the other: Kafka serves all
    partitions in another directory     than the metadata log places them in: Kafka serves them there

Source: kcli.log.recovery.node_directories.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from formats.file_name import METADATA_DIRECTORY, FileKind
from kcli.inspector.verify import next_steps
from kcli.inspector.verify.findings import Finding
from kcli.inspector.verify.surroundings import Surroundings
from kcli.log.recovery.node_directories import Copy


def across_directories(around: Surroundings) -> Iterator[Finding]:
    """Yield the findings about a log directory beside the others of its broker. What concerns two of them is found at
    one, if both are verified."""
    if not around.is_broker:
        return
    for copy in around.node.copies:
        if not copy.is_kept or not around.is_given(copy.other):
            yield _duplicate(copy)
    yield from _meta_properties(around)
    if around.node.has_second_metadata_log:
        path = around.path / METADATA_DIRECTORY
        yield Finding(
            path=str(path),
            kind="directory-name",
            severity="error",
            expected="the metadata log in the directory that metadata.log.dir names, else in the first of log.dirs",
            found="a metadata log in another one: Kafka does not start with it (Found unexpected metadata location)",
            action="move it out of the log directory",
            command=next_steps.move([(path, next_steps.beside(path))]),
            refuses_start=True,
        )
    yield from _moved(around)


def _is_first(one: Path, other: Path) -> bool:
    """Whether a finding about both is found at `one`."""
    return str(one.absolute()) < str(other.absolute())


def _duplicate(copy: Copy) -> Finding:
    paths, ends = (copy.path, copy.other), (copy.end, copy.other_end)
    if copy.is_kept:
        paths, ends = (copy.other, copy.path), (copy.other_end, copy.end)
    own, other = ("has no log" if end is None else f"ends at offset {end:,}" for end in ends)
    return Finding(
        path=str(paths[0]),
        kind="directory-duplicate",
        severity="error",
        expected="one directory a partition in all log directories",
        found=f"{paths[1]} is the same partition, and {other}, this one {own}: Kafka does not start with both "
        "(Duplicate log directories)",
        action="move this one out of the log directory; salvage keeps its log in a copy, as a stray",
        command=next_steps.move([(paths[0], next_steps.beside(paths[0]))]),
        refuses_start=True,
    )


def _meta_properties(around: Surroundings) -> Iterator[Finding]:
    path = around.path / FileKind.META_PROPERTIES
    for each in around.node.other_owners():
        yield Finding(
            path=str(path),
            kind="meta-properties-node",
            severity="error",
            expected="the ids of one node in all its log directories",
            found=f"{each}: Kafka does not start with both",
            action="take the directory of the other node out of log.dirs, or mend the file that is wrong",
            command=next_steps.show(path),
            refuses_start=True,
        )
    own = None if around.properties is None else around.properties.directory_id
    twin = None if own is None else around.node.with_id(own)
    if own is None or twin is None:
        return
    right = around.registered_directory_id
    its_right = None if right is not None else around.of(twin).registered_directory_id
    is_here = right is not None or (its_right is None and _is_first(twin, around.path))
    if not is_here and around.is_given(twin):
        return
    wrong, other = (path, twin / FileKind.META_PROPERTIES) if is_here else (twin / FileKind.META_PROPERTIES, path)
    known = right or its_right
    yield Finding(
        path=str(wrong),
        kind="meta-properties-node",
        severity="error",
        expected="a directory.id of its own" + ("" if known is None else f", {known} by the metadata log"),
        found=f"directory.id {own}, which {other} has, too: Kafka does not start with both (Duplicate directory ID)",
        action="stop the broker, and write the id that the metadata log has"
        if known
        else "one is a copy of the other: restore it from a backup",
        command=next_steps.show(wrong)
        if known is None
        else next_steps.change(wrong, f"directory.id={own}", f"directory.id={known}"),
        refuses_start=True,
    )


def _moved(around: Surroundings) -> Iterator[Finding]:
    """Yield the findings of partitions that lie in another log directory than the metadata log says."""
    other = around.exchanged_with
    if other is not None:
        if _is_first(around.path, other) or not around.is_given(other):
            one, two = around.path / FileKind.META_PROPERTIES, other / FileKind.META_PROPERTIES
            aside = one.with_name(f"{one.name}.moved")
            yield Finding(
                path=str(one),
                kind="meta-properties-node",
                severity="warning",
                expected="the directory.id in which the metadata log places the partitions here",
                found=f"that of {other}, whose file has the one of this directory: the files are exchanged",
                action="nothing is lost: Kafka serves all partitions, and tells the controller their new places; or "
                "stop the broker, and exchange the files again",
                command=next_steps.move([(one, aside), (two, one), (aside, two)]),
            )
        return
    for partition, path in around.moved.items():
        yield Finding(
            path=str(around.path / f"{partition}"),
            kind="partition-elsewhere",
            severity="info",
            expected="a directory: the metadata log places the partition here",
            found=f"it lies in {path.parent}",
            action="nothing to do: Kafka serves it there, and tells the controller its new place",
        )
