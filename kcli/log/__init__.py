"""Partitions on disk: their directories, segments, indexes and snapshots, as Kafka's storage module keeps them.

The packages, and what each does to a partition's directory:

    live       reads, writes   the log that a running broker appends to: validate, append, roll, read, flush, truncate
    read_only  reads           the same log, never written to, also while a running Kafka writes it; skips damage
    recovery   reads, writes   Kafka's start, simulated on a view; then reported, written to a copy, or applied in place
    cleaner    reads, writes   compaction: which records stay, and how the files of segments are replaced

Each package has its own class of segment: `LiveSegment` is appended to, `ReadOnlySegment` is searched without an index,
`RecoverySegment` is checked and cut in a view, `StoredSegment` is cleaned.

What the packages share:

    disk                 writes  makes every change to a disk, so that tests can make any of them fail, tear or get lost
    source               reads   the bytes of one file by position, or of a pipe
    segment_reader       reads   a source as windows of whole batches, and the damage in between
    legacy_message       reads   the offsets of a message of magic 0 or 1, also of the messages in a compressed one
    batch_records        -       the records of a window as columns
    stored_batches       reads   the batches of a segment with their records, one by one: for small logs
    coordinator_records  reads   every record of a partition of __consumer_offsets or __transaction_state
    partition_view       reads   the files of a partition's directory, with changes that are not written yet
    index_entries        -       the bytes of `.index`, `.timeindex` and `.txnindex`: search, last entry, trimming
    leader_epochs        -       which leader epoch began at which offset: leader-epoch-checkpoint
    producer_state       reads   idempotent producers and open transactions up to an offset: `.snapshot`
    partition_directory  writes  one partition's directory: made, renamed to -delete or -stray; partition.metadata
    odd_entries          -       entries of checkpoints that no broker writes, and what Kafka does with them
    log_directory        writes  a broker's log directory: lock, meta.properties, checkpoints, the partitions in it
    new_directory        writes  a directory that gets its name when it is complete
    synced_together      writes  files of a new directory, made durable by several threads at a time
    config               -       a topic's configuration of its log: names, types, defaults, limits
    config_providers     reads   values of a properties file that come from other files and from the environment
    retention            -       the old segments to delete by retention.bytes, retention.ms and the log start offset

Imports: read_only -> live -> recovery, cleaner -> the shared modules. Read first `segment_reader`, then
`live.partition_log`, then `recovery.loader`.
"""
