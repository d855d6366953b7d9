"""The clusters, for the tests of this directory."""

from tests.client.clusters import cluster

__all__ = ["cluster"]
