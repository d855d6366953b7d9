"""The replicas on this broker: their logs, their leadership, and the requests that wait for them.

partitions     Partition, a replica on this broker, and Partitions, all of them
leadership     what a leader knows of its followers: in-sync replicas and high watermark
replica_host   the functions of the broker that a partition needs in order to lead followers
commit_waits   waits until the high watermark is at least an offset
truncation     the offset at which a follower truncates its log if it diverges from the leader's
long_batches   checks, in threads, of batches that take long to decompress
"""
