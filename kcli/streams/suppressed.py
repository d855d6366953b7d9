"""Suppressed: how long suppress holds a table's changes back, and how large its buffer may become.

Source: Suppressed, Suppressed.BufferConfig of Kafka Streams; KIP-328.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcli.streams.errors import TopologyError


@dataclass(frozen=True)
class Suppressed:
    """How long changes are held back: until_window_closes and until_time_limit make an instance.

    wait_ms: for how long; None: until the window closes. records_max, bytes_max: the size of the buffer, None without a
    bound. emits_early: if the buffer is full, its first changes are sent early; otherwise a record that does not fit is
    an error.
    """

    wait_ms: int | None
    records_max: int | None = None
    bytes_max: int | None = None
    emits_early: bool = False

    @classmethod
    def until_window_closes(cls, *, records_max: int | None = None, bytes_max: int | None = None) -> Suppressed:
        """Send each window of a table once, when it is closed. A record that does not fit in the buffer is an error."""
        return cls(None, records_max, bytes_max)

    @classmethod
    def until_time_limit(
        cls, wait_ms: int, *, records_max: int | None = None, bytes_max: int | None = None, emits_early: bool = False
    ) -> Suppressed:
        """Send the last change of a key when wait_ms of stream time have passed since its first one."""
        return cls(wait_ms, records_max, bytes_max, emits_early)

    def __post_init__(self) -> None:
        for name, value in (
            ("wait_ms", self.wait_ms),
            ("records_max", self.records_max),
            ("bytes_max", self.bytes_max),
        ):
            if value is not None and value < 0:
                raise TopologyError(f"{name} must not be negative: {value}")
