"""Compaction of a log.

batch_filter writes the records of a window of the log that compaction keeps key_map the latest offset of each key;
tells batch_filter which records are superseded transactions the batches of aborted transactions, whose records
batch_filter drops
"""
