"""The tier: old segments of topics with remote.storage.enable, kept as objects in a store (KIP-405).

    in    the objects of a store; if there is a broker's log directory, its `__remote_log_metadata` and local logs
    out   the state of each segment, the segment from which an offset is read, what is missing; a log directory with the
          segments and the local logs joined

What decides, without I/O:

    segment          a segment as the records describe it, and the states that it goes through
    cache            the segments of one partition, by leader epoch and offset: Kafka's RemoteLogMetadataCache
    metadata         the records of all partitions, replayed
    records          the records that a broker appends, as bytes
    lineage          which segment each offset is read from, by the lineage of leader epochs
    copying          how far a log is in the tier
    expiry           which segments a leader deletes
    layout           the names of a segment's objects
    plugin_layout    the names of the objects that Aiven's plugin makes of a segment

What reads and writes:

    store            the interface of a store: names and bytes
    local            a directory, as Kafka's LocalTieredStorage lays it out
    bucket           a bucket of S3, Google Cloud Storage or Azure, with the same names
    windows          an object of a bucket as a Source
    bucket_path      one object by its URL, or those below a URL
    plugin_store     a directory or a bucket as Aiven's plugin lays it out, with the same names
    chunks           a segment in chunks, compressed or encrypted, as a Source
    key_pairs        the keys of encrypted segments
    spool            an object, copied to a temporary file
    opening          the store that an address (`address`) names
    metadata_log     the records of `__remote_log_metadata` in a broker's log directory
    stored_segment   a segment as its objects describe it, if there are no records of it
    tier             all of this for a store and a log directory
    unread           offsets that the store may have, but that no read returns
    fetch            segments and local log written to a new log directory
    attachment       what a new cluster must know of a topic in the tier

Read first `cache`, then `lineage`, then `tier`.
"""
