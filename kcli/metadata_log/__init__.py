"""The metadata log's files, for the broker and for the repair of a node that is down; kcli.metadata has the image that
its records make.

    records         metadata records and control records, from and to batches
    snapshot_file   the batches of a snapshot and of bootstrap.checkpoint
    quorum_records  kraft.version and the voters, from control records
    replay          makes the image of the latest snapshot and the log behind it, as a start does or around damage
    lost            the records that a start loses where the log is damaged, and the partitions that become strays
    recovery        the metadata log in a recovery of its log directory: what a start means for the cluster
    salvage         makes a snapshot of all records that can still be read, where this node is the only voter

None of them writes; recovery and salvage are for `kcli recover` alone.
"""
