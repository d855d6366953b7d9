"""Kafka's start on the directories of partitions: what it cuts, removes and renames, and how kcli does the same.

    loader          the steps of a start, in order: .deleted, .cleaned, .swap, indexes, unclean segments, producers
    segment         one segment as a start loads it: sanity check, recovery batch by batch, indexes built anew
    metadata_start  the further steps for the metadata log, which make its log and its snapshots agree
    salvage         the sound batches behind damage, which Kafka would lose
    foreign         a .log file that was copied from another partition's directory: finding that partition
    state_records   records that salvage appends to __transaction_state, so that producers with lost epochs can go on,
                    and to __consumer_offsets, so that groups of a grown topic get their offsets
    plan            one partition: the start simulated on a view, with or without salvage
    apply           the files of the view written to a copy, or the directory's files changed to those of the view
    node_directories  all log directories of a broker: the checks of a start that compare them
    run             all partitions of a log directory, with its checkpoints: `kcli recover`
    backup          the tar file of what recovery in place cuts

A start works on a `kcli.log.partition_view`; only `apply`, `run` and `backup` write.
Source: LogLoader, LogSegment.recover in Kafka's storage module.
"""
