"""Raft."""
