"""What of a broker's configuration the group coordinator goes by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Kafka's names and defaults; times are milliseconds.

    classic_new_member_join_timeout_ms: how long a new member may wait for its first rebalance, whatever its session.
    batch_bytes_max: of what is appended at once (message.max.bytes).
    """

    classic_group_max_size: int = 2**31 - 1
    classic_initial_rebalance_delay_ms: int = 3000
    classic_new_member_join_timeout_ms: int = 300_000
    batch_bytes_max: int = 1_048_588
    offset_metadata_max_size: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
