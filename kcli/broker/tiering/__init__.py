"""Tiered storage on a broker (KIP-405): old segments are objects in a store, with records about them in a topic.

    manager           the tasks of each tiered partition: copy, expire, delete
    segment_tasks     one segment copied or deleted, with its records
    quota             the rates of copies and reads
    store             the store, opened at the start
    config            what the broker's configuration says about it: TierConfig
    reader            reads from segments in the tier, for Fetch and ListOffsets
    read_ahead        reads from a bucket, ahead of consumers that read in order
    following         the state of a log in the tier, for a follower whose log begins after the tier's last offset
    reading           all that a broker needs to read from its tier
    index_cache       the indexes of segments, kept on this broker
    pool              threads for what waits for a store
    reads             what a Fetch wants of the tier, and what it gets
    metadata_topic    __remote_log_metadata: appends records, and replays those about the partitions of this broker
    followed          one partition of that topic, replayed: which records count, and who waits for which offset
    metadata_leaders  reads and appends at the leaders of that topic's partitions, here or on other brokers
    attach            a topic of the tier made one of a stopped node's cluster (`kcli tier attach`)

What the records mean, without I/O, is in kcli.tier.
"""
