"""A seeded simulation of a quorum of raft nodes, and nothing else of a broker."""
