"""What verify finds: one value for each thing that is wrong or worth knowing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Literal

Severity = Literal["error", "warning", "info"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""The worst first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth knowing, in one file.

    kind: a word of the vocabulary in kcli-verify(1). position: the byte where the faulty batch or entry begins, None
    where it is about the file as a whole; length in bytes. offset: of the first record it is about. lost_first_offset
    and lost_last_offset: the records that are not there, both included; no last one where nothing says how many.
    action: the safe next step in words; command: one for a shell that shows more or takes that step, None where there
    is nothing to run. Findings in a log also say what is sound: the batches and bytes of the file before and behind the
    faulty place, and the byte where the next sound batch begins, None if there is none. consequences: by kind, how many
    findings follow from this one; they are not told apart from it.
    """

    path: str
    kind: str
    severity: Severity
    position: int | None = None
    offset: int | None = None
    length: int | None = None
    expected: int | str | None = None
    found: int | str | None = None
    lost_first_offset: int | None = None
    lost_last_offset: int | None = None
    action: str
    command: str | None = None
    valid_batches_before: int | None = None
    valid_bytes_before: int | None = None
    valid_batches_behind: int | None = None
    valid_bytes_behind: int | None = None
    next_valid_position: int | None = None
    consequences: Mapping[str, int] = field(default_factory=dict)

    def to_dict(self) -> dict[str, object]:
        """The fields in their order, for JSON."""
        return asdict(self)


def offsets_text(first: int, last: int | None) -> str:
    """Lost offsets in words, with their verb."""
    if last is None:
        return f"offsets from {first:,} on are"
    return f"offset {first:,} is" if last == first else f"offsets {first:,}..{last:,} are"


_RANKS: tuple[tuple[str, ...], ...] = (
    (
        "partition-missing",
        "partition-swapped",
        "directory-link",
        "log-missing",
        "log-empty",
        "log-cut",
        "log-end",
        "file-name",
        "file-type",
        "log-foreign",
        "log-start-offset",
        "swap-log",
    ),
    ("meta-properties-missing", "meta-properties-content", "meta-properties-version", "meta-properties-node"),
    ("directory-name", "directory-duplicate"),
    ("partition-metadata-missing", "partition-metadata-topic", "partition-stray"),
    ("truncated", "batch-crc", "batch-length", "batch-magic", "offset-gap", "offset-range", "index-foreign"),
    ("checkpoint-content", "checkpoint-version", "checkpoint-count", "checkpoint-negative"),
    ("offsets-order", "offsets-overlap", "codec", "decompression", "record-structure", "record-count"),
)
METADATA_LOG = "__cluster_metadata-0/"


def rank(finding: Finding) -> tuple[int, int]:
    """The worst first: by severity, then by how much is lost. In the metadata log, all partitions hang on a record."""
    severity = SEVERITIES.index(finding.severity)
    place = next((number for number, kinds in enumerate(_RANKS, 1) if finding.kind in kinds), len(_RANKS) + 1)
    is_log = finding.path.endswith((".log", ".checkpoint"))
    return severity, 0 if METADATA_LOG in finding.path and is_log else place
