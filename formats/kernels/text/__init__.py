"""Batches and records as text: as kafka-dump-log prints them, as JSON, as a table. `lines.pxd` has the shared parts."""
