"""The metadata log's files, for the broker and for the repair of a node that is down; kcli.metadata has the image that
its records make.

    records         metadata records and control records, from and to batches
    snapshot_file   the batches of a snapshot and of bootstrap.checkpoint
    snapshot_end    a snapshot whose footer is cut off or torn
    quorum_records  kraft.version and the voters, from control records
    replay          makes the image of the latest snapshot and the log after it, as Kafka's start does, or skipping
                    damage
    lost            the records that Kafka's start loses of a damaged log, and the partition directories that it renames
                    to -stray
    recovery        the metadata log in a recovery of its log directory: what Kafka's start would lose of the metadata
    unserved_state  groups and transactional ids that Kafka does not find, as their coordinator's topic has grown
    salvage         makes a snapshot of all records that can still be read, if this node is the only voter

None of them writes; only `kcli recover` uses recovery and salvage.
"""
