"""Compaction of a log.

batch_filter   writes the records that compaction keeps of one window of the log
key_map        the latest offset of each key; batch_filter drops the records of the key at lower offsets
transactions   finds the batches of aborted transactions, whose records batch_filter drops
"""
