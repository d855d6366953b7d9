"""Classic groups: members join a generation, and the leader among them computes the assignment (KIP-62, KIP-345,
KIP-394)."""
