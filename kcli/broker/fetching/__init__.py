"""Fetch sessions of consumers and of followers.

sessions   sessions: the partitions of a client, and the last response for each (KIP-227)
tracker    the partitions of a session that have changed since the last response
"""
