"""Clusters, for the commands that talk to one."""

from tests.client.clusters import cluster

__all__ = ["cluster"]
