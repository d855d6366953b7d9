"""Classic groups: members join, one of them leads and assigns, all are in one generation (KIP-62, KIP-345, KIP-394)."""
