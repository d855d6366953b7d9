"""The registration of the data source `kafka-log`: Spark loads DefaultSource from each module named pyspark_*."""

from kcli.export.source import KafkaLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
