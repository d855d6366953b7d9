"""Logs as tables: the Spark data source `kafka-log`, exports to Parquet and back. The only importer of pyspark."""
