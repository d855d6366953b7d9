"""The options of kafka-dump-log, and its complaints and errors. Light to import: every dump needs this module."""

from __future__ import annotations

from dataclasses import dataclass, field

from formats.errors import FormatError
from kcli.errors import UnreadableInput
from kcli.inspector.selection import ALL, Selection

MAX_MESSAGE_BYTES = 5 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class KafkaTextOptions:
    """The options of kafka-dump-log that concern logs. decoder: NAME of the option --NAME-decoder, None without this
    option; max_bytes: the maximum number of bytes to read, None for no limit."""

    deep_iteration: bool = False
    print_data_log: bool = False
    skip_record_metadata: bool = False
    decoder: str | None = None
    max_bytes: int | None = None

    @property
    def contents(self) -> bool:
        """Whether keys and payloads are printed."""
        return self.print_data_log or self.decoder is not None

    @property
    def deep(self) -> bool:
        """Whether records are printed, not only batches."""
        return self.deep_iteration or self.contents


@dataclass(frozen=True, slots=True)
class IndexTextOptions:
    """The options of kafka-dump-log that concern indexes."""

    verify_index_only: bool = False
    index_sanity_check: bool = False
    max_message_bytes: int = MAX_MESSAGE_BYTES


@dataclass(frozen=True, slots=True)
class KafkaDumpOptions:
    """All options of kafka-dump-log, and the selection of records, which that tool does not have."""

    log: KafkaTextOptions = field(default_factory=KafkaTextOptions)
    index: IndexTextOptions = field(default_factory=IndexTextOptions)
    selection: Selection = ALL


@dataclass(slots=True)
class Notes:
    """The messages about a dump. errors: the errors that would end kafka-dump-log; complaints: the mismatches that
    kafka-dump-log prints last on stderr, by heading."""

    errors: list[FormatError | UnreadableInput] = field(default_factory=list)
    complaints: dict[str, list[str]] = field(default_factory=dict)

    def complain(self, title: str, *lines: str) -> None:
        """Add lines to the mismatches under this title."""
        self.complaints.setdefault(title, []).extend(lines)
