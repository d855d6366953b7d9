"""Fetch sessions of consumers and of followers.

sessions   the sessions: a client's partitions, and the offsets of each in the last response (KIP-227)
tracker    the partitions of a session that have changed since the last response
"""
