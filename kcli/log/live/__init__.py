"""The log of one partition that a running broker appends to. Read `partition_log` first.

    partition_log    the log: append as leader or follower, read, roll, truncate, delete records, retention
    validator        a leader's checks of one batch, its offsets, its conversion to the topic's codec
    producer_check   a leader's checks of a producer's epoch, sequence and transaction
    producer_recall  batches of a producer that its snapshot left out, read back from the log
    verification     the lowest sequence that a producer tried to append before its transaction was verified (KIP-890)
    producers        the producers' state, updated with every append; its snapshots; transactions not yet replicated
    segments         the segments in order: finds the region of a file for a Fetch, the first record with a timestamp
    segment          one segment: append, find an offset, roll, truncate
    index            one offset or time index, written through the disk and searched over a memory map
    flush            a flush in three steps, of which another thread runs the middle one
    compaction       one pass of the cleaner while appends and reads go on

No thread and no clock: times are arguments, and work to do later is returned. Changes go through `kcli.log.disk`.
Source: UnifiedLog, LocalLog, LogSegment in Kafka's storage module.
"""
