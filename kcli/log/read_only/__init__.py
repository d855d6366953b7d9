"""The log of one partition, read without being opened for writes: damaged or not, also while a running Kafka writes it.

    log      what a broker needs to serve the partition: offsets, batches, open and aborted transactions, leader epochs
    segment  one `.log` file: adjacent sound batches, found without an index
    survey   what kcli keeps in memory of a segment that it has read: positions of sound batches, transaction markers

Nothing is written, and no index is needed. Checkpoints and snapshots are used if they are sound and fit the log.
"""
