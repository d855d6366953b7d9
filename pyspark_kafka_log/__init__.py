"""Lets Spark find the data source `kafka-log`: it looks for a DefaultSource in modules whose names begin pyspark_."""

from kcli.export.source import KafkaLogDataSource as DefaultSource

__all__ = ["DefaultSource"]
