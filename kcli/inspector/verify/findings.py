"""The findings of verify: errors, warnings and notes (info)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

Severity = Literal["error", "warning", "info"]

SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info")
"""The severities, the worst first."""

REFUSES = ": Kafka does not start with it"
STOPS = "Kafka starts with it, and consumers stop at offset "
"""The beginning of the advice for a batch that Kafka keeps and consumers cannot read; the batch's offset follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One error, warning or note about one file.

    kind: a word of the vocabulary in kcli-verify(1). position: the byte where the faulty batch or entry begins, None
    for the file as a whole; length: bytes. offset: that of the first affected record. lost_first_offset,
    lost_last_offset: the missing offsets, both inclusive; the last is None if their number is not known. action: the
    safe next step in words; command: a shell command that shows more or takes that step; None if there is none.
    valid_...: the number of sound batches before and after the position, and their bytes; None for a file of another
    type than .log. next_valid_position: the byte where the next sound batch begins, None if there is none.
    consequences: the number of findings by kind that follow from this one, and are not reported themselves.
    refuses_start: whether Kafka does not start with the file as it is.
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
    refuses_start: bool = False

    def to_dict(self) -> dict[str, object]:
        """The fields by name, in order, for JSON."""
        return asdict(self)


def ranges_text(ranges: Sequence[Sequence[int]], shown: int) -> str:
    """Return ranges of offsets, (first, last), in words: the first `shown` of them, and the number of the others."""
    texts = [f"{first:,}..{last:,}" if last > first else f"{first:,}" for first, last in ranges[:shown]]
    more = f" and {len(ranges) - shown:,} more ranges" if len(ranges) > shown else ""
    return f"{', '.join(texts)}{more}"


def offsets_text(first: int, last: int | None) -> str:
    """Return lost offsets as text, with the verb: "offsets 5..9 are". last: None if it is not known."""
    if last is None:
        return f"offsets from {first:,} on are"
    return f"offset {first:,} is" if last == first else f"offsets {first:,}..{last:,} are"


_RANKS: tuple[tuple[str, ...], ...] = (
    ("tier-metadata-damaged", "tier-metadata-version", "file-shared"),
    (
        "tier-object-missing",
        "tier-segment-foreign",
        "tier-segment-cut",
        "tier-segment-other",
        "tier-gap",
        "tier-no-objects",
        "copy-incomplete",
        "copy-padded",
        "files-removed",
        "move-incomplete",
        "unread-file",
        "metadata-log-foreign",
        "clean-shutdown-old",
        "checkpoint-foreign",
        "checkpoint-exchanged",
        "checkpoint-elsewhere",
        "checkpoint-copied",
        "log-directory-missing",
        "partition-missing",
        "partition-swapped",
        "directory-link",
        "directory-shared",
        "log-compressed",
        "log-text-mode",
        "log-link",
        "file-link",
        "log-missing",
        "log-deleted",
        "log-empty",
        "log-cut",
        "log-end",
        "log-promoted",
        "file-name",
        "file-type",
        "file-attribute",
        "log-foreign",
        "records-foreign",
        "block-displaced",
        "records-unserved",
        "log-replaced",
        "log-returned",
        "log-start-offset",
        "transaction-state-end",
        "swap-log",
        "swap-index",
    ),
    (
        "meta-properties-missing",
        "meta-properties-content",
        "meta-properties-version",
        "meta-properties-node",
        "metadata-version",
    ),
    ("directory-name", "directory-duplicate"),
    ("partition-metadata-missing", "partition-metadata-topic", "partition-stray"),
    (
        "truncated",
        "foreign-bytes",
        "batch-crc",
        "batch-length",
        "batch-magic",
        "codec",
        "decompression",
        "record-structure",
        "record-count",
        "not-loaded",
        "offset-gap",
        "offset-range",
        "last-offset",
        "index-foreign",
        "transaction-open",
        "snapshot-missing",
    ),
    ("checkpoint-content", "checkpoint-version", "checkpoint-count", "checkpoint-negative"),
    ("offsets-order", "offsets-overlap"),
)
STARTS_LOSING = ("Kafka cuts the file ", "Kafka empties the file ", "Kafka deletes the file ")
"""The beginnings of the advice for damage at which Kafka's next start removes batches."""
METADATA_LOG = "__cluster_metadata-0/"


def rank(finding: Finding) -> tuple[int, int]:
    """Return the key by which findings are sorted, the worst first: by severity; then those that keep Kafka from
    starting; then by kind, in the order of how much each kind loses. Errors in the metadata log come before those in
    other logs, as Kafka reads this log first, and its errors concern all partitions."""
    severity = SEVERITIES.index(finding.severity)
    if finding.refuses_start:
        return severity, -2 if METADATA_LOG in finding.path else -1
    is_run = finding.kind == "offsets-order" and "offsets-order" in finding.consequences
    # Several batches out of order are ranked like the torn batches that they cause, and so are batches that a start
    # removes because of their order.
    is_losing = finding.action.startswith(STARTS_LOSING) and finding.kind in ("offsets-order", "offsets-overlap")
    kind = "batch-crc" if is_run or is_losing else finding.kind
    place = 2 * next((number for number, kinds in enumerate(_RANKS, 1) if kind in kinds), len(_RANKS) + 1)
    place -= is_run or is_losing
    is_log = finding.path.endswith((".log", ".checkpoint"))
    return severity, 0 if METADATA_LOG in finding.path and is_log else place
