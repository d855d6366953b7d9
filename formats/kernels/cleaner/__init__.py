"""Compaction of a log.

batch_filter   writes the records of a window of the log that compaction keeps
key_map        tells batch_filter the latest offset of each key; records of that key below it are dropped
transactions   finds the batches of aborted transactions, whose records batch_filter drops
"""
