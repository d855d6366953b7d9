"""Clusters of real processes with real clients, while nodes, disks and the network fail: python -m tests.chaos."""
