"""MirrorMaker 2: topics, group offsets and heartbeats of a source cluster, to a target cluster.

    policies     how a topic is called in the target cluster; topics and groups that are mirrored. No I/O
    records      offset syncs, checkpoints and heartbeats as bytes. No I/O
    offset_syncs which offset of the target is that of the source: when a sync is due, and what follows from the syncs
    options      the options of the connectors, and the clusters that they name
    topics       the topics of the target: made, given partitions and configurations
    source       MirrorSourceConnector: records, with their headers and timestamps, to partitions of the same number
    checkpoint   MirrorCheckpointConnector: the offsets of groups, translated
    heartbeat    MirrorHeartbeatConnector: a record a second, which the way of the records takes, too

The target is the cluster of the worker's producers. Source: KIP-382, KIP-618, connect-mirror 4.3.
"""
