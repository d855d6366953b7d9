"""Compaction as Kafka's log cleaner does it: which logs are cleaned, up to which offset, which records stay, and how
files are replaced.

    partition      what the cleaner knows of a log: segments, offsets, producers, aborted transactions
    selection      between which offsets a log may be cleaned, and whether it is dirty enough
    offset_map     the last offset of every key in the dirty part
    grouping       which segments are rewritten into one
    rewrite        rewrites a group of segments into one, batch by batch
    swap           puts the new segment in the place of the old ones, recoverable at every step
    retention      deletes old segments of a log that no broker has open
    cleaning_pass  one pass: builds the offset map, groups the segments, rewrites each group
    cleaner        retention and all passes for one partition
    log_cleaner    retention and all passes, for every partition of a log directory
    why            what the cleaner would do with each record of one key

Source: LogCleaner, LogCleanerManager, Cleaner in Kafka's storage module; KIP-58, KIP-98, KIP-354, KIP-534.
"""
