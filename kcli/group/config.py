"""The configurations of the broker that the group coordinator uses."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupConfig:
    """Configurations of groups and of their offsets, with Kafka's defaults; times are in milliseconds.

    classic_new_member_join_timeout_ms: the session timeout of a new member until its first rebalance is complete; the
    member's own session timeout applies after that.
    consumer_migration_policy: in which direction groups with members may change between the classic and the consumer
    protocol: bidirectional, upgrade (to the consumer protocol), downgrade (to the classic one) or disabled.
    batch_bytes_max: the largest batch that the coordinator appends (message.max.bytes), bytes.
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
        """Whether classic groups may become consumer groups while they have members."""
        return self.consumer_migration_policy.lower() in ("upgrade", "bidirectional")

    @property
    def can_downgrade(self) -> bool:
        """Whether consumer groups may become classic groups while they have members."""
        return self.consumer_migration_policy.lower() in ("downgrade", "bidirectional")
