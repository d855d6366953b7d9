"""Backups of a node's log directories in a store, and new log directories of them.

    in    log directories, which a broker may be writing, or a cluster; a store (kcli.tier.store), a directory or a
          bucket
    out   objects with the bytes of its partitions, and a manifest for each run; a log directory that Kafka opens

    manifest   what a run has: partitions, segments, the objects of each, with their SHA-256
    runs       the manifests in a store
    listing    the files of a partition that a backup reads
    backup     a run: where each partition ends, then the bytes that the store does not have
    cluster    a run over the network, with what the leaders of a cluster's partitions have
    uploads    the objects that a run adds to a store, of either kind of run
    cut        where a partition of a run ends, so that no transaction is ahead of its coordinator
    restore    a run's partitions written to a new log directory
    garbage    the objects that no run needs

Read first `manifest`, then `backup`, then `restore`.
"""
