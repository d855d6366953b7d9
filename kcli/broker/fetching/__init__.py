"""Fetch sessions of consumers and of followers.

sessions   the sessions: a client's partitions, and what the last response had for each (KIP-227)
tracker    the partitions of a session that have changed since the last response
"""
