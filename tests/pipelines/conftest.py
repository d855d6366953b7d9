"""What tests of pipelines share with those of exports: one Spark session."""

from tests.export.conftest import spark

__all__ = ["spark"]
