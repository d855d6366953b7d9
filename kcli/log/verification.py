"""What is known of a producer whose transaction is to begin in a partition: the first batch that it has tried.

The coordinator is asked before that batch is appended, and may say no; then a later batch must not take its place.
Forgotten when a batch of the transaction is in the log. Source: VerificationStateEntry; KIP-890.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Verification:
    """The lowest sequence of an epoch. begins_at_0: a producer that the log does not know must (new clients)."""

    epoch: int
    lowest_sequence: int
    begins_at_0: bool
    since_ms: int

    def tried(self, epoch: int, sequence: int) -> None:
        """One more batch."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch, self.lowest_sequence = epoch, sequence
