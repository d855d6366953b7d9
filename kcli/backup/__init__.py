"""Backups of a node's log directories, or of a cluster, in a store, and their restore to new log directories.

    backup    reads log directories, which a broker may be writing, or a cluster over the network. Each backup (a run)
              adds objects with the bytes of partitions, and a manifest, to a store: a directory or a bucket
    restore   writes log directories with the partitions of one run, with which Kafka starts

    manifest   what a run has: partitions, segments, the objects of each, with their SHA-256
    runs       the manifests in a store
    listing    the files of a partition that a backup reads
    backup     a run: where each partition ends, then the bytes that the store does not have
    cluster    a run over the network, with what the leaders of a cluster's partitions have
    uploads    the objects that a run adds to a store, used by both kinds of run
    cut        where a partition of a run ends, so that no transaction is ahead of its coordinator
    restore    a run's partitions written to a new log directory
    checking   whether the store still has the objects of its runs, as they were written
    garbage    the objects that no run needs

Read first `manifest`, then `backup`, then `restore`.
"""
