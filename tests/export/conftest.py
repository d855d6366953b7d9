"""What tests of exports share: one Spark session, for a JVM takes seconds to start; and the bucket of a tier."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from kcli.export.session import QUICK_START, SparkSettings, spark_session
from tests.tier.conftest import proxy, s3, s3_endpoint

__all__ = ["proxy", "s3", "s3_endpoint", "spark"]


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A quiet local Spark with two cores, set as it is by default; the data source is found by its name."""
    conf = {"spark.sql.shuffle.partitions": "2", "spark.sql.python.filterPushdown.enabled": "false", **QUICK_START}
    with spark_session(SparkSettings("local[2]", conf)) as session:
        yield session
