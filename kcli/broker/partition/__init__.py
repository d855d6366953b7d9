"""The replicas on this broker: their logs, their leadership, and the requests that wait for them.

partitions     Partition, a replica on this broker, and Partitions, all of them
leadership     a leader's state of its followers: in-sync replicas and high watermark
replica_host   what a partition needs of its broker in order to lead followers
commit_waits   waits until the high watermark has passed an offset
truncation     the offset at which a follower's log that diverges from the leader's is cut
long_batches   checks, in threads, of batches that take long to decompress
"""
