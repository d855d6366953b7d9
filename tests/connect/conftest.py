"""PostgreSQL, for the tests of connectors."""

from tests.connect.postgres import postgres, postgres_server

__all__ = ["postgres", "postgres_server"]
