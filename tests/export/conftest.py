"""What tests of exports and pipelines share: one Spark session, for a JVM takes seconds to start; and the bucket of a
tier."""

from contextlib import ExitStack

import pytest
from pyspark.sql import SparkSession

from kcli.export.session import QUICK_START, SparkSettings, spark_session
from tests.tier.conftest import proxy, s3, s3_endpoint

__all__ = ["proxy", "s3", "s3_endpoint", "spark"]


_SESSION = pytest.StashKey[SparkSession]()


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> SparkSession:
    """A quiet local Spark with two cores, set as it is by default; the data source is found by its name. It is one
    session for all test directories that import this fixture."""
    stash = request.config.stash
    if _SESSION not in stash:
        conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.python.filterPushdown.enabled": "false", **QUICK_START}
        stack = ExitStack()
        stash[_SESSION] = stack.enter_context(spark_session(SparkSettings("local[2]", conf)))
        request.config.add_cleanup(stack.close)
    return stash[_SESSION]
