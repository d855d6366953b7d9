"""Compaction. key_map: the latest offset of each key; transactions: the batches of aborted transactions; batch_filter:
writes the records of a window that compaction keeps, which the two others decide."""
