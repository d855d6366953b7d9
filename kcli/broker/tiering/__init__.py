"""Tiered storage on a broker (KIP-405): old segments are objects in a store, with records about them in a topic.

    manager           the tasks of each tiered partition: copy segments to the tier, expire and delete them there
    segment_tasks     copies or deletes one segment, and appends the records about it
    quota             the rates of copies to the tier and of reads from it
    store             opens the store when the broker starts
    config            TierConfig: the broker's configurations of tiered storage
    reader            reads from segments in the tier, for Fetch and ListOffsets
    read_ahead        reads objects of a bucket, ahead of consumers that read in order
    following         leader epochs and producers of a log, for a follower that begins behind a segment in the tier
    reading           the objects by which a broker reads from its tier: index cache, threads, reader and following
    index_cache       the indexes of segments, kept as files on this broker
    pool              threads for calls of the store, which may take long
    reads             the values that a Fetch passes to the reader, and gets from it
    metadata_topic    __remote_log_metadata: appends records, and replays those about the partitions of this broker
    followed          one partition of that topic: replays its records, and ends the waits for them
    metadata_leaders  reads and appends at the leaders of that topic's partitions, here or on other brokers
    attach            adds a topic in the tier to the cluster of a stopped node (`kcli tier attach`)

What the records mean is computed in kcli.tier, without I/O.
"""
