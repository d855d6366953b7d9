"""Replication between brokers: what leaders know of their followers, and how followers keep up. No I/O in its rules."""
