"""The registration of the data source `kafka-log`: Spark loads DefaultSource from each module named pyspark_*."""

from kcli.pipelines.source import KafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
