"""The batches that a producer tried to append while the coordinator had not yet verified their transaction.

The broker verifies a transaction with its coordinator before it appends the first batch. If the coordinator refuses,
a batch with a higher sequence must not be appended in place of the first one. A verification ends when a batch of the
transaction is appended. Source: VerificationStateEntry; KIP-890.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Verification:
    """The attempts of a producer to append before the coordinator had verified its transaction. lowest_sequence: the
    lowest sequence that it tried in `epoch`. begins_at_0: whether a producer that has no batch in the log must begin
    with sequence 0, as new clients do. since_ms: when the verification began."""

    epoch: int
    lowest_sequence: int
    begins_at_0: bool
    since_ms: int

    def tried(self, epoch: int, sequence: int) -> None:
        """Note that the producer tried to append a batch with `sequence` in `epoch`."""
        if epoch > self.epoch or (epoch == self.epoch and sequence < self.lowest_sequence):
            self.epoch, self.lowest_sequence = epoch, sequence
