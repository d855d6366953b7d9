"""What verify finds: one value for each thing that is wrong or worth knowing."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Literal

Severity = Literal["error", "warning", "info"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong, or worth knowing, in one file.

    kind: a word of the vocabulary in kcli-verify(1). position: the byte where the faulty batch or entry begins, None
    where it is about the file as a whole; length in bytes. offset: of the first record it is about. action: the safe
    next step. Findings in a log also say what is sound: the batches and bytes of the file before and behind the faulty
    place, and the byte where the next sound batch begins, None if there is none.
    """

    path: str
    kind: str
    severity: Severity
    position: int | None = None
    offset: int | None = None
    length: int | None = None
    expected: int | str | None = None
    found: int | str | None = None
    action: str
    valid_batches_before: int | None = None
    valid_bytes_before: int | None = None
    valid_batches_behind: int | None = None
    valid_bytes_behind: int | None = None
    next_valid_position: int | None = None

    def to_dict(self) -> dict[str, int | str | None]:
        """The fields in their order, for JSON."""
        return asdict(self)
