"""A place for a table of each kind, as in tests of tables."""

from tests.pipelines.tables.conftest import place, plain_place

__all__ = ["place", "plain_place"]
