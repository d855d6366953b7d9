"""A place for a table of each kind, as in tests of tables; and a schema registry, as in those of decoding."""

from tests.export.decoding.test_registry import server
from tests.pipelines.tables.conftest import place, plain_place

__all__ = ["place", "plain_place", "server"]
