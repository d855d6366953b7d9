"""Compaction as Kafka's log cleaner does it: which logs, how far, what stays, and the change of files.

    partition    what the cleaner knows of a log: segments, offsets, producers, aborted transactions
    selection    from where to where it may clean, and whether it is worth it
    offset_map   the last offset of every key in the dirty part
    grouping     which segments become one
    rewrite      a group of segments into one, batch by batch
    swap         the new segment in the place of the old ones, recoverable at every step
    retention    old segments that compact,delete drops whole
    cleaning_pass  map, groups, rewriting: once
    cleaner      all of it for one partition
    log_cleaner  all of it for a log directory
    why          the fate of one key

Source: LogCleaner, LogCleanerManager, Cleaner in Kafka's storage module; KIP-58, KIP-98, KIP-354, KIP-534.
"""
