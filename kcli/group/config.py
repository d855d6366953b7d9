"""What of a broker's configuration the group coordinator goes by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Kafka's names and defaults; times are milliseconds.

    classic_new_member_join_timeout_ms: how long a new member may wait for its first rebalance, whatever its session.
    consumer_migration_policy: whether groups of one protocol become groups of the other while they have members.
    batch_bytes_max: of what is appended at once (message.max.bytes).
    """

    classic_group_max_size: int = 2**31 - 1
    classic_initial_rebalance_delay_ms: int = 3000
    classic_new_member_join_timeout_ms: int = 300_000
    batch_bytes_max: int = 1_048_588
    consumer_group_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    consumer_migration_policy: str = "bidirectional"
    consumer_regex_refresh_interval_ms: int = 600_000
    offset_metadata_max_size: int = 4096
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000

    @property
    def can_upgrade(self) -> bool:
        """May classic groups become consumer groups while they have members?"""
        return self.consumer_migration_policy.lower() in ("upgrade", "bidirectional")

    @property
    def can_downgrade(self) -> bool:
        """May consumer groups become classic groups while they have members?"""
        return self.consumer_migration_policy.lower() in ("downgrade", "bidirectional")
